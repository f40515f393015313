package fibermw

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/internal/host"
)

// frozenOnce freezes the first request that comes, and keeps what it was told about every request.
type frozenOnce struct {
	mu      sync.Mutex
	thaw    func(context.Context)
	results []host.Result
	marks   []string
}

func (f *frozenOnce) serve(x host.Exchange) {
	f.mu.Lock()
	if f.thaw == nil {
		f.thaw = x.Freeze()
	}
	f.mu.Unlock()
	res := x.Run(host.Call{Method: http.MethodGet, Limit: 1 << 20, Passing: func(string) string { return "" }})
	f.mu.Lock()
	f.results = append(f.results, res)
	f.marks = append(f.marks, value(x.Context(), "mark"))
	f.mu.Unlock()
	if !res.Passed {
		x.Reply(replyOf(res))
	}
}

// everything is what an application may look at of a request.
func everything(c *fiber.Ctx) error {
	query, _ := c.Context().QueryArgs(), c.Context()
	return c.JSON(map[string]any{
		"method": c.Method(), "path": c.Path(), "original": c.OriginalURL(), "query": query.String(),
		"host": c.Hostname(), "proto": c.Protocol(), "base": c.BaseURL(), "ip": c.IP(), "local": c.Context().LocalAddr().String(),
		"id": c.Get("X-Id"), "many": c.Request().Header.PeekAll("X-Many"), "cookie": c.Cookies("a"), "param": c.Params("p"),
		"body": string(c.Body()), "secure": c.Secure(),
	})
}

// The copy goes through the whole application, and everything in it sees what it saw of the request: also after the
// request has ended, its buffers are in use by others, and it was rewritten.
func TestFreeze(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, cfg := range []fiber.Config{
			{},
			{DisableDefaultContentType: true, DisableHeaderNormalizing: true, ServerHeader: "own"},
		} {
			f := &frozenOnce{}
			app := newApp(cfg)
			arrivals := 0
			app.Use(func(c *fiber.Ctx) error {
				arrivals++
				if c.Query("added") != "" || !strings.HasPrefix(c.Path(), "/v1/") {
					t.Errorf("the request came as %s", c.Request().URI().RequestURI())
				}
				c.Request().URI().QueryArgs().Set("added", "1")
				c.Path(strings.TrimPrefix(c.Path(), "/v1"))
				return c.Next()
			})
			app.Use("/x/:p", handler(f.serve), everything)

			conn := dial(t, app, secure)
			r := bufio.NewReader(conn)
			_, _ = io.WriteString(conn, "HEAD /v1/x/a%2Fb?q=%20;1 HTTP/1.1\r\nHost: shop.example\r\nX-Id: 1\r\nX-Many: 1\r\nX-Many: 2\r\nCookie: a=1\r\n\r\n")
			readResponse(t, r, "HEAD")
			for range 3 { // reuses the buffers
				_, _ = io.WriteString(conn, "GET /v1/x/zzzzz?zzzzzzz HTTP/1.1\r\nHost: zzzz.zzzzzzz\r\nX-Id: z\r\nX-Many: z\r\nX-Many: z\r\nCookie: a=z\r\n\r\n")
				readResponse(t, r, "GET")
			}
			_ = conn.Close()

			for range 2 { // as often as one likes
				f.thaw(with(context.Background(), "mark", "frozen"))
			}
			if len(f.results) != 6 || arrivals != 6 {
				t.Fatalf("%d results, %d arrivals", len(f.results), arrivals)
			}
			for _, again := range f.results[4:] {
				if fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", f.results[0]) {
					t.Errorf("secure %t: got %+v\nwant %+v", secure, again, f.results[0])
				}
			}
			if f.marks[0] != "" || f.marks[4] != "frozen" || f.marks[5] != "frozen" {
				t.Errorf("marks %q", f.marks)
			}
			if proto := `"secure":true`; strings.Contains(string(f.results[0].Body), proto) != secure {
				t.Errorf("secure %t: %s", secure, f.results[0].Body)
			}
		}
	}
}

// dial serves app on a real listener, with TLS or without, and returns a connection to it.
func dial(t *testing.T, app *fiber.App, secure bool) net.Conn {
	t.Helper()
	if !secure {
		conn, err := net.Dial("tcp", listen(t, app))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, app, tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate()}}))
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// thawing serves one request to app, whose Cache is made of the returned middleware, and returns what sends it again.
func thawing(t *testing.T, app *fiber.App, build func(cache fiber.Handler)) (*frozenOnce, func(context.Context)) {
	t.Helper()
	f := &frozenOnce{}
	build(handler(f.serve))
	ask(t, app, "GET", "/")
	if f.thaw == nil {
		t.Fatal("nothing was frozen")
	}
	return f, f.thaw
}

// Middleware outside sees the context through c.UserContext, where Fiber keeps it.
func TestFrozenContext(t *testing.T) {
	app := newApp()
	var outside []string
	_, thaw := thawing(t, app, func(cache fiber.Handler) {
		app.Use(func(c *fiber.Ctx) error {
			outside = append(outside, value(c.UserContext(), "mark"))
			return c.Next()
		})
		app.Get("/", cache, func(*fiber.Ctx) error { return nil })
	})
	thaw(with(context.Background(), "mark", "frozen"))
	if !reflect.DeepEqual(outside, []string{"", "frozen"}) {
		t.Errorf("outside %q", outside)
	}
}

