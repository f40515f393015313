package fibermw

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/compress"
	"github.com/gofiber/fiber/v2/middleware/etag"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestReply(t *testing.T) {
	const text = "text/plain; charset=utf-8"
	set := func(name, value string) headers.Field {
		return headers.Field{Op: headers.Set, Name: name, Value: value}
	}
	add := func(name, value string) headers.Field {
		return headers.Field{Op: headers.Add, Name: name, Value: value}
	}
	del := func(name string) headers.Field { return headers.Field{Op: headers.Del, Name: name} }
	// What middleware outside sets.
	outer := http.Header{"X-Outer": {"1"}, "Link": {"<a>", "<b>"}, "Set-Cookie": {"csrf=1"}, "X-Many": {"1", "2", "3"}}
	for name, c := range map[string]struct {
		method string
		reply  host.Reply
		body   string
		want   http.Header // on top of outer; nil values: gone
	}{
		"plain":           {"GET", host.Reply{Status: 200, Body: []byte("x")}, "x", http.Header{"Content-Type": {text}, "Content-Length": {"1"}}},
		"empty":           {"GET", host.Reply{Status: 200}, "", http.Header{"Content-Length": {"0"}}},
		"no status":       {"GET", host.Reply{Body: []byte("x")}, "x", http.Header{"Content-Type": {text}, "Content-Length": {"1"}}},
		"HEAD":            {"HEAD", host.Reply{Status: 200, Body: []byte("12345")}, "", http.Header{"Content-Type": {text}, "Content-Length": {"5"}}},
		"304":             {"GET", host.Reply{Status: 304, Header: []headers.Field{set("Etag", `"a"`)}, Body: []byte("x")}, "", http.Header{"Etag": {`"a"`}}},
		"204":             {"GET", host.Reply{Status: 204, Body: []byte("x")}, "", http.Header{}},
		"Cache-Status":    {"GET", host.Reply{Status: 200, Header: []headers.Field{set("Cache-Status", "upstream; hit")}, CacheStatus: "herdgate; hit"}, "", http.Header{"Content-Length": {"0"}, "Cache-Status": {"upstream; hit", "herdgate; hit"}}},
		"no Content-Type": {"GET", host.Reply{Status: 200, Header: []headers.Field{{Op: headers.Mute, Name: "Content-Type"}}, Body: []byte("x")}, "x", http.Header{"Content-Length": {"1"}}},
		"replaced": {
			"GET", host.Reply{Status: 200, Header: []headers.Field{set("X-Outer", "2"), set("X-Many", "4"), add("X-Many", "5"), set("Server", "s"), set("Content-Type", "a/b"), set("Content-Encoding", "x")}},
			"", http.Header{"X-Outer": {"2"}, "X-Many": {"4", "5"}, "Content-Length": {"0"}, "Server": {"s"}, "Content-Type": {"a/b"}, "Content-Encoding": {"x"}},
		},
		"added, deleted": {
			"GET", host.Reply{Status: 200, Header: []headers.Field{del("X-Outer"), del("X-Many"), del("X-Absent"), add("Link", "<c>"), add("Set-Cookie", "a=1"), add("Set-Cookie", "b=2")}},
			"", http.Header{"X-Outer": nil, "X-Many": nil, "Link": {"<a>", "<b>", "<c>"}, "Set-Cookie": {"csrf=1", "a=1", "b=2"}, "Content-Length": {"0"}},
		},
		"other cookies": {
			"GET", host.Reply{Status: 200, Header: []headers.Field{set("Set-Cookie", "a=1"), add("Set-Cookie", "b=2")}},
			"", http.Header{"Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"0"}},
		},
		"no cookies":  {"GET", host.Reply{Status: 200, Header: []headers.Field{del("Set-Cookie")}}, "", http.Header{"Set-Cookie": nil, "Content-Length": {"0"}}},
		"line breaks": {"GET", host.Reply{Status: 200, Header: []headers.Field{set("X-A", "a\r\nX-Evil: 1")}}, "", http.Header{"X-A": {"a  X-Evil: 1"}, "Content-Length": {"0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			app.Use(func(c *fiber.Ctx) error {
				for name, values := range outer {
					for _, v := range values {
						c.Response().Header.Add(name, v)
					}
				}
				c.Status(418)
				return c.Next()
			})
			app.Get("/", handler(func(x host.Exchange) { x.Reply(c.reply) }), func(*fiber.Ctx) error {
				t.Error("the handler ran")
				return nil
			})
			resp, body := ask(t, app, c.method, "/")
			want := outer.Clone()
			for name, values := range c.want {
				want[name] = values
				if values == nil {
					delete(want, name)
				}
			}
			delete(resp.Header, "Date")
			status := c.reply.Status
			if status == 0 {
				status = 418
			}
			if resp.StatusCode != status || body != c.body || !reflect.DeepEqual(resp.Header, want) {
				t.Errorf("%d %q\ngot  %v\nwant %v", resp.StatusCode, body, resp.Header, want)
			}
		})
	}
}

