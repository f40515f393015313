package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(redistest.Main(m),
		goleak.IgnoreAnyFunction(redistest.Goroutine),
		// fasthttp has two of these per process, which never end.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// all runs a test behind each of the four frameworks.
func all(t *testing.T, test func(t *testing.T, adapter string)) {
	for _, adapter := range []string{"nethttp", "gin", "echo", "fiber"} {
		t.Run(adapter, func(t *testing.T) { test(t, adapter) })
	}
}

// running starts a proxy with these flags, which ends with the test.
func running(t *testing.T, adapter, upstream string, extra ...string) *proxy {
	t.Helper()
	args := append([]string{"-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-adapter", adapter, "-upstream", upstream}, extra...)
	s, err := parse(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := p.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return p
}

func (p *proxy) url(path string) string { return "http://" + p.addr + path }

// client changes nothing and follows nothing.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       30 * time.Second,
}

// received is a response with its body.
type received struct {
	*http.Response
	body string
}

func send(t *testing.T, req *http.Request) received {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return received{resp, string(body)}
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func get(t *testing.T, url string) received {
	t.Helper()
	return send(t, request(t, "GET", url, ""))
}

// origin is an upstream that counts.
type origin struct {
	*httptest.Server
	hits atomic.Int64
}

func newOrigin(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.hits.Add(1)
		h(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func TestMethodsWithBodies(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d %v %s", r.Method, r.RequestURI, r.ContentLength, r.TransferEncoding, body)
		})
		p := running(t, adapter, o.URL)
		large := strings.Repeat("0123456789", 500_000)
		for _, test := range []struct{ method, path, body, want string }{
			{"POST", "/a", "some", "POST /a 4 [] some"},
			{"POST", "/a", large, "POST /a 5000000 [] " + large},
			{"POST", "/empty", "", "POST /empty 0 [] "},
			{"PUT", "/a?b=%2f;c", "x", "PUT /a?b=%2f;c 1 [] x"},
			{"PATCH", "/a//b/../c", "x", "PATCH /a//b/../c 1 [] x"},
			{"DELETE", "/a/", "", "DELETE /a/ 0 [] "},
			{"DELETE", "/a", "x", "DELETE /a 1 [] x"},
			{"OPTIONS", "/a", "", "OPTIONS /a 0 [] "},
			{"TRACE", "/a", "", "TRACE /a 0 [] "},
			{"PROPFIND", "/A%20b", "<x/>", "PROPFIND /A%20b 4 [] <x/>"},
			{"PURGE", "/a", "", "PURGE /a 0 [] "},
			{"SHINY", "/a", "x", "SHINY /a 1 [] x"},
			{"GET", "/a%2Fb/%7e?", "", "GET /a%2Fb/%7e? 0 [] "},
			{"GET", "//twice", "", "GET //twice 0 [] "},
			{"GET", "/with-body", "x", "GET /with-body 1 [] x"},
		} {
			before := o.hits.Load()
			req := request(t, test.method, p.url("/"), test.body)
			u, err := url.Parse(p.url(""))
			if err != nil {
				t.Fatal(err)
			}
			path, query, has := strings.Cut(test.path, "?")
			u.Opaque, u.RawQuery, u.ForceQuery = path, query, has
			if strings.HasPrefix(path, "//") {
				u.Opaque, u.Path = "", path
			}
			req.URL = u
			resp := send(t, req)
			if resp.StatusCode != 200 || resp.body != test.want {
				t.Errorf("%s %s: %d %.60q, want %.60q", test.method, test.path, resp.StatusCode, resp.body, test.want)
			}
			if n := o.hits.Load() - before; n != 1 {
				t.Errorf("%s %s: %d requests upstream", test.method, test.path, n)
			}
		}

		// Chunks, as a client sends them that does not know the length.
		req := request(t, "POST", p.url("/chunked"), "")
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader("some")), -1
		if resp := send(t, req); !strings.HasSuffix(resp.body, " some") {
			t.Errorf("chunked: %q", resp.body)
		}
		multipart := request(t, "POST", p.url("/multipart"), "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n")
		multipart.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if resp := send(t, multipart); !strings.HasSuffix(resp.body, "1\r\n--x--\r\n") {
			t.Errorf("multipart: %q", resp.body)
		}
	})
}

