package nethttpmw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	capturetest.Run(t, capturetest.Adapter{Empty: 200, Native: &http.Request{}, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	var inner http.Handler = handler
	if serve != nil {
		inner = mount(serve)(handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer.Header(w.Header())
		outer.Run(func() { inner.ServeHTTP(w, r) }, func() *http.Request { return r }, func() {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "recovered")
		})
	})
}

// answer runs the handler with a capture and replies with the result, which it keeps.
func answer(last *host.Result) host.Middleware {
	return func(x host.Exchange) {
		*last = x.Run(host.Call{Limit: 1 << 10, Context: x.Context()})
		if !last.Passed {
			x.Reply(host.Reply{Status: last.Status, Header: headers.Diff(last.Before, last.After), Body: last.Body})
		}
	}
}

// The context is given, so the mux routes a copy of the request.
func TestMuxInside(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /p/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		_, _ = io.WriteString(w, r.PathValue("id"))
	})
	var last host.Result
	cached := mount(answer(&last))(mux)
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/p/7?a=b", nil)
	cached.ServeHTTP(w, r)
	if w.Body.String() != "7" || r.Pattern != "GET /p/{id}" || r.PathValue("id") != "7" || r.Form.Get("a") != "b" {
		t.Errorf("body %q, pattern %q, id %q, form %v", w.Body, r.Pattern, r.PathValue("id"), r.Form)
	}
}

func TestMuxInsideThatPanics(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /p/{id}", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r := httptest.NewRequest("HEAD", "/p/7", nil)
	r.Header.Set("Cookie", "a=b")
	defer func() {
		if p := recover(); p != any(http.ErrAbortHandler) {
			t.Errorf("recovered %v", p)
		}
		if r.Pattern != "GET /p/{id}" || r.Method != "HEAD" || r.Header.Get("Cookie") != "a=b" {
			t.Errorf("%s %q %v", r.Method, r.Pattern, r.Header)
		}
	}()
	mount(func(x host.Exchange) {
		x.Run(host.Call{Limit: 1, Method: "GET", Drop: []string{"Cookie"}, Context: context.Background()})
	})(mux).ServeHTTP(httptest.NewRecorder(), r)
}

func TestHeadIsGet(t *testing.T) {
	for pattern, want := range map[string]bool{"": true, "GET /p": true, "/p": false, "HEAD /p": false, "GETTER /p": false} {
		x := &exchange{}
		x.HTTP = &http.Request{Pattern: pattern}
		if got := x.HeadIsGet(); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

// http.TimeoutHandler's writer can neither flush nor be hijacked nor unwrapped.
func TestTimeoutHandlerOutside(t *testing.T) {
	var last host.Result
	app := http.TimeoutHandler(mount(answer(&last))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "x")
	})), time.Minute, "late")
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Body.String() != "x" || last.Passed || string(last.Body) != "x" {
		t.Errorf("%q, %+v", w.Body, last)
	}
}

func TestReverseProxyInside(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		w.WriteHeader(404)
		_, _ = io.WriteString(w, r.URL.Path)
		w.Header().Set("X-Sum", "1")
	}))
	defer origin.Close()
	to, _ := url.Parse(origin.URL)
	var last host.Result
	front := httptest.NewServer(mount(answer(&last))(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}))
	defer front.Close()
	resp, err := front.Client().Get(front.URL + "/p")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 404 || string(body) != "/p" || resp.Trailer.Get("X-Sum") != "1" || !last.Passed {
		t.Errorf("%d %q %v, %+v", resp.StatusCode, body, resp.Trailer, last)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestHTTP2(t *testing.T) {
	var last host.Result
	server := httptest.NewUnstartedServer(mount(answer(&last))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, r.Proto)
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for path, passed := range map[string]bool{"/": false, "/stream": true} {
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "HTTP/2.0" || last.Passed != passed {
			t.Errorf("%s: %q, passed %v", path, body, last.Passed)
		}
	}
}

func TestCache(t *testing.T) {
	gate, err := core.New(core.Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Close(context.Background()) }()
	ran := 0
	cached := Cache(gate, core.FreshFor(time.Minute),
		KeyBy(func(r *http.Request) string { return r.Header.Get("X-Tenant") }),
		SkipIf(func(r *http.Request) bool { return r.URL.Path == "/skip" }),
	)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran++
		_, _ = io.WriteString(w, "x")
	}))
	for _, tt := range []struct {
		path, tenant string
		bypass       bool
		ran          int
	}{
		{"/p", "a", false, 1},
		{"/p", "a", false, 1},
		{"/p", "b", false, 2},
		{"/p", "", true, 3},
		{"/skip", "a", true, 4},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", tt.path, nil)
		r.Header.Set("X-Tenant", tt.tenant)
		cached.ServeHTTP(w, r)
		if o := Outcome(r); o.Role == "" || (o.Role == core.RoleBypass) != tt.bypass || ran != tt.ran || w.Body.String() != "x" {
			t.Errorf("%s for %q: %+v, handler ran %d times, body %q", tt.path, tt.tenant, o, ran, w.Body)
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
