package fibermw

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/gofiber/fiber/v2/middleware/requestid"

	"github.com/herdgate/herdgate/internal/host"
)

func TestHeadIsGet(t *testing.T) {
	ok := func(*fiber.Ctx) error { return nil }
	answer := func(n int) fiber.Handler { return func(c *fiber.Ctx) error { return c.SendString(fmt.Sprint(n)) } }
	for name, c := range map[string]struct {
		routes func(app *fiber.App, cache fiber.Handler)
		want   bool
	}{
		"Get":   {func(app *fiber.App, cache fiber.Handler) { app.Get("/x", cache, ok) }, true},
		"Use":   {func(app *fiber.App, cache fiber.Handler) { app.Use(cache); app.Get("/x", ok) }, true},
		"Group": {func(app *fiber.App, cache fiber.Handler) { app.Group("/", cache).Get("/x", ok) }, true},
		"All":   {func(app *fiber.App, cache fiber.Handler) { app.All("/x", cache, ok) }, true},
		"other methods": {func(app *fiber.App, cache fiber.Handler) {
			app.Post("/x", ok)
			app.Get("/x", cache, ok)
			app.Put("/x", ok)
		}, true},
		"static": {func(app *fiber.App, cache fiber.Handler) { app.Use(cache); app.Static("/", ".") }, true},
		"mounted": {func(app *fiber.App, cache fiber.Handler) {
			sub := newApp()
			sub.Get("/", cache, ok)
			app.Mount("/x", sub)
		}, true},
		"merged routes": {func(app *fiber.App, cache fiber.Handler) { // Fiber makes one route of neighbours with one path
			app.Use(recover.New())
			app.Use(requestid.New())
			app.Get("/x", cache)
			app.Get("/x", ok)
		}, true},
		"another HEAD before": {func(app *fiber.App, cache fiber.Handler) {
			app.Head("/x", cache, answer(1))
			app.Get("/x", cache, answer(2))
		}, false},
		"another HEAD, later": {func(app *fiber.App, cache fiber.Handler) {
			app.Use(cache)
			app.Head("/x", answer(1))
			app.Get("/x", answer(2))
		}, false},
		"registered one by one": {func(app *fiber.App, cache fiber.Handler) {
			app.Add("HEAD", "/x", cache, ok)
			app.Add("GET", "/x", cache, ok)
		}, true},
		"two of one closure": {func(app *fiber.App, cache fiber.Handler) {
			app.Add("HEAD", "/x", cache, answer(1))
			app.Add("GET", "/x", cache, answer(2))
		}, false},
		"HEAD only": {func(app *fiber.App, cache fiber.Handler) { app.Head("/x", cache, ok) }, false},
		"different paths": {func(app *fiber.App, cache fiber.Handler) {
			app.Add("HEAD", "/x", cache, ok)
			app.Add("GET", "/y", cache, ok)
		}, false},
		"a HEAD route of its own": {func(app *fiber.App, cache fiber.Handler) { app.Get("/x", cache, ok); app.Head("/health", ok) }, false},
		"the GET registered alone": {func(app *fiber.App, cache fiber.Handler) {
			app.Head("/x", cache, ok)
			app.Add("GET", "/x", cache, ok)
			app.Add("GET", "/y", ok)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			asked := false
			c.routes(app, handler(looking(func(x host.Exchange) {
				asked = true
				if got := x.HeadIsGet(); got != c.want {
					t.Errorf("got %t", got)
				}
			})))
			ask(t, app, "HEAD", "/x")
			if !asked {
				t.Error("the request did not arrive")
			}
		})
	}
}

func TestHeadIsGetWithoutGet(t *testing.T) {
	app := newApp(fiber.Config{RequestMethods: []string{"HEAD", "POST"}})
	app.Head("/", handler(looking(func(x host.Exchange) {
		if x.HeadIsGet() {
			t.Error("there is no GET")
		}
	})), func(*fiber.Ctx) error { return nil })
	ask(t, app, "HEAD", "/")
}

// A HEAD that is served as GET goes on through the routes of GET, and its client gets the header of GET's response.
func TestHeadServedAsGet(t *testing.T) {
	app := newApp()
	var results []host.Result
	app.Use(handler(answering(&results)))
	app.Post("/a", func(c *fiber.Ctx) error { return c.SendString("wrong") })
	app.Get("/:p", func(c *fiber.Ctx) error {
		if c.Method() != "GET" || !c.Context().IsGet() {
			return c.SendString("not a GET")
		}
		return c.Next()
	})
	app.Use("/a", func(c *fiber.Ctx) error { c.Set("X-Use", c.Method()); return c.Next() })
	app.Get("/a", func(c *fiber.Ctx) error { return c.SendString("hello " + c.Query("n")) })
	resp, _ := ask(t, app, http.MethodHead, "/a?n=1")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Length") != "7" || resp.Header.Get("X-Use") != "GET" || string(results[0].Body) != "hello 1" {
		t.Errorf("%d %v, captured %+v", resp.StatusCode, resp.Header, results)
	}
}