func TestHeadersBothWays(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		var got *http.Request
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			got = r
			h := w.Header()
			h["X-Several"] = []string{"1", "2"}
			h["Set-Cookie"] = []string{"a=1; Path=/", "b=2"}
			h["Content-Type"] = nil
			h.Set("Cache-Status", "origin; hit")
			h.Set("Connection", "X-Private")
			h.Set("X-Private", "x")
			h.Set("Keep-Alive", "timeout=5")
			h.Set("Server", "origin/1")
			_, _ = io.WriteString(w, "<html>")
		})
		p := running(t, adapter, o.URL)
		req := request(t, "GET", p.url("/h"), "")
		req.Host = "shop.example:8443"
		req.Header = http.Header{
			"User-Agent":        {""},
			"Accept-Encoding":   {"br;q=1, gzip"},
			"X-Several":         {"1", "2"},
			"Cookie":            {"a=1; b=2"},
			"Authorization":     {"Bearer x"},
			"X-Forwarded-For":   {"192.0.2.1"},
			"X-Forwarded-Host":  {"elsewhere.example"},
			"X-Forwarded-Proto": {"https"},
			"Forwarded":         {"for=192.0.2.1"},
			"Connection":        {"X-Hop, close"},
			"X-Hop":             {"x"},
			"Te":                {"gzip"},
			"If-None-Match":     {`"x"`},
			"Range":             {"bytes=0-1"},
		}
		resp := send(t, req)
		want := req.Header.Clone()
		for _, name := range []string{"User-Agent", "Connection", "X-Hop", "Te"} {
			delete(want, name)
		}
		if !maps.EqualFunc(want, got.Header, slices.Equal) {
			t.Errorf("upstream got\n%v\nwant\n%v", got.Header, want)
		}
		if got.Host != "shop.example:8443" {
			t.Errorf("Host %q", got.Host)
		}
		h := resp.Header
		if !slices.Equal(h["X-Several"], []string{"1", "2"}) || !slices.Equal(h["Set-Cookie"], []string{"a=1; Path=/", "b=2"}) || h.Get("Server") != "origin/1" {
			t.Errorf("client got %v", h)
		}
		if h.Get("X-Private") != "" || h.Get("Keep-Alive") != "" {
			t.Errorf("hop-by-hop fields passed on: %v", h)
		}
		if _, typed := h["Content-Type"]; typed {
			t.Errorf("a Content-Type was made up: %q", h.Get("Content-Type"))
		}
		if status := strings.Join(h["Cache-Status"], ", "); !strings.HasPrefix(status, "origin; hit, herdgate;") && !strings.Contains(status, "herdgate; fwd=bypass") {
			t.Errorf("Cache-Status %q", status)
		}
	})
}

func TestStatuses(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			var code int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
			w.Header().Set("X-Kept", "x")
			w.WriteHeader(code)
			if code != 204 && code != 304 && !strings.HasSuffix(r.URL.Path, "empty") {
				fmt.Fprintf(w, "body of %d", code)
			}
		})
		p := running(t, adapter, o.URL)
		for _, code := range []int{200, 201, 204, 206, 301, 304, 403, 404, 418, 451, 500, 503, 599, 600, 999} {
			want := fmt.Sprintf("body of %d", code)
			if code == 204 || code == 304 {
				want = ""
			}
			before := o.hits.Load()
			resp := get(t, p.url(fmt.Sprintf("/%d", code)))
			if resp.StatusCode != code || resp.body != want || resp.Header.Get("X-Kept") != "x" || resp.Header.Get("Cache-Status") == "" {
				t.Errorf("%d: got %d %q %v", code, resp.StatusCode, resp.body, resp.Header)
			}
			if n := o.hits.Load() - before; n != 1 {
				t.Errorf("%d: %d requests upstream", code, n)
			}
		}
		for _, code := range []int{200, 404, 405, 999} {
			if resp := get(t, p.url(fmt.Sprintf("/%d/empty", code))); resp.StatusCode != code || resp.body != "" {
				t.Errorf("%d without a body: got %d %q", code, resp.StatusCode, resp.body)
			}
		}
	})
}

func TestHead(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/fresh" {
				w.Header().Set("Cache-Control", "max-age=60")
			}
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		})
		p := running(t, adapter, o.URL)
		for i, path := range []string{"/fresh", "/none"} {
			resp := send(t, request(t, "HEAD", p.url(path), ""))
			if resp.StatusCode != 200 || resp.ContentLength != 5 || resp.body != "" {
				t.Errorf("HEAD %s: %d, length %d, %q", path, resp.StatusCode, resp.ContentLength, resp.body)
			}
			if n := o.hits.Load(); n != int64(2*i+1) {
				t.Errorf("HEAD %s: %d requests upstream", path, n)
			}
			if resp := get(t, p.url(path)); resp.body != "hello" {
				t.Errorf("GET %s after HEAD: %q", path, resp.body)
			}
			if i == 0 && o.hits.Load() == 1 {
				o.hits.Add(1) // HEAD has led as GET
			}
		}
		if resp := send(t, request(t, "HEAD", p.url("/fresh"), "")); resp.ContentLength != 5 || o.hits.Load() != 4 {
			t.Errorf("HEAD from a stored GET: length %d, %d requests upstream", resp.ContentLength, o.hits.Load())
		}
	})
}

