package fibermw

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/internal/host"
)

// received serves one raw request and returns what see makes of it.
func received[T any](t *testing.T, app *fiber.App, request string, see func(x host.Exchange) T) T {
	t.Helper()
	var seen T
	called := false
	app.Use(handler(looking(func(x host.Exchange) { seen, called = see(x), true })))
	app.All("/*", func(*fiber.Ctx) error { return nil })
	exchangeRaw(t, listen(t, app), request)
	if !called {
		t.Fatal("the request did not arrive")
	}
	return seen
}

func TestValues(t *testing.T) {
	request := get("GET", "/",
		"authorization: Bearer 1", "Authorization: Bearer 2", // gofiber/fiber c36bcecae: only the first counted
		"accept-encoding: gzip", "X-Empty:", "cookie: a=1; b=2", "USER-AGENT: test", "If-None-Match: \"a\", \"b\"")
	want := map[string][]string{
		"Authorization":   {"Bearer 1", "Bearer 2"},
		"Accept-Encoding": {"gzip"},
		"X-Empty":         {""},
		"Cookie":          {"a=1; b=2"},
		"User-Agent":      {"test"},
		"If-None-Match":   {`"a", "b"`},
		"Host":            {"example.com"},
		"Range":           nil,
		"Content-Length":  nil,
		"Trailer":         nil,
	}
	for _, cfg := range []fiber.Config{{}, {DisableHeaderNormalizing: true}} {
		for name, values := range want {
			t.Run(fmt.Sprintf("%s/%t", name, cfg.DisableHeaderNormalizing), func(t *testing.T) {
				got := received(t, newApp(cfg), request, func(x host.Exchange) []string { return x.Values(name) })
				if !slices.Equal(got, values) || (got == nil) != (values == nil) {
					t.Errorf("got %q, want %q", got, values)
				}
			})
		}
	}
}

