package ginmw

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) {
	capturetest.Run(t, capturetest.Adapter{Empty: 0, Native: &gin.Context{}, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	r := gin.New()
	r.UseRawPath = true
	r.Use(func(c *gin.Context) {
		outer.Header(c.Writer.Header())
		outer.Run(c.Next, func() *http.Request { return c.Request }, func() {
			c.Abort()
			c.String(500, "recovered")
		})
	})
	if serve != nil {
		r.Use(mount(serve))
	}
	r.GET("/*path", gin.WrapF(handler))
	r.HEAD("/*path", gin.WrapF(handler))
	return r
}

// answer runs the handler with a capture and replies with the result, which it keeps.
func answer(last *host.Result, reasons ...*[]string) host.Middleware {
	return func(x host.Exchange) {
		*last = x.Run(host.Call{Limit: 1 << 10, Passing: func(reason string) string {
			for _, r := range reasons {
				*r = append(*r, reason)
			}
			return ""
		}})
		if !last.Passed {
			x.Reply(host.Reply{Status: last.Status, Header: headers.Diff(last.Before, last.After), Body: last.Body})
		}
	}
}

// serve sends one request to the engine, through a server since Gin's writer takes a connection for granted.
func serve(t *testing.T, r http.Handler, method, path string) (int, string, http.Header) {
	t.Helper()
	server := httptest.NewServer(r)
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header
}

func TestStatusAndErrors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler gin.HandlerFunc
		status  int // of the result
		flaw    string
	}{
		{"nothing at all", func(*gin.Context) {}, 0, ""},
		{"a header only", func(c *gin.Context) { c.Header("X", "1") }, 0, ""},
		{"status only", func(c *gin.Context) { c.Status(201) }, 201, ""},
		{"status 200 only", func(c *gin.Context) { c.Status(200) }, 200, ""},
		{"status 204 only", func(c *gin.Context) { c.Status(204) }, 204, ""},
		{"status twice", func(c *gin.Context) { c.Status(500); c.JSON(404, gin.H{}) }, 404, ""},
		{"status -1 keeps", func(c *gin.Context) { c.Status(201); c.String(-1, "x") }, 201, ""},
		{"abort with status", func(c *gin.Context) { c.AbortWithStatus(403) }, 403, ""},
		{"abort with JSON", func(c *gin.Context) { c.AbortWithStatusJSON(404, gin.H{"a": 1}) }, 404, ""},
		{"error", func(c *gin.Context) { _ = c.Error(io.ErrUnexpectedEOF); c.String(200, "x") }, 200, "error"},
		{"abort with error", func(c *gin.Context) { _ = c.AbortWithError(500, io.ErrUnexpectedEOF) }, 500, "error"},
		{"redirect", func(c *gin.Context) { c.Redirect(302, "/q") }, 302, ""},
		{"template of a type", func(c *gin.Context) { c.Data(200, "a/b", []byte("x")) }, 200, ""},
		{"size and status seen inside", func(c *gin.Context) {
			if c.Writer.Written() || c.Writer.Size() != -1 || c.Writer.Status() != 200 {
				t.Error("not like new")
			}
			c.String(202, "abc")
			if !c.Writer.Written() || c.Writer.Size() != 3 || c.Writer.Status() != 202 {
				t.Error("not like written")
			}
		}, 202, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last host.Result
			var outer [2]int // what a logger outside reads
			build := func(mw ...gin.HandlerFunc) *gin.Engine {
				r := gin.New()
				r.Use(func(c *gin.Context) {
					_ = c.Error(io.EOF) // outer errors are not the handler's
					c.Next()
					outer = [2]int{c.Writer.Status(), max(c.Writer.Size(), 0)}
				})
				r.GET("/p", append(mw, tt.handler)...)
				return r
			}
			status, body := serveNoRedirect(t, build(mount(answer(&last))))
			seen := outer
			nativeStatus, nativeBody := serveNoRedirect(t, build())
			if status != nativeStatus || body != nativeBody || seen != outer {
				t.Errorf("got %d %q, outer middleware saw %v; native %d %q %v", status, body, seen, nativeStatus, nativeBody, outer)
			}
			if last.Status != tt.status || last.Flaw != tt.flaw {
				t.Errorf("result %+v, want %d %q", last, tt.status, tt.flaw)
			}
		})
	}
}