// Fiber is left out: fasthttp has no interim responses.
func TestEarlyHints(t *testing.T) {
	for _, adapter := range []string{"nethttp", "gin", "echo"} {
		t.Run(adapter, func(t *testing.T) {
			o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Link")
				w.Header().Set("Cache-Control", "max-age=60")
				w.WriteHeader(404)
				_, _ = io.WriteString(w, "a body")
			})
			p := running(t, adapter, o.URL)
			for _, method := range []string{"GET", "POST"} {
				var hints []string
				trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
					return nil
				}}
				req := request(t, method, p.url("/hints"), "")
				resp := send(t, req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
				if !slices.Equal(hints, []string{"103 </style.css>; rel=preload"}) {
					t.Errorf("%s: hints %q", method, hints)
				}
				if resp.StatusCode != 404 || resp.body != "a body" || resp.Header.Get("Link") != "" || resp.Header.Get("Cache-Status") == "" {
					t.Errorf("%s: then %d %q %v", method, resp.StatusCode, resp.body, resp.Header)
				}
			}
		})
	}
}

// The first part of a stream arrives while the rest does not exist yet.
func TestStreams(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		next := make(chan struct{})
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "data: 2\n\n")
		})
		p := running(t, adapter, o.URL)
		for _, path := range []string{"/events", "/lines"} {
			for _, method := range []string{"GET", "POST"} {
				resp, err := client.Do(request(t, method, p.url(path), ""))
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 9)
				if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "data: 1\n\n" {
					t.Errorf("%s %s: first part %q, %v", method, path, first, err)
				}
				next <- struct{}{}
				rest, err := io.ReadAll(resp.Body)
				if err != nil || string(rest) != "data: 2\n\n" {
					t.Errorf("%s %s: the rest %q, %v", method, path, rest, err)
				}
				_ = resp.Body.Close()
			}
		}

		// A client that leaves an endless stream ends it at the origin: the test would not end otherwise.
		resp, err := client.Do(request(t, "GET", p.url("/events"), ""))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(resp.Body, make([]byte, 9))
		_ = resp.Body.Close()
		select {
		case next <- struct{}{}: // Fiber notices it when it writes
		case <-time.After(5 * time.Second):
		}
	})
}

func TestLargeBodies(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		part := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.URL.Path == "/known" {
				w.Header().Set("Content-Length", fmt.Sprint(len(part)*100))
			}
			for range 100 {
				_, _ = w.Write(part)
			}
		})
		p := running(t, adapter, o.URL, "-max-body", "200000")
		for _, path := range []string{"/known", "/unknown"} {
			for range 2 {
				if resp := get(t, p.url(path)); resp.body != strings.Repeat(string(part), 100) {
					t.Errorf("%s: %d bytes", path, len(resp.body))
				}
			}
		}
		if n := o.hits.Load(); n != 4 {
			t.Errorf("%d requests upstream, want 4: it is too large to be stored", n)
		}
	})
}