// Once something has called c.Cookies, fasthttp shows the cookies another way, and one empty line if there are none.
func TestValuesAfterCookiesWereParsed(t *testing.T) {
	for request, want := range map[string][]string{get("GET", "/"): nil, get("GET", "/", "Cookie: a=1", "Cookie: b=2"): {"a=1; b=2"}} {
		app := newApp()
		app.Use(func(c *fiber.Ctx) error { c.Cookies("a"); return c.Next() })
		got := received(t, app, request, func(x host.Exchange) []string { return x.Values("Cookie") })
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHasBody(t *testing.T) {
	for _, c := range []struct {
		request string
		want    bool
	}{
		{get("GET", "/"), false},
		{get("GET", "/", "Content-Length: 0"), false},
		{get("GET", "/", "Content-Length: 00"), false},
		{get("GET", "/", "Content-Length: 2") + "ab", true},
		{get("GET", "/", "Transfer-Encoding: chunked") + "2\r\nab\r\n0\r\n\r\n", true},
		{get("HEAD", "/", "Content-Length: 2") + "ab", true},
		{get("POST", "/", "Content-Length: 2") + "ab", true},
	} {
		if got := received(t, newApp(), c.request, host.Exchange.HasBody); got != c.want {
			t.Errorf("%q: %t", c.request, got)
		}
	}
}

func TestRequestAsReceived(t *testing.T) {
	type request struct{ method, host, target, path, query string }
	see := func(x host.Exchange) request { return request{x.Method(), x.Host(), x.Target(), x.Path(), x.Query()} }
	for _, c := range []struct {
		line string
		want request
	}{
		{"GET /a%2Fb?c=d", request{"GET", "EXAMPLE.com:80", "/a%2Fb?c=d", "/a%2Fb", "c=d"}},
		{"GET /u/me%3fa=1", request{"GET", "EXAMPLE.com:80", "/u/me%3fa=1", "/u/me%3fa=1", ""}},
		{"GET /a/../b//c", request{"GET", "EXAMPLE.com:80", "/a/../b//c", "/a/../b//c", ""}},
		{"GET /?a=1;b=2&%zz&a=1", request{"GET", "EXAMPLE.com:80", "/?a=1;b=2&%zz&a=1", "/", "a=1;b=2&%zz&a=1"}},
		{"GET /?", request{"GET", "EXAMPLE.com:80", "/?", "/", ""}},
		{"GET /x?u=http://other/", request{"GET", "EXAMPLE.com:80", "/x?u=http://other/", "/x", "u=http://other/"}},
		{"GET http://EXAMPLE.com:80/x?y", request{"GET", "EXAMPLE.com:80", "http://EXAMPLE.com:80/x?y", "/x", "y"}},
		{"DELETE /x", request{"DELETE", "EXAMPLE.com:80", "/x", "/x", ""}},
	} {
		raw := c.line + " HTTP/1.1\r\nHost: EXAMPLE.com:80\r\nConnection: close\r\n\r\n"
		if got := received(t, newApp(), raw, see); got != c.want {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
}

// gofiber/fiber#1380: what a cache kept of a request became that of the next one.
func TestStringsOutliveTheRequest(t *testing.T) {
	app := newApp()
	var kept [][]string
	app.Use(handler(looking(func(x host.Exchange) {
		all := []string{x.Method(), x.Host(), x.Target(), x.Path(), x.Query()}
		kept = append(kept, append(append(all, x.Values("X-Id")...), x.Values("Cookie")...))
	})))
	app.All("/*", func(*fiber.Ctx) error { return nil })
	addr := listen(t, app)

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	var want [][]string
	for i := range 5 {
		id := strings.Repeat(fmt.Sprint(i), 8)
		method := []string{"GET", "PUT"}[i%2]
		req, err := http.NewRequest(method, fmt.Sprintf("http://%s/p%s?q=%s", addr, id, id), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "h" + id
		req.Header.Set("X-Id", id)
		req.Header.Set("Cookie", "c="+id)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		want = append(want, []string{method, "h" + id, "/p" + id + "?q=" + id, "/p" + id, "q=" + id, id, "c=" + id})
	}
	if !slices.EqualFunc(kept, want, slices.Equal) {
		t.Errorf("got %q\nwant %q", kept, want)
	}
}

func TestNative(t *testing.T) {
	app := newApp()
	var same bool
	app.Get("/", handler(looking(func(x host.Exchange) {
		c, ok := x.Native().(*fiber.Ctx)
		same = ok && c.Path() == "/"
	})))
	ask(t, app, "GET", "/")
	if !same {
		t.Error("Native is not the fiber.Ctx")
	}
}

// The context that the gate sets is the one that everybody sees, middleware outside included.
func TestContext(t *testing.T) {
	app := newApp()
	var atGate, inside, after string
	app.Use(func(c *fiber.Ctx) error {
		c.SetUserContext(with(c.UserContext(), "outer", "1"))
		err := c.Next()
		after = value(c.UserContext(), "outer") + value(c.UserContext(), "gate") + value(c.UserContext(), "call")
		return err
	})
	app.Get("/", handler(func(x host.Exchange) {
		atGate = value(x.Context(), "outer")
		x.SetContext(with(x.Context(), "gate", "2"))
		res := x.Run(host.Call{Limit: 10, Context: with(x.Context(), "call", "3")})
		x.Reply(replyOf(res))
	}), func(c *fiber.Ctx) error {
		inside = value(c.UserContext(), "outer") + value(c.UserContext(), "gate") + value(c.UserContext(), "call")
		return nil
	})
	ask(t, app, "GET", "/")
	if atGate != "1" || inside != "123" || after != "12" {
		t.Errorf("at the gate %q, inside %q, outside after it %q", atGate, inside, after)
	}
}

// anotherTLS is a TLS connection of a type of its own, as listeners make that count or trace.
type anotherTLS struct{ *tls.Conn }

type anotherListener struct{ net.Listener }

func (l anotherListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return anotherTLS{conn.(*tls.Conn)}, nil
}

func TestClientCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		perIP   bool // fasthttp wraps the connection then
		another bool
		certs   []tls.Certificate
		want    bool
	}{
		"none":              {false, false, nil, false},
		"one":               {false, false, []tls.Certificate{certificate()}, true},
		"none, and a limit": {true, false, nil, false},
		"one, and a limit":  {true, false, []tls.Certificate{certificate()}, true},
		"one, another type": {false, true, []tls.Certificate{certificate()}, true},
		// Older versions of fasthttp cannot show the state of such a connection, so it counts.
		"one, another type and a limit": {true, true, []tls.Certificate{certificate()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			if c.perIP {
				app.Server().MaxConnsPerIP = 10
			}
			var got bool
			app.Get("/", handler(looking(func(x host.Exchange) { got = x.ClientCertificate() })), func(*fiber.Ctx) error { return nil })
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := ln.Addr().String()
			ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate()}, ClientAuth: tls.RequestClientCert})
			if c.another {
				ln = anotherListener{ln}
			}
			serve(t, app, ln)

			conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: c.certs})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, get("GET", "/"))
			if raw, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 200") {
				t.Fatalf("%q, %v", raw, err)
			}
			if got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