func serveNoRedirect(t *testing.T, r http.Handler) (int, string) {
	server := httptest.NewServer(r)
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/p", nil)
	resp, err := server.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// Gin presets 404 and 405 before the chain, and writes its page after it.
func TestNoRoute(t *testing.T) {
	for _, tt := range []struct {
		name    string
		method  string
		handler gin.HandlerFunc
		status  int // of the result
		body    string
	}{
		{"no handler", "GET", nil, 0, "404 page not found"},
		{"no method", "POST", nil, 0, "405 method not allowed"},
		{"handler without a word", "GET", func(c *gin.Context) { c.Header("X", "1") }, 0, "404 page not found"},
		{"handler with a status that is Gin's", "GET", func(c *gin.Context) { c.Status(404) }, 0, "404 page not found"},
		{"handler with a body", "GET", func(c *gin.Context) { _, _ = c.Writer.WriteString("none") }, 404, "none"},
		{"handler with a status", "GET", func(c *gin.Context) { c.Status(410) }, 410, ""},
		{"handler with both", "GET", func(c *gin.Context) { c.String(200, "found") }, 200, "found"},
	} {
		var last host.Result
		build := func(mw ...gin.HandlerFunc) *gin.Engine {
			r := gin.New()
			r.HandleMethodNotAllowed = true
			r.Use(mw...)
			if tt.handler != nil {
				r.NoRoute(tt.handler)
			}
			r.GET("/p", func(*gin.Context) {})
			return r
		}
		path := "/none"
		if tt.method == "POST" {
			path = "/p"
		}
		status, body, header := serve(t, build(mount(answer(&last))), tt.method, path)
		nativeStatus, nativeBody, nativeHeader := serve(t, build(), tt.method, path)
		if status != nativeStatus || body != nativeBody || body != tt.body || last.Status != tt.status ||
			header.Get("X") != nativeHeader.Get("X") || header.Get("Allow") != nativeHeader.Get("Allow") {
			t.Errorf("%s: %d %q %v, native %d %q %v; result %d", tt.name, status, body, header, nativeStatus, nativeBody, nativeHeader, last.Status)
		}
	}
}

// A Reply of an empty response must be written, or Gin adds its page.
func TestReplyWhereNoRouteMatched(t *testing.T) {
	r := gin.New()
	r.Use(mount(func(x host.Exchange) { x.Reply(host.Reply{Status: 404}) }))
	r.NoRoute(func(*gin.Context) { t.Error("the handler ran") })
	if status, body, _ := serve(t, r, "GET", "/none"); status != 404 || body != "" {
		t.Errorf("%d %q", status, body)
	}
}

func TestAborted(t *testing.T) {
	for _, run := range []bool{false, true} {
		r := gin.New()
		r.Use(func(c *gin.Context) {
			c.Next()
			if c.IsAborted() == run {
				t.Errorf("handler ran %v, aborted %v", run, c.IsAborted())
			}
		})
		var last host.Result
		mw := answer(&last)
		if !run {
			mw = func(x host.Exchange) { x.Reply(host.Reply{Status: 200}) }
		}
		r.GET("/p", mount(mw), func(c *gin.Context) { c.String(200, "x") })
		serve(t, r, "GET", "/p")
	}
}

func TestRecoveryOutside(t *testing.T) {
	var last host.Result
	var log strings.Builder
	r := gin.New()
	r.Use(gin.LoggerWithConfig(gin.LoggerConfig{Output: &log, Formatter: func(p gin.LogFormatterParams) string {
		return fmt.Sprintf("%d %d", p.StatusCode, p.BodySize)
	}}))
	r.Use(gin.RecoveryWithWriter(io.Discard), mount(answer(&last)))
	r.GET("/p", func(c *gin.Context) {
		c.Header("X-Handler", "1")
		c.String(200, "half")
		panic("boom")
	})
	status, body, header := serve(t, r, "GET", "/p")
	if status != 500 || body != "" || header.Get("X-Handler") != "" || log.String() != "500 0" {
		t.Errorf("%d %q %v, log %q", status, body, header, &log)
	}
}

// HandleContext puts Gin's own writer back and writes past the capture.
func TestHandleContext(t *testing.T) {
	for _, inner := range []bool{false, true} { // another Cache on the way
		var outerResult, innerResult host.Result
		var reasons []string
		r := gin.New()
		r.GET("/a", mount(answer(&outerResult, &reasons)), func(c *gin.Context) {
			c.Request.URL.Path = "/b"
			r.HandleContext(c)
		})
		b := []gin.HandlerFunc{func(c *gin.Context) { c.Header("X-B", "1"); c.String(202, "from b") }}
		if inner {
			b = append([]gin.HandlerFunc{mount(answer(&innerResult))}, b...)
		}
		r.GET("/b", b...)
		status, body, header := serve(t, r, "GET", "/a")
		if status != 202 || body != "from b" || header.Get("X-B") != "1" {
			t.Errorf("%d %q %v", status, body, header)
		}
		if !outerResult.Passed || !slices.Equal(reasons, []string{"stream"}) || inner && string(innerResult.Body) != "from b" {
			t.Errorf("outer %+v for %q, inner %+v", outerResult, reasons, innerResult)
		}
	}
}

func TestStream(t *testing.T) {
	type mark struct{}
	var reasons []string
	var again func(context.Context)
	r := gin.New()
	r.GET("/p", mount(func(x host.Exchange) {
		again = x.Freeze()
		x.Run(host.Call{Limit: 100, Passing: func(reason string) string { reasons = append(reasons, reason); return "" }})
	}), func(c *gin.Context) {
		n := 0
		endless := c.Request.Context().Value(mark{}) != nil
		c.Stream(func(w io.Writer) bool {
			n++
			_, _ = io.WriteString(w, "x")
			return endless || n < 3
		})
	})
	if status, body, _ := serve(t, r, "GET", "/p"); status != 200 || body != "xxx" || !slices.Equal(reasons, []string{"flush"}) {
		t.Errorf("%d %q, %q", status, body, reasons)
	}
	// In the background nobody leaves; what ends an endless stream is the context.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), mark{}, 1))
	time.AfterFunc(10*time.Millisecond, cancel)
	again(ctx)
}

func TestConcurrentWrites(t *testing.T) {
	var last host.Result
	r := gin.New()
	r.GET("/p", mount(answer(&last)), func(c *gin.Context) {
		w := c.Writer
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, _ = w.Write([]byte("ab"))
				_, _ = w.WriteString("ab")
				w.WriteHeader(500)
				_, _, _ = w.Size(), w.Status(), w.Written()
			})
		}
		wg.Wait()
	})
	if status, body, _ := serve(t, r, "GET", "/p"); body != strings.Repeat("ab", 8) || status != last.Status {
		t.Errorf("%d %q, %+v", status, body, last)
	}
}