func TestCaching(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		var version atomic.Int64
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/silent":
			case "/dated":
				w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			default:
				w.Header().Set("Cache-Control", "max-age=60")
			}
			_, _ = fmt.Fprintf(w, "%s version %d", r.URL.Path, version.Load())
			if r.URL.Path == "/chunked" { // a length that is not known is no reason not to be cached
				_ = http.NewResponseController(w).Flush()
				_, _ = io.WriteString(w, ", and more")
			}
		})
		server := redistest.Shared(t)
		for _, backend := range [][]string{nil, {"-redis", server.Addr}, {"-redis", "redis://" + server.Addr + "/0"}} {
			version.Store(1)
			p := running(t, adapter, o.URL, append([]string{"-namespace", redistest.Namespace()}, backend...)...)
			for _, path := range []string{"/p", "/chunked", "/dated"} {
				before := o.hits.Load()
				first, second := get(t, p.url(path)), get(t, p.url(path))
				if first.body != second.body || o.hits.Load() != before+1 || !strings.Contains(second.Header.Get("Cache-Status"), "herdgate; hit") {
					t.Errorf("%v %s: %q then %q, %d requests upstream, %q", backend, path, first.body, second.body, o.hits.Load()-before, second.Header.Get("Cache-Status"))
				}
			}
			before := o.hits.Load()
			get(t, p.url("/silent"))
			get(t, p.url("/silent"))
			if n := o.hits.Load() - before; n != 2 {
				t.Errorf("%v: a response that names neither a lifetime nor when it was modified: %d requests upstream, want 2", backend, n)
			}

			// Invalidation: by path, and by the host that clients use.
			version.Store(2)
			post(t, p, "/invalidate?url=/p", 200)
			if got := get(t, p.url("/p")).body; got != "/p version 2" {
				t.Errorf("%v: after the invalidation: %q", backend, got)
			}
			named := request(t, "GET", p.url("/p?x=%2F"), "")
			named.Host = "shop.example"
			send(t, named)
			version.Store(3)
			if got := send(t, named.Clone(t.Context())).body; got != "/p version 2" {
				t.Errorf("%v: not cached: %q", backend, got)
			}
			post(t, p, "/invalidate?url="+url.QueryEscape("http://shop.example/p?x=%2F"), 200)
			if got := send(t, named.Clone(t.Context())).body; got != "/p version 3" {
				t.Errorf("%v: after the invalidation: %q", backend, got)
			}
		}
	})
}

func post(t *testing.T, p *proxy, path string, want int) {
	t.Helper()
	resp := send(t, request(t, "POST", "http://"+p.adminAddr+path, ""))
	if resp.StatusCode != want {
		t.Errorf("POST %s: %d %s, want %d", path, resp.StatusCode, resp.body, want)
	}
}

func TestFlags(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/max-age" {
			w.Header().Set("Cache-Control", "max-age=60")
		}
		_, _ = io.WriteString(w, "x")
	})
	twice := func(path string, flags ...string) int64 {
		t.Helper()
		p := running(t, "nethttp", o.URL, flags...)
		before := o.hits.Load()
		get(t, p.url(path))
		get(t, p.url(path))
		return o.hits.Load() - before
	}
	if n := twice("/", "-fresh", "1m"); n != 1 {
		t.Errorf("-fresh 1m: %d requests upstream for 2", n)
	}
	if n := twice("/", "-fresh", "0"); n != 2 {
		t.Errorf("-fresh 0: %d requests upstream for 2", n)
	}
	if n := twice("/max-age", "-off"); n != 2 {
		t.Errorf("-off: %d requests upstream for 2", n)
	}
	if n := twice("/max-age", "-max-body", "1", "-lock", "1s", "-hold", "20s", "-wait", "1s", "-stale", "1s", "-stale-if-error", "1s", "-memory", "1000"); n != 1 {
		t.Errorf("all flags: %d requests upstream for 2", n)
	}
	for _, args := range [][]string{
		{}, {"-upstream", "localhost:9000"}, {"-upstream", "ftp://x"}, {"-upstream", "http://x/base"},
		{"-upstream", o.URL, "-adapter", "iris"}, {"-upstream", o.URL, "-fresh", "-1s"}, {"-upstream", o.URL, "-lock", "1ms"},
		{"-upstream", o.URL, "more"}, {"-upstream", o.URL, "-nonsense"},
	} {
		if code := proxyMain(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
	for _, args := range [][]string{{"-listen", o.Listener.Addr().String()}, {"-redis", "redis://["}, {"-redis", "x:1", "-namespace", "a b"}} {
		if code := proxyMain(t.Context(), append([]string{"-upstream", o.URL}, args...), io.Discard, io.Discard); code != 1 {
			t.Errorf("%q: exit code %d, want 1", args, code)
		}
	}
}

func TestCluster(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "x")
	})
	var addrs []string
	for _, node := range redistest.SharedCluster(t).Nodes {
		addrs = append(addrs, node.Addr)
	}
	flags := []string{"-redis", strings.Join(addrs, ","), "-namespace", redistest.Namespace()}
	for _, adapter := range []string{"nethttp", "fiber"} { // two processes of a fleet, behind one name
		req := request(t, "GET", running(t, adapter, o.URL, flags...).url("/"), "")
		req.Host = "shop.example"
		send(t, req)
	}
	if n := o.hits.Load(); n != 1 {
		t.Errorf("%d requests upstream, want 1", n)
	}
}

