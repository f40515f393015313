package fibermw

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// shown is all that a handler can see of a request's header.
type shown struct {
	method  string
	lines   map[string][]string
	inOrder []string
	raw     string
	cookies map[string]string
}

func see(c *fiber.Ctx) shown {
	h := &c.Request().Header
	s := shown{method: strings.Clone(c.Method()) + " " + string(h.Method()), lines: map[string][]string{}, cookies: map[string]string{}}
	for key, value := range h.AllInOrder() {
		s.inOrder = append(s.inOrder, fmt.Sprintf("%s=%s", key, value))
	}
	s.raw = string(h.RawHeaders())
	s.cookies["a"], s.cookies["b"] = strings.Clone(c.Cookies("a")), strings.Clone(c.Cookies("b"))
	for key, value := range h.All() {
		s.lines[string(key)] = append(s.lines[string(key)], string(value))
	}
	return s
}

func TestShow(t *testing.T) {
	request := get("HEAD", "/", "X-A: 1", "AUTHORIZATION: Bearer 1", "authorization: Bearer 2", "Accept: a", "X-Forwarded-For: 1.1.1.1",
		"Cookie: a=1; b=2", "Range: bytes=0-1", "X-Forwarded-For: 2.2.2.2", "Accept: b", "X-Forwarded-For: 3.3.3.3", "If-None-Match: \"x\"")
	call := host.Call{
		Method: http.MethodGet,
		Drop:   []string{"Authorization", "Range", "Cookie", "X-Absent"},
		Set: []headers.Field{
			{Op: headers.Set, Name: "Cookie", Value: "b=2"},
			{Op: headers.Set, Name: "If-None-Match", Value: `"longer than it was"`},
			{Op: headers.Add, Name: "Accept", Value: "c"},
			{Op: headers.Del, Name: "X-A"},
		},
	}
	for _, cfg := range []fiber.Config{{}, {DisableHeaderNormalizing: true}} {
		t.Run(fmt.Sprint(cfg.DisableHeaderNormalizing), func(t *testing.T) {
			for _, limit := range []int64{0, 10} {
				app := newApp(cfg)
				var before, inside, after shown
				app.Use(func(c *fiber.Ctx) error {
					before = see(c)
					err := c.Next()
					after = see(c)
					return err
				})
				app.Get("/", handler(func(x host.Exchange) {
					call := call
					call.Limit = limit
					res := x.Run(call)
					if !res.Passed {
						x.Reply(replyOf(res))
					}
				}), func(c *fiber.Ctx) error { inside = see(c); return nil })
				exchangeRaw(t, listen(t, app), request)

				want := map[string][]string{
					"Host": {"example.com"}, "Connection": {"close"}, "Accept": {"a", "b", "c"}, "Cookie": {"b=2"},
					"If-None-Match":   {`"longer than it was"`},
					"X-Forwarded-For": {"1.1.1.1", "2.2.2.2", "3.3.3.3"}, // in order: the last is the one to trust
				}
				if !reflect.DeepEqual(inside.lines, want) || inside.method != "GET GET" || inside.cookies["a"] != "" || inside.cookies["b"] != "2" {
					t.Errorf("limit %d: the handler sees %+v", limit, inside)
				}
				if strings.Contains(inside.raw, "Bearer") || strings.Contains(inside.raw, "a=1") || !slices.Contains(inside.inOrder, "Cookie=b=2") || !slices.Contains(inside.inOrder, "X-Forwarded-For=2.2.2.2") {
					t.Errorf("limit %d: as received, the handler sees %q", limit, inside.raw)
				}
				if !reflect.DeepEqual(before, after) || before.method != "HEAD HEAD" {
					t.Errorf("limit %d: not restored\n%+v\n%+v", limit, before, after)
				}
			}
		})
	}
}

// What middleware outside took from the request before the call stays what it was: Fiber's strings
// alias the buffers of the header.
func TestShowLeavesStringsAlone(t *testing.T) {
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		method, agent, id, accept, cookie := c.Method(), c.Get("User-Agent"), c.Get("X-Id"), c.Get("Accept"), c.Get("Cookie")
		err := c.Next()
		if got := []string{method, agent, id, accept, cookie}; !slices.Equal(got, []string{"HEAD", "agent", "identity", "text/html", "c=1"}) {
			t.Errorf("now %q", got)
		}
		return err
	})
	app.Get("/", handler(func(x host.Exchange) {
		x.Run(host.Call{Method: "GET", Limit: 10, Drop: []string{"X-Id", "Cookie", "User-Agent"}, Set: []headers.Field{{Op: headers.Set, Name: "X-New", Value: "overwrites"}}})
	}), func(*fiber.Ctx) error { return nil })
	ask(t, app, "HEAD", "/", "User-Agent", "agent", "X-Id", "identity", "Accept", "text/html", "Cookie", "c=1")
}

// A call that changes nothing leaves what the handler does to the request where middleware outside sees it.
func TestShowNothing(t *testing.T) {
	app := newApp()
	var after string
	app.Use(func(c *fiber.Ctx) error {
		err := c.Next()
		after = value(c.UserContext(), "handler") + c.Get("X-Handler")
		return err
	})
	app.Get("/", handler(func(x host.Exchange) { x.Run(host.Call{Method: "GET"}) }), func(c *fiber.Ctx) error {
		c.SetUserContext(with(c.UserContext(), "handler", "1"))
		c.Request().Header.Set("X-Handler", "2")
		return nil
	})
	ask(t, app, "GET", "/")
	if after != "12" {
		t.Errorf("outside sees %q", after)
	}
}

func TestHideRaw(t *testing.T) {
	raw := []byte("Host: a\r\ncookie: a=1; b=2\r\nX-B: 1\r\nX-Folded: a\r\n b\r\nX-C: 1\r\nCookie:\r\n\r\n")
	hideRaw(raw, host.Call{Drop: []string{"X-Folded", "Cookie"}, Set: []headers.Field{{Op: headers.Set, Name: "Cookie", Value: "b=2"}}})
	want := "Host: a\r\ncookie: b=2     \r\nX-B: 1\r\nX-Folded:  \r\n  \r\nX-C: 1\r\nCookie:\r\n\r\n"
	if string(raw) != want {
		t.Errorf("got  %q\nwant %q", raw, want)
	}
}
