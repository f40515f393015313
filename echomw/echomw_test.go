package echomw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	native := echo.New().NewContext(nil, nil)
	capturetest.Run(t, capturetest.Adapter{Empty: 0, Native: native, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			outer.Header(c.Response().Header())
			outer.Run(func() { err = next(c) }, c.Request, func() { err = c.String(500, "recovered") })
			return err
		}
	})
	if serve != nil {
		e.Use(mount(serve))
	}
	e.Match([]string{"GET", "HEAD"}, "/*", func(c echo.Context) error {
		handler(c.Response(), c.Request())
		return nil
	})
	return e
}

// answer runs the handler with a capture and replies with the result, which it keeps.
func answer(last *host.Result) host.Middleware {
	return func(x host.Exchange) {
		*last = x.Run(host.Call{Limit: 1 << 10, Drop: []string{"X-Dropped"}})
		if !last.Passed {
			x.Reply(host.Reply{Status: last.Status, Header: headers.Diff(last.Before, last.After), Body: last.Body})
		}
	}
}

func get(t *testing.T, e http.Handler, method string) (int, string, http.Header) {
	t.Helper()
	server := httptest.NewServer(e)
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), method, server.URL+"/p", nil)
	req.Header.Set("X-Dropped", "1")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header
}

func silent() *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	return e
}

// An outer hook asks the context for the response and the request: it must get the outer ones, once.
func TestOuterHooks(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, handler := range map[string]echo.HandlerFunc{
		"captured":  func(c echo.Context) error { return c.String(201, "x") },
		"too large": func(c echo.Context) error { return c.String(201, long) },
		"in pieces": func(c echo.Context) error {
			for range 2000 {
				_, _ = io.WriteString(c.Response(), "x")
			}
			return nil
		},
		"flushed": func(c echo.Context) error { c.Response().WriteHeader(201); c.Response().Flush(); return nil },
		"error":   func(echo.Context) error { return echo.ErrTeapot },
	} {
		var last host.Result
		before, after := 0, 0
		e := silent()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.Response().Before(func() {
					before++
					c.Response().Header().Add("Set-Cookie", "session=1")
					if c.Request().Header.Get("X-Dropped") != "1" {
						t.Errorf("%s: the hook saw the handler's request", name)
					}
				})
				c.Response().After(func() { after++ })
				return next(c)
			}
		})
		e.GET("/p", handler, mount(answer(&last)))
		_, _, header := get(t, e, "GET")
		if before != 1 || len(header["Set-Cookie"]) != 1 || (after == 0) != (name == "flushed") {
			t.Errorf("%s: hooks ran %d times before and %d after, Set-Cookie %q", name, before, after, header["Set-Cookie"])
		}
		if last.After.Get("Set-Cookie") != "" {
			t.Errorf("%s: the hook's cookie is in the capture", name)
		}
	}
}

func TestInnerHooks(t *testing.T) {
	var last host.Result
	e := silent()
	ran := 0
	e.GET("/p", func(c echo.Context) error {
		if c.Response().Status != 200 || c.Response().Committed {
			t.Error("not like new")
		}
		c.Response().Before(func() { ran++; c.Response().Header().Set("X-Hook", "1") })
		return c.String(200, "x")
	}, mount(answer(&last)))
	if _, _, header := get(t, e, "GET"); ran != 1 || header.Get("X-Hook") != "1" || last.After.Get("X-Hook") != "1" {
		t.Errorf("ran %d, %v, %v", ran, header, last.After)
	}
}

func TestErrors(t *testing.T) {
	gone := echo.NewHTTPError(410, "gone")
	plain := errors.New("plain")
	for _, tt := range []struct {
		name    string
		method  string
		handler echo.HandlerFunc
		custom  echo.HTTPErrorHandler
		status  int // of the result
		flaw    string
		err     error
	}{
		{"HTTP error", "GET", func(echo.Context) error { return gone }, nil, 410, "", gone},
		{"HTTP error to HEAD", "HEAD", func(echo.Context) error { return gone }, nil, 410, "", gone},
		{"plain error", "GET", func(echo.Context) error { return plain }, nil, 500, "", plain},
		{"custom handler", "GET", func(echo.Context) error { return plain },
			func(err error, c echo.Context) { _ = c.String(418, err.Error()) }, 418, "", plain},
		{"custom handler that is silent", "GET", func(echo.Context) error { return plain }, func(error, echo.Context) {}, 0, "error", plain},
		{"after the response", "GET", func(c echo.Context) error { _ = c.String(200, "half"); return plain }, nil, 200, "error", plain},
		{"handled by c.Error", "GET", func(c echo.Context) error { c.Error(gone); return nil }, nil, 410, "", nil},
		{"none, and nothing written", "GET", func(echo.Context) error { return nil }, nil, 0, "", nil},
		{"none, and a status that Echo does not send", "GET", func(c echo.Context) error { c.Response().Status = 201; return nil }, nil, 0, "", nil},
		{"none, and no content", "GET", func(c echo.Context) error { return c.NoContent(204) }, nil, 204, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last host.Result
			var outer error
			var seen int
			build := func(mw ...echo.MiddlewareFunc) *echo.Echo {
				e := silent()
				if tt.custom != nil {
					e.HTTPErrorHandler = tt.custom
				}
				e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c echo.Context) error {
						outer = next(c)
						seen = c.Response().Status
						return outer
					}
				})
				e.Match([]string{"GET", "HEAD"}, "/p", tt.handler, mw...)
				return e
			}
			status, body, header := get(t, build(mount(answer(&last))), tt.method)
			if outer != nil || tt.status != 0 && seen != tt.status {
				t.Errorf("outer middleware got error %v, status %d", outer, seen)
			}
			if last.Status != tt.status || last.Flaw != tt.flaw || !errors.Is(last.Err, tt.err) {
				t.Errorf("result %+v", last)
			}
			nativeStatus, nativeBody, nativeHeader := get(t, build(), tt.method)
			if status != nativeStatus || body != nativeBody || header.Get("Content-Type") != nativeHeader.Get("Content-Type") {
				t.Errorf("got %d %q %v, native %d %q %v", status, body, header, nativeStatus, nativeBody, nativeHeader)
			}
		})
	}
}