func TestAdmin(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") })
	p := running(t, "nethttp", o.URL)
	get(t, p.url("/"))
	get(t, p.url("/"))
	send(t, request(t, "POST", p.url("/"), "x"))

	admin := "http://" + p.adminAddr
	if resp := get(t, admin+"/healthz"); resp.StatusCode != 200 {
		t.Errorf("/healthz: %d", resp.StatusCode)
	}
	var stats map[string]any
	if err := json.Unmarshal([]byte(get(t, admin+"/stats").body), &stats); err != nil {
		t.Fatal(err)
	}
	if stats["computations"] != 2.0 || stats["goroutines"].(float64) < 1 || stats["heap_bytes"].(float64) < 1 {
		t.Errorf("/stats: %v", stats)
	}
	if outcomes := stats["outcomes"].(map[string]any); outcomes["hit"] != 1.0 || outcomes["winner"] != 1.0 || outcomes["bypass:method"] != 1.0 {
		t.Errorf("/stats: outcomes %v", outcomes)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(get(t, admin+"/metrics").body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"herdgate_outcomes_total", "herdgate_computations_total", "herdgate_waiting", "proxy_upstream_requests_total", "go_goroutines"} {
		if families[name] == nil {
			t.Errorf("/metrics: no %s", name)
		}
	}
	post(t, p, "/invalidate?tag=product-7", 501)
	post(t, p, "/invalidate", 400)
	post(t, p, "/invalidate?url=product", 400)
	if resp := get(t, admin+"/invalidate?url=/"); resp.StatusCode != 405 {
		t.Errorf("GET /invalidate: %d", resp.StatusCode)
	}
	if n := o.hits.Load(); n != 2 {
		t.Errorf("%d requests upstream: the admin endpoints made some", n)
	}
}

func TestKeysOfInvalidations(t *testing.T) {
	for _, test := range []struct {
		url, host, public string
		want              []core.Key
	}{
		{"/p?a=%2F", "", "192.0.2.1:80", []core.Key{{Host: "192.0.2.1:80", Target: "/p?a=%2F"}}},
		{"/p", "shop.example", "127.0.0.1:81", []core.Key{{Host: "shop.example", Target: "/p"}}},
		{"/p", "", "127.0.0.1:81", []core.Key{{Host: "127.0.0.1:81", Target: "/p"}, {Host: "localhost:81", Target: "/p"}, {Host: "[::1]:81", Target: "/p"}}},
		{"https://Shop.example/a//b%2f?x#y", "", "127.0.0.1:81", []core.Key{{Host: "Shop.example", Target: "/a//b%2f?x"}}},
		{"http://shop.example?x", "", "127.0.0.1:81", []core.Key{{Host: "shop.example", Target: "/?x"}}},
		{"http://shop.example", "", "127.0.0.1:81", []core.Key{{Host: "shop.example", Target: "/"}}},
	} {
		got, err := keysOf(test.url, test.host, test.public)
		if err != nil || !slices.EqualFunc(got, test.want, func(a, b core.Key) bool { return a.Host == b.Host && a.Target == b.Target }) {
			t.Errorf("%s: %v, %v, want %v", test.url, got, err, test.want)
		}
	}
}

// The program says when it is ready, and ends when it is told to, while a request is under way that still gets its
// response.
func TestGracefulEnd(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		arrived, proceed := make(chan struct{}), make(chan struct{})
		o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-proceed
			_, _ = io.WriteString(w, "done")
		})
		ctx, terminate := context.WithCancel(t.Context())
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		code := make(chan int, 1)
		go func() {
			code <- proxyMain(ctx, []string{"-listen", "127.0.0.1:0", "-adapter", adapter, "-upstream", o.URL}, w, os.Stderr)
		}()
		line, err := bufio.NewReader(r).ReadString('\n')
		addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
		if err != nil || !ok {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = r.Close(), w.Close()

		answer := make(chan string, 1)
		go func() {
			resp, err := client.Get("http://" + addr + "/")
			if err != nil {
				answer <- err.Error()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			answer <- string(body)
		}()
		<-arrived
		terminate()
		close(proceed)
		if got := <-answer; got != "done" {
			t.Errorf("the request under way got %q", got)
		}
		client.CloseIdleConnections()
		if got := <-code; got != 0 {
			t.Errorf("exit code %d", got)
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			t.Error("still listening")
		}
	})
}