// The mark reaches the middleware also where something outside starts a context of its own, whose values and end still count.
func TestFrozenContextReplaced(t *testing.T) {
	app := newApp()
	var deadlines []bool
	f, thaw := thawing(t, app, func(cache fiber.Handler) {
		app.Use(func(c *fiber.Ctx) error {
			ctx, cancel := context.WithTimeout(with(with(context.Background(), "own", "1"), "both", "own"), time.Hour)
			defer cancel()
			c.SetUserContext(ctx)
			return c.Next()
		})
		app.Get("/", cache, func(c *fiber.Ctx) error {
			_, has := c.UserContext().Deadline()
			deadlines = append(deadlines, has)
			return c.SendString(value(c.UserContext(), "own") + value(c.UserContext(), "both"))
		})
	})
	thaw(with(with(context.Background(), "mark", "frozen"), "both", "frozen"))
	if !reflect.DeepEqual(f.marks, []string{"", "frozen"}) || string(f.results[1].Body) != "1own" || !reflect.DeepEqual(deadlines, []bool{true, true}) {
		t.Errorf("marks %q, result %s, deadlines %v", f.marks, f.results[1].Body, deadlines)
	}
}

// A body in the request does not go along: the copy is a GET.
func TestFrozenHasNoBody(t *testing.T) {
	app := newApp()
	var bodies []string
	app.Post("/", handler(func(x host.Exchange) {
		thaw := x.Freeze()
		x.Run(host.Call{})
		thaw(context.Background())
	}), func(*fiber.Ctx) error { return nil })
	app.Get("/", handler(looking(func(x host.Exchange) {
		if x.HasBody() || x.Method() != "GET" {
			bodies = append(bodies, x.Method())
		}
	})), func(c *fiber.Ctx) error {
		bodies = append(bodies, string(c.Body()))
		return nil
	})
	exchangeRaw(t, listen(t, app), get("POST", "/", "Content-Length: 4", "Expect: 100-continue")+"body")
	if !reflect.DeepEqual(bodies, []string{""}) {
		t.Errorf("bodies %q", bodies)
	}
}

// Whatever the application does with the copy ends with it: a stream that nobody reads, a value that wants to
// be closed, a panic, Goexit.
func TestFrozenEnds(t *testing.T) {
	frozen := func(c *fiber.Ctx) bool { return value(c.UserContext(), "mark") != "" }
	t.Run("stream", func(t *testing.T) {
		app := newApp()
		ended, closed := make(chan struct{}), false
		f, thaw := thawing(t, app, func(cache fiber.Handler) {
			app.Get("/", cache, func(c *fiber.Ctx) error {
				if !frozen(c) {
					return nil
				}
				c.Locals("closer", closerFunc(func() error { closed = true; return nil }))
				c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
					defer close(ended)
					for {
						if _, err := w.WriteString("data: x\n\n"); err != nil || w.Flush() != nil {
							return
						}
					}
				})
				return nil
			})
		})
		thaw(with(context.Background(), "mark", "1"))
		<-ended
		if !f.results[1].Passed || !closed {
			t.Errorf("result %+v, closed %t", f.results[1], closed)
		}
	})
	t.Run("panic", func(t *testing.T) {
		app := newApp()
		_, thaw := thawing(t, app, func(cache fiber.Handler) {
			app.Get("/", cache, func(c *fiber.Ctx) error {
				if frozen(c) {
					panic(errTeapot)
				}
				return nil
			})
		})
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, errTeapot) {
				t.Errorf("recovered %v", err)
			}
		}()
		thaw(with(context.Background(), "mark", "1"))
	})
	t.Run("Goexit", func(t *testing.T) {
		app := newApp()
		_, thaw := thawing(t, app, func(cache fiber.Handler) {
			app.Get("/", cache, func(c *fiber.Ctx) error {
				if frozen(c) {
					runtime.Goexit()
				}
				return nil
			})
		})
		var wg sync.WaitGroup
		wg.Go(func() { thaw(with(context.Background(), "mark", "1")) })
		wg.Wait()
		if resp, _ := ask(t, app, "GET", "/"); resp.StatusCode != 200 {
			t.Errorf("afterwards: %d", resp.StatusCode)
		}
	})
	t.Run("hijack and early hints", func(t *testing.T) {
		app := newApp()
		f, thaw := thawing(t, app, func(cache fiber.Handler) {
			app.Get("/", cache, func(c *fiber.Ctx) error {
				if !frozen(c) {
					return nil
				}
				c.Context().Hijack(func(net.Conn) { t.Error("there is no connection") })
				c.Context().Logger().Printf("nobody reads this")
				return c.Context().EarlyHints()
			})
		})
		thaw(with(context.Background(), "mark", "1"))
		if !f.results[1].Passed {
			t.Errorf("result %+v", f.results[1])
		}
	})
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// App.Handler would wait here for a lock that Shutdown holds, which waits for the request.
func TestFreezeDuringShutdown(t *testing.T) {
	app := newApp()
	entered, frozen := make(chan struct{}), make(chan struct{})
	app.Get("/", handler(func(x host.Exchange) {
		close(entered)
		<-x.Native().(*fiber.Ctx).Context().Done() // Shutdown has begun
		x.Freeze()
		close(frozen)
		x.Reply(host.Reply{Status: 200})
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- app.Listener(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, get("GET", "/"))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- app.ShutdownWithTimeout(5 * time.Second) }()
	select {
	case <-frozen:
	case <-time.After(3 * time.Second):
		t.Error("Freeze waits for Shutdown")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	<-served
}
