package fibermw

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/route"
)

func memoryGate(t *testing.T) *core.Gate {
	t.Helper()
	gate, err := core.New(core.Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := gate.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return gate
}

func TestCache(t *testing.T) {
	app := newApp()
	var outcomes []core.Role
	app.Use(func(c *fiber.Ctx) error {
		err := c.Next()
		outcomes = append(outcomes, Outcome(c).Role)
		return err
	})
	runs := 0
	app.Get("/", Cache(memoryGate(t), core.FreshFor(time.Minute),
		KeyBy(func(c *fiber.Ctx) string { return c.Get("X-Tenant") }),
		SkipIf(func(c *fiber.Ctx) bool { return c.Query("skip") != "" })),
		func(c *fiber.Ctx) error {
			runs++
			return c.SendString(fmt.Sprint(runs, c.Get("X-Tenant")))
		})
	for i, c := range []struct{ target, tenant, body string }{
		{"/", "a", "1a"},
		{"/", "a", "1a"},
		{"/", "b", "2b"},
		{"/?skip=1", "a", "3a"},
		{"/", "", "4"},
		{"/", "b", "2b"},
	} {
		if resp, body := ask(t, app, "GET", c.target, "X-Tenant", c.tenant); body != c.body {
			t.Errorf("request %d: %q, %v", i, body, resp.Header)
		}
	}
	want := []core.Role{core.RoleWinner, core.RoleHit, core.RoleWinner, core.RoleBypass, core.RoleBypass, core.RoleHit}
	if fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
}

func TestCachePanicsAtRegistration(t *testing.T) {
	for name, register := range map[string]func(){
		"nil gate":       func() { Cache(nil) },
		"invalid option": func() { Cache(memoryGate(t), core.FreshFor(-1)) },
		"nil KeyBy":      func() { Cache(memoryGate(t), KeyBy(nil)) },
		"nil SkipIf":     func() { Cache(memoryGate(t), SkipIf(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			register()
		})
	}
	if err := core.Check(KeyBy(nil), SkipIf(nil)); err == nil || !strings.Contains(err.Error(), "KeyBy") || !strings.Contains(err.Error(), "SkipIf") {
		t.Errorf("Check: %v", err)
	}
}

// The options of Fiber on the route of another framework: nothing is cached.
func TestOptionsOnAnotherFramework(t *testing.T) {
	var cfg route.Config
	for _, opt := range []core.RouteOption{
		KeyBy(func(*fiber.Ctx) string { return "a" }),
		SkipIf(func(*fiber.Ctx) bool { return false }),
	} {
		if err := opt(&cfg); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.KeyBy(t) != "" || !cfg.Skip(t) {
		t.Errorf("key %q, skip %t", cfg.KeyBy(t), cfg.Skip(t))
	}
}

// What KeyBy returns aliases Fiber's buffers and is kept.
func TestKeyByIsCopied(t *testing.T) {
	var cfg route.Config
	if err := KeyBy(func(c *fiber.Ctx) string { return c.Get("X-Tenant") })(&cfg); err != nil {
		t.Fatal(err)
	}
	app := newApp()
	var kept []string
	app.Get("/", func(c *fiber.Ctx) error {
		kept = append(kept, cfg.KeyBy(c))
		for i, b := range c.Request().Header.Peek("X-Tenant") {
			c.Request().Header.Peek("X-Tenant")[i] = b + 1
		}
		return nil
	})
	ask(t, app, "GET", "/", "X-Tenant", "abc")
	if kept[0] != "abc" {
		t.Errorf("became %q", kept[0])
	}
}

func TestOutcomeWithoutCache(t *testing.T) {
	app := newApp()
	app.Get("/", func(c *fiber.Ctx) error {
		if Outcome(c) != (core.Outcome{}) {
			t.Errorf("got %+v", Outcome(c))
		}
		return nil
	})
	ask(t, app, "GET", "/")
}

// A stale copy is refreshed in the background, through the whole application.
func TestRefresh(t *testing.T) {
	app := newApp()
	refreshing := make(chan bool, 10)
	app.Use(func(c *fiber.Ctx) error {
		if core.Refreshing(c.UserContext()) {
			defer func() { refreshing <- true }()
		}
		return c.Next()
	})
	runs := 0
	app.Get("/", Cache(memoryGate(t), core.FreshFor(50*time.Millisecond), core.StaleFor(time.Hour)), func(c *fiber.Ctx) error {
		runs++
		return c.SendString(fmt.Sprint(runs))
	})
	ask(t, app, "GET", "/")
	deadline := time.Now().Add(5 * time.Second)
	for {
		resp, body := ask(t, app, "GET", "/")
		if body == "1" && strings.Contains(resp.Header.Get("Cache-Status"), "ttl=-") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("never stale: %q %v", body, resp.Header)
		}
	}
	select {
	case <-refreshing:
	case <-time.After(5 * time.Second):
		t.Fatal("no refresh")
	}
	for _, body := ask(t, app, "GET", "/"); body == "1"; _, body = ask(t, app, "GET", "/") {
		if time.Now().After(deadline) {
			t.Fatal("the refresh was not stored")
		}
	}
}