// An origin that takes a request and closes the connection without an answer may have done the work.
func TestNeverTwice(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		o := newRudeOrigin(t)
		p := running(t, adapter, "http://"+o.addr)
		for _, test := range []struct{ method, header string }{
			{"GET", ""}, {"HEAD", ""}, {"OPTIONS", ""}, {"TRACE", ""}, {"POST", "Idempotency-Key"}, {"PUT", "X-Idempotency-Key"}, {"DELETE", ""},
		} {
			if resp := get(t, p.url("/keep")); resp.StatusCode != 200 { // leaves a connection that is used again
				t.Fatalf("the request before: %d", resp.StatusCode)
			}
			req := request(t, test.method, p.url("/break-"+test.method), "")
			if test.header != "" {
				req.Header.Set(test.header, "17")
			}
			if resp := send(t, req); resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s: %d, want 502", test.method, resp.StatusCode)
			}
			requests := o.saw("/break-" + test.method)
			if len(requests) != 1 {
				t.Errorf("%s: %d requests upstream", test.method, len(requests))
				continue
			}
			head := requests[0]
			if strings.Contains(head, "Transfer-Encoding") || test.header != "" && !strings.Contains(strings.ToLower(head), strings.ToLower(test.header)+": 17") {
				t.Errorf("%s: upstream got\n%s", test.method, head)
			}
		}
	})
}

// A kept connection that the origin has closed meanwhile costs nobody a response.
func TestClosedKeptConnection(t *testing.T) {
	o := newRudeOrigin(t)
	u := newUpstream()
	defer u.transport.CloseIdleConnections()
	for i := range 50 {
		for _, path := range []string{"/keep", fmt.Sprintf("/then-close-%d", i)} {
			resp, err := u.RoundTrip(request(t, "GET", "http://"+o.addr+path, ""))
			if err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		o.closed() // the origin's end: the transport may or may not have noticed
		if n := len(o.saw(fmt.Sprintf("/then-close-%d", i))); n != 1 {
			t.Errorf("round %d: %d requests", i, n)
		}
	}
}

// rudeOrigin speaks HTTP by hand: it answers, and keeps the connection, but for paths with "break", which it reads and
// drops.
type rudeOrigin struct {
	addr string
	mu   sync.Mutex
	seen map[string][]string
	ends chan struct{}
}

func newRudeOrigin(t *testing.T) *rudeOrigin {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &rudeOrigin{addr: listener.Addr().String(), seen: make(map[string][]string), ends: make(chan struct{}, 1000)}
	var all sync.WaitGroup
	var conns sync.Map
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			all.Go(func() { o.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
		all.Wait()
	})
	return o
}

func (o *rudeOrigin) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		o.ends <- struct{}{}
	}()
	r := bufio.NewReader(conn)
	for {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		path := strings.Fields(head.String())[1]
		o.mu.Lock()
		o.seen[path] = append(o.seen[path], head.String())
		o.mu.Unlock()
		if strings.HasPrefix(path, "/break") {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil || strings.HasPrefix(path, "/then-close") {
			return
		}
	}
}

func (o *rudeOrigin) saw(path string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[path]
}

func (o *rudeOrigin) closed() { <-o.ends }

// A body that breaks off is not passed off as a whole one.
func TestBrokenBody(t *testing.T) {
	all(t, func(t *testing.T, adapter string) {
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.URL.Path == "/length" {
				w.Header().Set("Content-Length", "1000")
			}
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		p := running(t, adapter, o.URL)
		for _, path := range []string{"/length", "/chunks"} {
			for _, method := range []string{"GET", "POST"} {
				resp, err := client.Do(request(t, method, p.url(path), ""))
				if err != nil {
					continue // broken off as well
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode != http.StatusBadGateway {
					t.Errorf("%s %s: %d %q looks complete", method, path, resp.StatusCode, body)
				}
			}
		}
	})
}

// A connection that changes its protocol is joined through. Fiber is left out: there the request is
// forwarded without the wish.
func TestUpgrade(t *testing.T) {
	for _, adapter := range []string{"nethttp", "gin", "echo"} {
		t.Run(adapter, func(t *testing.T) {
			o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") != "echo" {
					http.Error(w, "no upgrade", 400)
					return
				}
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "echo")
				w.WriteHeader(http.StatusSwitchingProtocols)
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				line, _ := rw.ReadString('\n')
				_, _ = io.WriteString(conn, "echo "+line)
			})
			p := running(t, adapter, o.URL)
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v, %v", resp, err)
			}
			_, _ = io.WriteString(conn, "hello\n")
			if line, err := r.ReadString('\n'); line != "echo hello\n" {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}