// What is not captured keeps its error.
func TestErrorPasses(t *testing.T) {
	gone := echo.NewHTTPError(410, "gone")
	for _, limit := range []int64{0, 1} {
		var outer error
		e := silent()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error { outer = next(c); return outer }
		})
		e.GET("/p", func(c echo.Context) error {
			if limit > 0 {
				_ = c.String(200, "long")
			}
			return gone
		}, mount(func(x host.Exchange) {
			if result := x.Run(host.Call{Limit: limit}); !result.Passed {
				t.Errorf("limit %d: %+v", limit, result)
			}
		}))
		status, _, _ := get(t, e, "GET")
		if !errors.Is(outer, gone) || limit == 0 && status != 410 {
			t.Errorf("limit %d: outer middleware got %v, status %d", limit, outer, status)
		}
	}
}

func TestEchosOwnMiddleware(t *testing.T) {
	text := strings.Repeat("text ", 1000)
	for _, tt := range []struct {
		name    string
		before  []echo.MiddlewareFunc
		inside  []echo.MiddlewareFunc
		handler echo.HandlerFunc
		status  int
		body    string
	}{
		{"Recover outside", []echo.MiddlewareFunc{middleware.Recover()}, nil,
			func(c echo.Context) error { _ = c.String(200, "half"); panic("boom") }, 500, "{\"message\":\"Internal Server Error\"}\n"},
		{"Gzip outside, short", []echo.MiddlewareFunc{middleware.Gzip()}, nil, func(c echo.Context) error { return c.String(200, "x") }, 200, "x"},
		{"Gzip outside, too large", []echo.MiddlewareFunc{middleware.Gzip()}, nil, func(c echo.Context) error { return c.String(200, text) }, 200, text},
		{"Gzip inside, short", nil, []echo.MiddlewareFunc{middleware.Gzip()}, func(c echo.Context) error { return c.String(200, "x") }, 200, "x"},
		{"Gzip inside, flushed", nil, []echo.MiddlewareFunc{middleware.Gzip()}, func(c echo.Context) error {
			for word := range strings.SplitAfterSeq(text, " ") {
				_, _ = io.WriteString(c.Response(), word)
				c.Response().Flush()
			}
			return nil
		}, 200, text},
		{"BodyDump inside, in pieces", nil, []echo.MiddlewareFunc{middleware.BodyDump(func(_ echo.Context, _, body []byte) {
			if string(body) != text {
				t.Errorf("dumped %d bytes", len(body))
			}
		})}, func(c echo.Context) error {
			for word := range strings.SplitAfterSeq(text, " ") {
				_, _ = io.WriteString(c.Response(), word)
			}
			return nil
		}, 200, text},
	} {
		var last host.Result
		e := silent()
		e.Use(tt.before...)
		e.GET("/p", tt.handler, append([]echo.MiddlewareFunc{mount(answer(&last))}, tt.inside...)...)
		if status, body, _ := get(t, e, "GET"); status != tt.status || body != tt.body {
			t.Errorf("%s: %d %.40q", tt.name, status, body)
		}
	}
}

// Without a server, as in a test of the application, the copy goes through Echo.
func TestFreezeWithoutServer(t *testing.T) {
	type mark struct{}
	var ids []string
	e := silent()
	e.GET("/p/:id", func(c echo.Context) error {
		ids = append(ids, c.Param("id"))
		return c.NoContent(204)
	}, mount(func(x host.Exchange) {
		if x.Context().Value(mark{}) == nil {
			x.Freeze()(context.WithValue(context.Background(), mark{}, 1))
		}
		x.Run(host.Call{})
	}))
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/p/7", nil))
	if !slices.Equal(ids, []string{"7", "7"}) {
		t.Errorf("ids %q", ids)
	}
}

func TestHeadIsRoutedApart(t *testing.T) {
	if (&exchange{}).HeadIsGet() {
		t.Error("certain")
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
	e := silent()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { err := next(c); o = Outcome(c); return err }
	})
	e.GET("/*", func(c echo.Context) error { ran++; return c.String(200, "x") }, Cache(gate, core.FreshFor(time.Minute),
		KeyBy(func(c echo.Context) string { return c.QueryParam("tenant") }),
		SkipIf(func(c echo.Context) bool { return c.Param("*") == "skip" }),
	))
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
		e.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
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
