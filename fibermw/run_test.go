package fibermw

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// captured runs one handler behind an outer middleware that sets some header, and returns what the gate gets.
func captured(t *testing.T, call host.Call, h fiber.Handler, fields ...string) host.Result {
	t.Helper()
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		c.Set("X-Outer", "1")
		c.Append("Vary", "Origin")
		return c.Next()
	})
	var res host.Result
	app.Get("/", handler(func(x host.Exchange) {
		res = x.Run(call)
		if !res.Passed {
			x.Reply(replyOf(res))
		}
	}), h)
	ask(t, app, "GET", "/", fields...)
	return res
}

func TestCapture(t *testing.T) {
	before := http.Header{"X-Outer": {"1"}, "Vary": {"Origin"}}
	after := func(more http.Header) http.Header {
		h := before.Clone()
		maps.Copy(h, more)
		return h
	}
	const text = "text/plain; charset=utf-8"
	for name, c := range map[string]struct {
		handler fiber.Handler
		want    host.Result
	}{
		"body": {
			func(c *fiber.Ctx) error { return c.SendString("hello") },
			host.Result{Status: 200, After: after(http.Header{"Content-Type": {text}}), Body: []byte("hello")},
		},
		"several writes": { // gin-gonic/contrib#57: only the last was stored
			func(c *fiber.Ctx) error {
				_, _ = fmt.Fprint(c, "a")
				_, _ = fmt.Fprint(c, "b")
				_, err := c.WriteString("c")
				return err
			},
			host.Result{Status: 200, After: after(http.Header{"Content-Type": {text}}), Body: []byte("abc")},
		},
		"nothing": { // go-chi/stampede#9
			func(*fiber.Ctx) error { return nil },
			host.Result{Status: 200, After: after(nil)},
		},
		"status and multi-values": { // gin-contrib/cache#35, #37
			func(c *fiber.Ctx) error {
				c.Response().Header.Add("Link", "<a>")
				c.Response().Header.Add("Link", "<b>")
				c.Cookie(&fiber.Cookie{Name: "a", Value: "1"})
				c.Cookie(&fiber.Cookie{Name: "b", Value: "2"})
				return c.Status(404).JSON(1)
			},
			host.Result{Status: 404, Body: []byte("1"), After: after(http.Header{
				"Content-Type": {"application/json"}, "Link": {"<a>", "<b>"},
				"Set-Cookie": {"a=1; path=/; SameSite=Lax", "b=2; path=/; SameSite=Lax"},
			})},
		},
		"appended, replaced, deleted": {
			func(c *fiber.Ctx) error {
				c.Response().Header.Del("X-Outer")
				c.Response().Header.Add("Vary", "Accept")
				c.Set("Content-Type", "a/b")
				return c.Send([]byte("x"))
			},
			host.Result{Status: 200, Body: []byte("x"), After: http.Header{"Vary": {"Origin", "Accept"}, "Content-Type": {"a/b"}}},
		},
		"a body with 204": {
			func(c *fiber.Ctx) error { return c.Status(204).SendString("not sent") },
			host.Result{Status: 204, After: after(nil)},
		},
		"a body with 304": {
			func(c *fiber.Ctx) error { return c.SendStatus(304) },
			host.Result{Status: 304, After: after(nil)},
		},
		"a wrong Content-Length": { // fasthttp writes the right one
			func(c *fiber.Ctx) error { c.Set("Content-Length", "99"); return c.SendString("x") },
			host.Result{Status: 200, After: after(http.Header{"Content-Type": {text}}), Body: []byte("x")},
		},
		"an error": {
			func(c *fiber.Ctx) error { c.Set("X-Half", "1"); return errTeapot },
			host.Result{Status: 500, After: after(http.Header{"Content-Type": {text}, "X-Half": {"1"}}), Body: []byte("teapot"), Err: errTeapot},
		},
		"no route": {
			func(c *fiber.Ctx) error { return c.Next() },
			host.Result{Status: 404, After: after(http.Header{"Content-Type": {text}}), Body: []byte("Cannot GET /"), Err: fiber.NewError(404, "Cannot GET /")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := captured(t, capturing(), c.handler)
			c.want.Before = before
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Trailers are only sent behind chunks, so what is announced with a buffered body is not stored.
func TestTrailer(t *testing.T) {
	res := captured(t, capturing(), func(c *fiber.Ctx) error {
		if err := c.Response().Header.AddTrailer("X-Sum"); err != nil {
			return err
		}
		c.Set("X-Sum", "1")
		return c.SendString("x")
	})
	if res.Flaw != "trailer" || string(res.Body) != "x" {
		t.Errorf("got %+v", res)
	}
}

// The body belongs to the gate, whatever becomes of the buffer that it was in.
func TestBodyIsACopy(t *testing.T) {
	shared := []byte("shared")
	res := captured(t, capturing(), func(c *fiber.Ctx) error { return c.Send(shared) })
	copy(shared, "broken")
	if string(res.Body) != "shared" {
		t.Errorf("got %q", res.Body)
	}

	app := newApp()
	var results []host.Result
	app.Get("/:n", handler(answering(&results)), func(c *fiber.Ctx) error { return c.SendString(strings.Repeat(c.Params("n"), 8)) })
	addr := listen(t, app)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for i := range 5 { // on one connection, so with one buffer
		_, _ = fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i)
		readResponse(t, r, "GET")
	}
	for i, res := range results {
		if string(res.Body) != strings.Repeat(fmt.Sprint(i), 8) {
			t.Errorf("result %d: %q", i, res.Body)
		}
	}
}

// An error becomes the response that the application's own ErrorHandler makes, once, and Fiber does not see it again.
func TestErrorHandler(t *testing.T) {
	var seen []error
	handle := func(c *fiber.Ctx, err error) error {
		seen = append(seen, err)
		return c.Status(418).JSON(fiber.Map{"error": err.Error(), "method": c.Method()})
	}
	app := newApp(fiber.Config{ErrorHandler: handle})
	var results []host.Result
	var outer error
	app.Use(func(c *fiber.Ctx) error { outer = c.Next(); return outer })
	app.Get("/", handler(answering(&results)), func(*fiber.Ctx) error { return errTeapot })
	resp, body := ask(t, app, "HEAD", "/")
	if resp.StatusCode != 418 || len(results) != 1 || string(results[0].Body) != `{"error":"teapot","method":"GET"}` || !errors.Is(results[0].Err, errTeapot) {
		t.Errorf("%d %q, captured %+v", resp.StatusCode, body, results)
	}
	if len(seen) != 1 || outer != nil {
		t.Errorf("the ErrorHandler saw %v, middleware outside %v", seen, outer)
	}
}

func TestErrorHandlerFails(t *testing.T) {
	app := newApp(fiber.Config{ErrorHandler: func(_ *fiber.Ctx, err error) error { return err }})
	var results []host.Result
	app.Get("/", handler(answering(&results)), func(*fiber.Ctx) error { return errTeapot })
	if resp, body := ask(t, app, "GET", "/"); resp.StatusCode != 500 || body != "Internal Server Error" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

// With Limit 0 the middleware is not there: an error goes to Fiber, and Cache-Status stands behind that of an upstream.
func TestStraight(t *testing.T) {
	app := newApp()
	var reason *string
	var outer error
	app.Use(func(c *fiber.Ctx) error { outer = c.Next(); return outer })
	app.Use(handler(func(x host.Exchange) {
		res := x.Run(host.Call{Passing: func(r string) string { reason = &r; return "herdgate; fwd=bypass" }})
		if !res.Passed || res.Err != nil {
			t.Errorf("result %+v", res)
		}
	}))
	app.Get("/proxied", func(c *fiber.Ctx) error {
		if reason == nil {
			t.Error("the handler ran before Passing was called")
		}
		c.Response().Reset() // as fasthttp's client does with the response that it reads into
		c.Set("Cache-Status", "upstream; hit")
		return c.SendString("hello")
	})
	app.Get("/error", func(*fiber.Ctx) error { return errTeapot })

	resp, body := ask(t, app, "GET", "/proxied")
	if body != "hello" || !reflect.DeepEqual(resp.Header["Cache-Status"], []string{"upstream; hit", "herdgate; fwd=bypass"}) || *reason != "" {
		t.Errorf("%q %v, reason %q", body, resp.Header, *reason)
	}
	resp, body = ask(t, app, "GET", "/error")
	if resp.StatusCode != 500 || body != "teapot" || resp.Header.Get("Cache-Status") == "" || !errors.Is(outer, errTeapot) {
		t.Errorf("%d %q %v, outer error %v", resp.StatusCode, body, resp.Header, outer)
	}
}

// What cannot be captured goes to the client as it is, with the reason told once.
func TestPassed(t *testing.T) {
	endless := func(c *fiber.Ctx) error { // FACTS: Body() of such a response never returns
		c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
			for {
				if _, err := io.WriteString(w, "data: x\n\n"); err != nil || w.Flush() != nil {
					return
				}
			}
		})
		return nil
	}
	for name, c := range map[string]struct {
		handler fiber.Handler
		reason  string
		body    string
	}{
		"too large":              {func(c *fiber.Ctx) error { return c.SendString("12345678901") }, "too-large", "12345678901"},
		"at the limit":           {func(c *fiber.Ctx) error { return c.SendString("1234567890") }, "", "1234567890"},
		"stream":                 {func(c *fiber.Ctx) error { return c.SendStream(strings.NewReader("abc")) }, "stream", "abc"},
		"stream of known length": {func(c *fiber.Ctx) error { return c.SendStream(strings.NewReader("abc"), 3) }, "stream", "abc"},
		"failing stream": { // FACTS: Body() would be the error's text, with status 200
			func(c *fiber.Ctx) error { return c.SendStream(io.MultiReader(strings.NewReader("ab"), failing{})) }, "stream", "",
		},
		"endless stream":       {endless, "stream", "data: x"},
		"error page too large": {func(*fiber.Ctx) error { return errors.New("12345678901") }, "too-large", "12345678901"},
		"timeout": {
			func(c *fiber.Ctx) error { c.Context().TimeoutErrorWithCode("late", 503); return nil }, "hijack", "late",
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			var reasons []string
			app.Get("/", handler(func(x host.Exchange) {
				call := capturing()
				call.Limit = 10
				call.Passing = func(reason string) string { reasons = append(reasons, reason); return "herdgate; detail=" + reason }
				res := x.Run(call)
				if res.Passed != (c.reason != "") {
					t.Errorf("passed: %t", res.Passed)
				}
				if !res.Passed {
					x.Reply(replyOf(res))
				}
			}), c.handler)

			conn, err := net.Dial("tcp", listen(t, app))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, get("GET", "/"))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = conn.Close() // before the body's Close, which reads to the end
				_ = resp.Body.Close()
			}()
			body := make([]byte, len(c.body))
			if _, err := io.ReadFull(resp.Body, body); err != nil || string(body) != c.body {
				t.Errorf("body %q, %v", body, err)
			}
			if c.reason == "" {
				if len(reasons) > 0 {
					t.Errorf("reasons %q", reasons)
				}
				return
			}
			if len(reasons) != 1 || reasons[0] != c.reason || resp.Header.Get("Cache-Status") != "herdgate; detail="+c.reason {
				t.Errorf("reasons %q, header %v", reasons, resp.Header)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errTeapot }

func TestHijack(t *testing.T) {
	app := newApp()
	var reason string
	app.Get("/", handler(func(x host.Exchange) {
		call := capturing()
		call.Passing = func(r string) string { reason = r; return "" }
		if res := x.Run(call); !res.Passed {
			t.Errorf("captured %+v", res)
		}
	}), func(c *fiber.Ctx) error {
		c.Context().HijackSetNoResponse(true)
		c.Context().Hijack(func(conn net.Conn) { _, _ = fmt.Fprint(conn, "mine") })
		return nil
	})
	if raw := exchangeRaw(t, listen(t, app), get("GET", "/", "Upgrade: x")); raw != "mine" || reason != "hijack" {
		t.Errorf("got %q, reason %q", raw, reason)
	}
}

// A body that middleware outside has begun cannot be told from the handler's.
func TestOuterBody(t *testing.T) {
	app := newApp()
	var reason string
	app.Use(func(c *fiber.Ctx) error { _, _ = fmt.Fprint(c, "a"); return c.Next() })
	app.Get("/", handler(func(x host.Exchange) {
		call := capturing()
		call.Passing = func(r string) string { reason = r; return "herdgate" }
		if res := x.Run(call); !res.Passed {
			t.Errorf("captured %+v", res)
		}
	}), func(c *fiber.Ctx) error { _, err := c.WriteString("b"); return err })
	if resp, body := ask(t, app, "GET", "/"); body != "ab" || reason != "flush" || resp.Header.Get("Cache-Status") != "herdgate" {
		t.Errorf("got %q, reason %q", body, reason)
	}
}

// Between Run and Reply the response is what middleware outside left, and Reply writes onto that.
func TestNothingLeaksIntoReply(t *testing.T) {
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		c.Status(202)
		c.Set("X-Outer", "1")
		c.Cookie(&fiber.Cookie{Name: "csrf", Value: "1", SessionOnly: true})
		return c.Next()
	})
	app.Get("/", handler(func(x host.Exchange) {
		x.Run(capturing())
		x.Reply(host.Reply{Status: 503, Header: []headers.Field{{Op: headers.Set, Name: "Retry-After", Value: "1"}}, CacheStatus: "herdgate"})
	}), func(c *fiber.Ctx) error {
		c.Set("X-Outer", "2")
		c.Set("X-Inner", "1")
		c.Set("Content-Encoding", "gzip")
		c.Cookie(&fiber.Cookie{Name: "session", Value: "secret"})
		c.Response().SkipBody, c.Response().ImmediateHeaderFlush = true, true
		c.Response().Header.SetConnectionClose()
		return c.Status(201).JSON("secret")
	})
	resp, body := ask(t, app, "GET", "/")
	delete(resp.Header, "Date")
	want := http.Header{"X-Outer": {"1"}, "Set-Cookie": {"csrf=1; path=/; SameSite=Lax"}, "Retry-After": {"1"}, "Cache-Status": {"herdgate"}, "Content-Length": {"0"}}
	if resp.StatusCode != 503 || body != "" || !reflect.DeepEqual(resp.Header, want) {
		t.Errorf("%d %v %q", resp.StatusCode, resp.Header, body)
	}
}

// A panic goes on to the recover middleware, with the same value, and leaves nothing of half a response.
func TestPanic(t *testing.T) {
	for _, limit := range []int64{0, 10} {
		var got any
		app := newApp(fiber.Config{ErrorHandler: func(c *fiber.Ctx, _ error) error { return c.Status(500).SendString(c.Method() + c.Get("X-Hidden")) }})
		app.Use(recover.New(recover.Config{EnableStackTrace: true, StackTraceHandler: func(_ *fiber.Ctx, e any) { got = e }}))
		app.Get("/", handler(func(x host.Exchange) {
			x.SetContext(with(x.Context(), "a", "outer"))
			defer func() {
				if value(x.Context(), "a") != "outer" || x.Method() != "HEAD" {
					t.Errorf("not restored: %q %q", value(x.Context(), "a"), x.Method())
				}
			}()
			x.Run(host.Call{Limit: limit, Method: "GET", Context: with(x.Context(), "a", "inner"), Drop: []string{"X-Hidden"},
				Passing: func(string) string { return "herdgate" }})
		}), func(c *fiber.Ctx) error {
			c.Set("Cache-Control", "public")
			_ = c.SendString("half")
			panic(errTeapot)
		})
		resp, _ := ask(t, app, "HEAD", "/", "X-Hidden", "yes")
		if err, _ := got.(error); !errors.Is(err, errTeapot) || resp.StatusCode != 500 || resp.Header.Get("Content-Length") != "7" {
			t.Errorf("limit %d: recovered %v, status %d, %v", limit, got, resp.StatusCode, resp.Header)
		}
		if (resp.Header.Get("Cache-Control") != "") != (limit == 0) || (resp.Header.Get("Cache-Status") != "") != (limit == 0) {
			t.Errorf("limit %d: header %v", limit, resp.Header)
		}
	}
}

// Goexit ends the goroutine; what was replaced is put back on the way, before Fiber reuses its context.
func TestGoexit(t *testing.T) {
	app := newApp()
	restored := false
	app.Get("/", handler(func(x host.Exchange) {
		c := x.Native().(*fiber.Ctx)
		defer func() {
			restored = x.Method() == "HEAD" && len(x.Values("X-Hidden")) == 1 && len(c.Response().Body()) == 0 && c.GetRespHeader("X-Half") == ""
		}()
		x.Run(host.Call{Limit: 10, Method: "GET", Drop: []string{"X-Hidden"}})
	}), func(c *fiber.Ctx) error {
		c.Set("X-Half", "1")
		_ = c.SendString("half")
		runtime.Goexit()
		return nil
	})
	fctx := &fasthttp.RequestCtx{}
	fctx.Request.Header.SetMethod("HEAD")
	fctx.Request.Header.Set("X-Hidden", "1")
	handle := app.Handler()
	done := make(chan struct{})
	go func() {
		defer close(done)
		handle(fctx)
	}()
	<-done
	if !restored {
		t.Error("not restored")
	}
}

// A handler that goes on for longer than its client stays is not cut: Fiber has no signal for it.
func TestClientLeaves(t *testing.T) {
	app := newApp()
	started, left, ended := make(chan struct{}), make(chan struct{}), make(chan host.Result, 1)
	app.Get("/", handler(func(x host.Exchange) {
		res := x.Run(capturing())
		x.Reply(replyOf(res))
		ended <- res
	}), func(c *fiber.Ctx) error {
		close(started)
		<-left
		if err := c.UserContext().Err(); err != nil {
			return err
		}
		return c.SendString("whole")
	})
	conn, err := net.Dial("tcp", listen(t, app))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-started
	_ = conn.Close()
	close(left)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	select {
	case res := <-ended:
		if string(res.Body) != "whole" {
			t.Errorf("captured %+v", res)
		}
	case <-ctx.Done():
		t.Error("the handler did not end")
	}
}