// shout is a middleware's writer over the whole response, outside or inside.
type shout struct{ gin.ResponseWriter }

func (w shout) Write(p []byte) (int, error) { return w.ResponseWriter.Write(bytes.ToUpper(p)) }
func (w shout) WriteString(s string) (int, error) {
	return w.ResponseWriter.WriteString(strings.ToUpper(s))
}

func TestOtherWriters(t *testing.T) {
	wrap := func(c *gin.Context) { c.Writer = shout{c.Writer} }
	for _, long := range []bool{false, true} {
		text := "abc"
		if long {
			text = strings.Repeat("abc", 1000)
		}
		for _, inside := range []bool{false, true} {
			var last host.Result
			r := gin.New()
			chain := []gin.HandlerFunc{wrap, mount(answer(&last))}
			if inside {
				slices.Reverse(chain)
			}
			r.GET("/p", append(chain, func(c *gin.Context) {
				for _, b := range text {
					c.String(200, string(b))
				}
			})...)
			if _, body, _ := serve(t, r, "GET", "/p"); body != strings.ToUpper(text) || last.Passed != long {
				t.Errorf("inside %v: %.20q, passed %v", inside, body, last.Passed)
			}
		}
	}
}

func TestHeadIsRoutedApart(t *testing.T) {
	r := gin.New()
	r.HEAD("/p", mount(func(x host.Exchange) {
		if x.HeadIsGet() {
			t.Error("certain")
		}
		x.Reply(host.Reply{Status: 200, Body: []byte("abc")})
	}))
	if _, _, header := serve(t, r, "HEAD", "/p"); header.Get("Content-Length") != "3" {
		t.Error(header)
	}
}

func TestCache(t *testing.T) {
	gate, err := core.New(core.Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Close(context.Background()) }()
	var o core.Outcome
	ran := 0
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Next(); o = Outcome(c) })
	r.GET("/*path", Cache(gate, core.FreshFor(time.Minute),
		KeyBy(func(c *gin.Context) string { return c.Query("tenant") }),
		SkipIf(func(c *gin.Context) bool { return c.Param("path") == "/skip" }),
	), func(c *gin.Context) { ran++; c.String(200, "x") })
	for _, tt := range []struct {
		path   string
		bypass bool
		ran    int
	}{
		{"/p?tenant=a", false, 1},
		{"/p?tenant=a", false, 1},
		{"/p?tenant=b", false, 2},
		{"/p", true, 3},
		{"/skip?tenant=a", true, 4},
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if o.Role == "" || (o.Role == core.RoleBypass) != tt.bypass || ran != tt.ran || w.Body.String() != "x" {
			t.Errorf("%s: %+v, handler ran %d times, body %q", tt.path, o, ran, w.Body)
		}
	}
}

func TestCacheRefusesMistakes(t *testing.T) {
	if err := core.Check(KeyBy(nil), SkipIf(nil)); err == nil ||
		!strings.Contains(err.Error(), "KeyBy(nil)") || !strings.Contains(err.Error(), "SkipIf(nil)") {
		t.Errorf("Check: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic on a nil gate")
		}
	}()
	Cache(nil)
}
