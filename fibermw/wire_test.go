package fibermw

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/compress"
	"github.com/gofiber/fiber/v2/middleware/etag"

	"github.com/herdgate/herdgate/internal/host"
)

// replaying captures the first response and answers all others with it.
func replaying() host.Middleware {
	var mu sync.Mutex
	var stored *host.Reply
	return func(x host.Exchange) {
		mu.Lock()
		defer mu.Unlock()
		if stored == nil {
			reply := replyOf(x.Run(capturing()))
			stored = &reply
		}
		x.Reply(*stored)
	}
}

// On a real connection a response that was captured, and one that was replayed, are what the handler's would have
// been without the middleware: for GET and HEAD, whichever came first, and with the settings of an application that
// change what fasthttp makes up.
func TestWire(t *testing.T) {
	handlers := map[string]fiber.Handler{
		"text":            func(c *fiber.Ctx) error { return c.SendString("hello") },
		"bytes":           func(c *fiber.Ctx) error { return c.Send([]byte("hello")) },
		"json":            func(c *fiber.Ctx) error { return c.Status(201).JSON(fiber.Map{"a": 1}) },
		"nothing":         func(*fiber.Ctx) error { return nil },
		"empty with type": func(c *fiber.Ctx) error { return c.Type("html").Send(nil) },
		"404":             func(*fiber.Ctx) error { return fiber.ErrNotFound },
		"204":             func(c *fiber.Ctx) error { return c.SendStatus(204) },
		"205":             func(c *fiber.Ctx) error { return c.Status(205).SendString("x") },
		"304":             func(c *fiber.Ctx) error { c.Set("Etag", `"a"`); return c.SendStatus(304) },
		"redirect":        func(c *fiber.Ctx) error { return c.Redirect("/elsewhere?a=b") },
		"error":           func(*fiber.Ctx) error { return errTeapot },
		"no type":         func(c *fiber.Ctx) error { c.Response().Header.SetNoDefaultContentType(true); return c.SendString("x") },
		"many": func(c *fiber.Ctx) error {
			for i := range 3 {
				c.Response().Header.Add("Link", fmt.Sprint(i))
				c.Cookie(&fiber.Cookie{Name: fmt.Sprint(i), Value: "v", SessionOnly: true})
			}
			c.Vary("Accept")
			c.Set("Content-Encoding", "x")
			c.Set("Server", "own")
			return c.SendString(strings.Repeat("x", 10_000))
		},
		"deletes": func(c *fiber.Ctx) error {
			c.Response().Header.Del("X-Outer")
			c.Response().Header.Del("Server")
			return c.SendString("x")
		},
		"wrong length": func(c *fiber.Ctx) error { c.Set("Content-Length", "77"); return c.SendString("x") },
		"reset":        func(c *fiber.Ctx) error { c.Response().Reset(); return c.SendString("x") },
		"odd spelling": func(c *fiber.Ctx) error {
			c.Set("x-ODD", "1")
			c.Set("content-TYPE", "a/b")
			c.Set("set-cookie", "a=1")
			return c.SendString("x")
		},
	}
	configs := map[string]fiber.Config{
		"default": {},
		"bare":    {DisableDefaultContentType: true, DisableDefaultDate: true, DisableHeaderNormalizing: true},
		"server":  {ServerHeader: "fiber", Immutable: true},
	}
	outer := map[string][]fiber.Handler{
		"plain": nil,
		"coded": {compress.New(), etag.New()},
	}
	for cfgName, cfg := range configs {
		for outerName, handlers0 := range outer {
			t.Run(cfgName+"/"+outerName, func(t *testing.T) {
				build := func(middleware func() fiber.Handler) string {
					app := newApp(cfg)
					for _, h := range handlers0 {
						app.Use(h)
					}
					app.Use(func(c *fiber.Ctx) error {
						c.Set("X-Outer", "1")
						c.Append("Vary", "Origin")
						c.Cookie(&fiber.Cookie{Name: "csrf", Value: "v", SessionOnly: true})
						return c.Next()
					})
					for name, h := range handlers {
						path := "/" + strings.ReplaceAll(name, " ", "-")
						app.Get(path+"/get", middleware(), h)
						app.Get(path+"/head", middleware(), h)
					}
					return listen(t, app)
				}
				plain := build(func() fiber.Handler { return func(c *fiber.Ctx) error { return c.Next() } })
				cached := build(func() fiber.Handler { return handler(replaying()) })
				for name := range handlers {
					path := "/" + strings.ReplaceAll(name, " ", "-")
					for _, ask := range []string{"GET /get", "GET /get", "HEAD /get", "HEAD /head", "HEAD /head", "GET /head"} {
						method, first, _ := strings.Cut(ask, " ")
						request := get(method, path+first, "Accept-Encoding: gzip")
						want, got := exchangeRaw(t, plain, request), exchangeRaw(t, cached, request)
						if want, got := normal(t, want), normal(t, got); got != want {
							t.Errorf("%s %s\ngot  %s\nwant %s", name, ask, got, want)
						}
					}
				}
			})
		}
	}
}

// Responses on one connection stay apart: their framing is right, HEAD's too.
func TestWireKeepAlive(t *testing.T) {
	app := newApp()
	app.Get("/a", handler(replaying()), func(c *fiber.Ctx) error { return c.SendString("hello") })
	app.Get("/b", handler(replaying()), func(c *fiber.Ctx) error { return c.Status(204).SendString("not sent") })
	conn, err := net.Dial("tcp", listen(t, app))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for range 3 {
		for _, ask := range []string{"HEAD /a 200 5 ", "GET /a 200 5 hello", "GET /b 204 -1 ", "HEAD /b 204 -1 "} {
			var method, path, body string
			var status int
			var length int64
			if n, err := fmt.Sscan(ask, &method, &path, &status, &length, &body); n < 4 {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: a\r\n\r\n", method, path)
			resp, got := readResponse(t, r, method)
			if status == 204 {
				length = resp.ContentLength
			}
			if resp.StatusCode != status || resp.ContentLength != length || got != body {
				t.Fatalf("%s: %d, %d bytes, %q", ask, resp.StatusCode, resp.ContentLength, got)
			}
		}
	}
	if n := r.Buffered(); n > 0 {
		rest, _ := io.ReadAll(io.LimitReader(r, int64(n)))
		t.Errorf("left over: %q", rest)
	}
}

// An HTTP/1.0 client has no Host and is told when the response ends.
func TestWireHTTP10(t *testing.T) {
	app := newApp()
	app.Get("/", handler(replaying()), func(c *fiber.Ctx) error { return c.SendString("hello") })
	addr := listen(t, app)
	for range 2 {
		raw := exchangeRaw(t, addr, "GET / HTTP/1.0\r\n\r\n")
		if !strings.HasSuffix(raw, "\r\n\r\nhello") || !strings.Contains(raw, "Content-Length: 5\r\n") {
			t.Errorf("%q", raw)
		}
	}
}
