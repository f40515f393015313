package fibermw

import (
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/internal/host"
)

func pathAndQuery(x host.Exchange) [2]string { return [2]string{x.Path(), x.Query()} }

// Where something outside changed what a handler reads of the URL, two requests that show the handler different URLs
// differ in Path or Query, although their targets are equal.
func TestRewrittenURL(t *testing.T) {
	for name, rewrite := range map[string]func(c *fiber.Ctx){
		"c.Path":            func(c *fiber.Ctx) { c.Path("/tenant-a/x") },
		"URI().SetPath":     func(c *fiber.Ctx) { c.Request().URI().SetPath("/tenant-a/x") },
		"SetRequestURI":     func(c *fiber.Ctx) { c.Request().SetRequestURI("/tenant-a/x?q=1") },
		"SetQueryString":    func(c *fiber.Ctx) { c.Request().URI().SetQueryString("q=2") },
		"QueryArgs, set":    func(c *fiber.Ctx) { c.Request().URI().QueryArgs().Set("tenant", "a") },
		"QueryArgs, delete": func(c *fiber.Ctx) { c.Request().URI().QueryArgs().Del("q") },
		"URI().SetHost":     func(c *fiber.Ctx) { c.Request().URI().SetHost("tenant-a") },
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			app.Use(func(c *fiber.Ctx) error { rewrite(c); return c.Next() })
			got := received(t, app, get("GET", "/x?q=1"), pathAndQuery)
			if got == [2]string{"/x", "q=1"} {
				t.Errorf("not seen")
			}
		})
	}
}

// The same for hosts: behind a proxy that keeps the client's host in X-Forwarded-Host only, c.Hostname is
// the only thing that tells two tenants apart.
func TestForwardedHost(t *testing.T) {
	for _, c := range []struct {
		cfg    fiber.Config
		line   string
		differ bool
	}{
		{fiber.Config{}, "X-Forwarded-Host: tenant-a", true},
		{fiber.Config{}, "X-Forwarded-Host: example.com", false},
		{fiber.Config{}, "X-Forwarded-Host: EXAMPLE.COM, proxy", false},
		{fiber.Config{EnableTrustedProxyCheck: true}, "X-Forwarded-Host: tenant-a", false},
		{fiber.Config{EnableTrustedProxyCheck: true, TrustedProxies: []string{"127.0.0.1"}}, "X-Forwarded-Host: tenant-a", true},
	} {
		see := func(x host.Exchange) [2]string { return [2]string{x.Host(), x.Path()} }
		got := received(t, newApp(c.cfg), get("GET", "/x", c.line), see)
		if got[0] != "example.com" || (got[1] != "/x") != c.differ {
			t.Errorf("%s: host %q, path %q", c.line, got[0], got[1])
		}
	}
}

// Only the case of ASCII does not matter: a tenant is looked up by the bytes that c.Hostname returns.
func TestForwardedHostInUnicode(t *testing.T) {
	honest := received(t, newApp(), "GET /x HTTP/1.1\r\nHost: Shop\r\nX-Forwarded-Host: sHop\r\nConnection: close\r\n\r\n", pathAndQuery)
	forged := received(t, newApp(), "GET /x HTTP/1.1\r\nHost: Shop\r\nX-Forwarded-Host: \u017fhop\r\nConnection: close\r\n\r\n", pathAndQuery)
	if honest != [2]string{"/x", ""} || forged == honest {
		t.Errorf("honest %q, forged %q", honest, forged)
	}
}

// A target in absolute form names the host too; a Host header that contradicts it must not share a key with one that does not.
func TestAbsoluteTarget(t *testing.T) {
	honest := received(t, newApp(), "GET http://a/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", pathAndQuery)
	forged := received(t, newApp(), "GET http://a/x HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n", pathAndQuery)
	if honest != [2]string{"/x", ""} || forged == honest {
		t.Errorf("honest %q, forged %q", honest, forged)
	}
}

// UnescapePath decodes c.Path; that is no rewrite, or an invalidation of the URL would look for another key.
func TestUnescapePath(t *testing.T) {
	got := received(t, newApp(fiber.Config{UnescapePath: true}), get("GET", "/a%2Fb%20c?d=%20"), pathAndQuery)
	if got != [2]string{"/a%2Fb%20c", "d=%20"} {
		t.Errorf("got %q", got)
	}
}

// Looking at the query must not change what a handler forwards: fasthttp writes arguments that were parsed anew, in its own encoding.
func TestQueryIsNotParsed(t *testing.T) {
	app := newApp()
	var forwarded string
	app.Use(handler(looking(func(x host.Exchange) { x.Query() })))
	app.Get("/", func(c *fiber.Ctx) error {
		forwarded = string(c.Request().URI().RequestURI())
		return nil
	})
	exchangeRaw(t, listen(t, app), get("GET", "/?a=%41;b&c=1+2"))
	if forwarded != "/?a=%41;b&c=1+2" {
		t.Errorf("forwarded as %q", forwarded)
	}
}

func BenchmarkRequestView(b *testing.B) {
	app := newApp()
	var run func()
	app.Get("/products/:id", handler(func(x host.Exchange) {
		run = func() {
			for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Range", "If-None-Match", "Accept-Encoding"} {
				x.Values(name)
			}
			x.Method()
			x.Host()
			x.Target()
			x.Path()
			x.Query()
			x.HasBody()
		}
		b.ReportAllocs()
		for b.Loop() {
			run()
		}
	}))
	req := "GET /products/7?lang=de HTTP/1.1\r\nHost: example.com\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
	serveOnce(b, app, req)
}