// fasthttp's Del moves the last line of the header to where the deleted one was.
func TestReplyKeepsTheOrderOfLines(t *testing.T) {
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		for _, line := range []string{"X-A: 1", "X-A: 2", "Link: <a>", "X-B: 1", "Link: <b>", "Link: <c>"} {
			name, value, _ := strings.Cut(line, ": ")
			c.Response().Header.Add(name, value)
		}
		return c.Next()
	})
	app.Get("/", handler(func(x host.Exchange) {
		x.Reply(host.Reply{Status: 200, Header: []headers.Field{{Op: headers.Set, Name: "X-A", Value: "3"}, {Op: headers.Del, Name: "X-B"}}})
	}))
	resp, _ := ask(t, app, "GET", "/")
	if !slices.Equal(resp.Header["Link"], []string{"<a>", "<b>", "<c>"}) || !slices.Equal(resp.Header["X-A"], []string{"3"}) || resp.Header["X-B"] != nil {
		t.Errorf("%v", resp.Header)
	}
}

// The body that Reply is given is shared with every other request. Whatever middleware outside does to the response, it stays as it is.
func TestReplyDoesNotShareItsBody(t *testing.T) {
	body := []byte(strings.Repeat("0123456789", 100))
	want := string(body)
	app := newApp()
	app.Use(compress.New(), etag.New())
	app.Use(func(c *fiber.Ctx) error {
		if err := c.Next(); err != nil {
			return err
		}
		got := c.Response().Body()
		for i := range got {
			got[i] = 'x'
		}
		_, err := c.WriteString("appended")
		return err
	})
	app.Get("/", handler(func(x host.Exchange) { x.Reply(host.Reply{Status: 200, Body: body}) }))
	for _, encoding := range []string{"", "gzip"} {
		resp, got := ask(t, app, "GET", "/", "Accept-Encoding", encoding)
		if resp.Header.Get("Content-Encoding") != encoding || encoding == "" && got != strings.Repeat("x", 1000)+"appended" {
			t.Errorf("%v %q", resp.Header, got)
		}
	}
	if string(body) != want {
		t.Error("the shared body was changed")
	}
}

// A body or stream that middleware outside has begun is replaced.
func TestReplyReplacesABody(t *testing.T) {
	for name, outer := range map[string]func(c *fiber.Ctx) error{
		"body":   func(c *fiber.Ctx) error { return c.SendString("outer") },
		"stream": func(c *fiber.Ctx) error { return c.SendStream(strings.NewReader("outer")) },
	} {
		for _, body := range []string{"", "ours"} {
			t.Run(fmt.Sprintf("%s %q", name, body), func(t *testing.T) {
				app := newApp()
				app.Use(func(c *fiber.Ctx) error {
					if err := outer(c); err != nil {
						return err
					}
					return c.Next()
				})
				app.Get("/", handler(func(x host.Exchange) { x.Reply(host.Reply{Status: 200, Body: []byte(body)}) }))
				if _, got := ask(t, app, "GET", "/"); got != body {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

func BenchmarkReply(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			app := newApp()
			reply := host.Reply{
				Status: 200, Body: make([]byte, size), CacheStatus: "herdgate; hit; ttl=9",
				Header: []headers.Field{{Op: headers.Set, Name: "Content-Type", Value: "text/html"}, {Op: headers.Set, Name: "Cache-Control", Value: "max-age=10"}, {Op: headers.Set, Name: "Age", Value: "1"}},
			}
			app.Get("/", handler(func(x host.Exchange) {
				h := &x.Native().(*fiber.Ctx).Response().Header
				b.ReportAllocs()
				for b.Loop() {
					h.Del("Cache-Status")
					x.Reply(reply)
				}
			}))
			serveOnce(b, app, get("GET", "/"))
		})
	}
}
