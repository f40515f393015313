// Package capturetest holds the scenarios that every adapter on net/http must pass, over a real server. Most compare
// what a client gets with and without the middleware: an adapter must not show.
package capturetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// An Adapter is what the scenarios need to know of one.
type Adapter struct {
	// App makes an application that serves GET and HEAD on every path by a middleware of the framework that is Outer, the
	// middleware under test (none if serve is nil) and the handler.
	App func(serve host.Middleware, outer Outer, handler http.HandlerFunc) http.Handler
	// Empty is the status of a handler that writes nothing.
	Empty int
	// Native is of the type of Exchange.Native.
	Native any
}

// Outer is what the App's outer middleware does: set a header, run the rest, and look at the request
// afterwards. If the rest panics or exits the goroutine it answers 500 by Recovered, except to
// http.ErrAbortHandler, which goes on.
type Outer struct {
	After func(r *http.Request)
}

// Header is what the outer middleware sets.
func (o Outer) Header(h http.Header) {
	h.Set("X-Outer", "1")
	h.Set("Vary", "Origin")
	h.Set("X-Gone", "outer")
}

// Run calls rest; done is called with the request at the end, recovered when rest did not return.
func (o Outer) Run(rest func(), request func() *http.Request, recovered func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == any(http.ErrAbortHandler) {
			panic(p)
		}
		recovered()
	}()
	rest()
	returned = true
	if o.After != nil {
		o.After(request())
	}
}

// Limit is the body limit of the scenarios.
const Limit = 100

// Run runs all scenarios.
func Run(t *testing.T, a Adapter) {
	for _, s := range transparent {
		t.Run(s.name, func(t *testing.T) { a.transparent(t, s) })
	}
	t.Run("view", a.view)
	t.Run("call", a.call)
	t.Run("reply", a.reply)
	t.Run("panic", a.panics)
	t.Run("stray goroutine", a.stray)
	t.Run("hijack", a.hijack)
	t.Run("first byte is not held back", a.firstByte)
	t.Run("freeze", a.freeze)
	t.Run("head", a.head)
}

// recorder is a host.Middleware that runs every request with a limit and replies with the result.
type recorder struct {
	limit   int64
	results []host.Result
	reasons []string
	done    chan struct{} // closed when a request was served, if not nil
}

func (rec *recorder) serve(x host.Exchange) {
	result := x.Run(host.Call{Limit: rec.limit, Passing: func(reason string) string {
		rec.reasons = append(rec.reasons, reason)
		return "test; fwd=miss"
	}})
	rec.results = append(rec.results, result)
	if rec.done != nil {
		defer close(rec.done)
	}
	if !result.Passed {
		x.Reply(host.Reply{
			Status:      result.Status,
			Header:      headers.Diff(result.Before, result.After),
			Body:        result.Body,
			CacheStatus: "test; fwd=miss",
		})
	}
}

// got is what a client sees.
type got struct {
	status  int
	body    string
	cut     bool // the body ended with an error
	failed  bool // no response at all
	hints   []string
	header  http.Header
	trailer http.Header
}

func (g got) String() string {
	return fmt.Sprintf("status %d, body %.40q (%d bytes), cut %v, failed %v, hints %q\nheader %v\ntrailer %v",
		g.status, g.body, len(g.body), g.cut, g.failed, g.hints, g.header, g.trailer)
}

// ask sends one request to a server of the application.
func ask(t *testing.T, app http.Handler, method string) got {
	t.Helper()
	server := quiet(t, app)
	var g got
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			delete(h, "Cache-Status") // with Limit 0 it is there before the handler is
			g.hints = append(g.hints, fmt.Sprint(code, h))
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, server.URL+"/p/1?a=b", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		g.failed = true
		return g
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	g.status, g.body, g.cut, g.header, g.trailer = resp.StatusCode, string(body), err != nil, resp.Header, resp.Trailer
	return g
}

func quiet(t *testing.T, app http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(app)
	server.Config.ErrorLog = silent
	server.Start()
	server.Client().Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(server.Close)
	return server
}

// transparent runs a scenario without the middleware, with a capture, and with Limit 0, and compares.
func (a Adapter) transparent(t *testing.T, s scenario) {
	method := http.MethodGet
	if s.method != "" {
		method = s.method
	}
	for _, limit := range []int64{Limit, 0} {
		native := ask(t, a.App(nil, Outer{}, s.handler), method)
		rec := &recorder{limit: limit}
		there := ask(t, a.App(rec.serve, Outer{}, s.handler), method)
		marked := slices.Contains(there.header["Cache-Status"], "test; fwd=miss")
		compare(t, limit, native, there)
		if len(rec.results) != 1 {
			t.Fatalf("limit %d: served %d times", limit, len(rec.results))
		}
		result, reasons := rec.results[0], rec.reasons
		if !marked {
			t.Errorf("limit %d: no Cache-Status of ours", limit)
		}
		if limit == 0 {
			if !result.Passed || !slices.Equal(reasons, []string{""}) {
				t.Errorf("limit 0: result %+v, passing called with %q", result, reasons)
			}
			continue
		}
		if s.reason != "" {
			if !result.Passed || !slices.Equal(reasons, []string{s.reason}) {
				t.Errorf("passed %v for %q, want %q", result.Passed, reasons, s.reason)
			}
			continue
		}
		if result.Passed || len(reasons) > 0 {
			t.Fatalf("passed on for %q, want a capture", reasons)
		}
		want := s.want.Status
		if want == 0 {
			want = a.Empty
		}
		if result.Status != want || string(result.Body) != s.want.Body || result.Flaw != s.want.Flaw || result.Err != nil {
			t.Errorf("result: status %d, body %q, flaw %q, err %v; want %+v", result.Status, result.Body, result.Flaw, result.Err, s.want)
		}
		if result.Before.Get("X-Outer") != "1" || result.Before.Get("X-Handler") != "" {
			t.Errorf("before: %v", result.Before)
		}
	}
}

func compare(t *testing.T, limit int64, native, there got) {
	t.Helper()
	for _, g := range []got{native, there} {
		for name := range g.header {
			switch name {
			case "Date", "Cache-Status": // of the moment; ours
				g.header[name] = slices.DeleteFunc(g.header[name], func(v string) bool { return name == "Date" || v == "test; fwd=miss" })
			case "Content-Length": // net/http makes one only for short bodies
				if g.header.Get("X-Declared") == "" {
					delete(g.header, name)
				}
			}
		}
		maps.DeleteFunc(g.header, func(name string, values []string) bool { return name == "Cache-Status" && len(values) == 0 })
	}
	if native.String() != there.String() {
		t.Errorf("limit %d: got %v\n\nnative %v", limit, there, native)
	}
}

// view checks what an Exchange says of a request.
func (a Adapter) view(t *testing.T) {
	check := func(x host.Exchange) {
		for _, c := range []struct{ what, got, want string }{
			{"Method", x.Method(), "GET"},
			{"Host", x.Host(), "shop.test:81"},
			{"Target", x.Target(), "/a%2Fb/%3F?c=d&c=%20"},
			{"Path", x.Path(), "/a%2Fb/%3F"},
			{"Query", x.Query(), "c=d&c=%20"},
			{"Values", strings.Join(x.Values("X-Two"), "|"), "1|2"},
			{"Values of none", strings.Join(x.Values("X-None"), "|"), ""},
			{"Native", fmt.Sprintf("%T", x.Native()), fmt.Sprintf("%T", a.Native)},
			{"HasBody", fmt.Sprint(x.HasBody()), "false"},
			{"ClientCertificate", fmt.Sprint(x.ClientCertificate()), "false"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
			}
		}
		x.Reply(host.Reply{Status: 200})
	}
	server := quiet(t, a.App(check, Outer{}, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/a%2Fb/%3F?c=d&c=%20", nil)
	req.Host = "shop.test:81"
	req.Header.Add("X-Two", "1")
	req.Header.Add("X-Two", "2")
	fetch(t, server, req)

	var bodies []bool
	server = quiet(t, a.App(func(x host.Exchange) {
		bodies = append(bodies, x.HasBody())
		x.Reply(host.Reply{Status: 200})
	}, Outer{}, nil))
	for _, body := range []io.Reader{http.NoBody, strings.NewReader("x"), io.MultiReader(strings.NewReader("x"))} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/p/1", body)
		fetch(t, server, req)
	}
	if !slices.Equal(bodies, []bool{false, true, true}) {
		t.Errorf("HasBody of none, a length, chunks: %v", bodies)
	}
}

func fetch(t *testing.T, server *httptest.Server, req *http.Request) *http.Response {
	t.Helper()
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

type ctxKey string

// call checks that the handler sees the request as the call says, and everybody else as it was.
func (a Adapter) call(t *testing.T) {
	for _, limit := range []int64{Limit, 0} {
		serve := func(x host.Exchange) {
			x.SetContext(context.WithValue(x.Context(), ctxKey("outcome"), "there"))
			result := x.Run(host.Call{
				Context: context.WithValue(context.WithoutCancel(x.Context()), ctxKey("call"), "there"),
				Method:  "GET",
				Drop:    []string{"Cookie", "If-None-Match"},
				Set:     []headers.Field{{Op: headers.Set, Name: "Cookie", Value: "lang=de"}, {Op: headers.Set, Name: "X-Set", Value: "1"}},
				Limit:   limit,
			})
			if got := strings.Join(x.Values("Cookie"), ""); got != "lang=de; user=me" || x.Method() != "HEAD" {
				t.Errorf("limit %d: after Run the exchange shows Cookie %q, method %s", limit, got, x.Method())
			}
			if !result.Passed {
				x.Reply(host.Reply{Status: result.Status, Header: headers.Diff(result.Before, result.After), Body: result.Body})
			}
		}
		var seen, after string
		app := a.App(serve, Outer{After: func(r *http.Request) { after = describe(r) }},
			func(w http.ResponseWriter, r *http.Request) { seen = describe(r); _, _ = io.WriteString(w, "x") })
		server := quiet(t, app)
		req, _ := http.NewRequestWithContext(t.Context(), "HEAD", server.URL+"/p/1", nil)
		req.Header.Set("Cookie", "lang=de; user=me")
		req.Header.Set("If-None-Match", `"1"`)
		fetch(t, server, req)
		if want := "GET [lang=de] [] [1] call=there outcome=there"; seen != want {
			t.Errorf("limit %d: the handler saw\n%s, want\n%s", limit, seen, want)
		}
		if want := `HEAD [lang=de; user=me] ["1"] [] call=<nil> outcome=there`; after != want {
			t.Errorf("limit %d: outer middleware saw\n%s, want\n%s", limit, after, want)
		}
	}
}

func describe(r *http.Request) string {
	return fmt.Sprintf("%s %v %v %v call=%v outcome=%v", r.Method, r.Header["Cookie"], r.Header["If-None-Match"], r.Header["X-Set"],
		r.Context().Value(ctxKey("call")), r.Context().Value(ctxKey("outcome")))
}

// reply checks whole responses of the gate's own.
func (a Adapter) reply(t *testing.T) {
	body := strings.Repeat("b", 5000) // longer than what net/http computes a length for
	fields := []headers.Field{
		{Op: headers.Set, Name: "Content-Type", Value: "text/x"},
		{Op: headers.Add, Name: "Vary", Value: "Accept"},
		{Op: headers.Del, Name: "X-Gone"},
		{Op: headers.Set, Name: "Cache-Status", Value: "origin; hit"},
	}
	for _, c := range []struct {
		method string
		status int
		body   string
		length string
	}{
		{"GET", 200, body, "5000"},
		{"GET", 200, "", "0"},
		{"GET", 404, "gone", "4"},
		{"GET", 503, "later", "5"},
		{"HEAD", 200, body, "5000"},
		{"HEAD", 200, "", ""},
		{"HEAD", 404, "gone", "4"},
		{"GET", 204, "", ""},
		{"GET", 304, "", ""},
		{"GET", 304, "ignored", ""},
	} {
		serve := func(x host.Exchange) {
			x.Reply(host.Reply{Status: c.status, Header: fields, Body: []byte(c.body), CacheStatus: "test; hit"})
		}
		g := ask(t, a.App(serve, Outer{}, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }), c.method)
		want := c.body
		if c.method == "HEAD" || c.status == 204 || c.status == 304 {
			want = ""
		}
		if g.status != c.status || g.body != want || g.cut || g.header.Get("Content-Length") != c.length {
			t.Errorf("%s %d %.9q: got %v", c.method, c.status, c.body, g)
		}
		if h := g.header; h.Get("X-Outer") != "1" || h.Get("X-Gone") != "" || len(h["Transfer-Encoding"]) > 0 ||
			!slices.Equal(h["Vary"], []string{"Origin", "Accept"}) || !slices.Equal(h["Cache-Status"], []string{"origin; hit", "test; hit"}) {
			t.Errorf("%s %d: header %v", c.method, c.status, h)
		}
	}
}

// panics checks that what unwinds the goroutine gets through, and finds the response as it was.
func (a Adapter) panics(t *testing.T) {
	boom := errors.New("boom")
	serve := func(x host.Exchange) { x.Run(host.Call{Limit: Limit}); t.Error("Run returned") }
	for _, started := range []bool{false, true} {
		g := ask(t, a.App(serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Handler", "1")
			if started {
				w.WriteHeader(202)
				_, _ = io.WriteString(w, "half")
			}
			panic(boom)
		}), "GET")
		if g.status != 500 || g.body != "recovered" || g.header.Get("X-Handler") != "" || g.header.Get("X-Outer") != "1" {
			t.Errorf("panic, started %v: %v", started, g)
		}
	}
	g := ask(t, a.App(serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}), "GET")
	if !g.failed {
		t.Errorf("http.ErrAbortHandler: %v", g)
	}

	// Goexit would take the connection with it, so there is no server.
	w := httptest.NewRecorder()
	app := a.App(serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		_, _ = io.WriteString(w, "half")
		goexit()
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		app.ServeHTTP(w, httptest.NewRequest("GET", "/p/1", nil))
	}()
	<-done
	if w.Code != 500 || w.Body.String() != "recovered" || w.Header().Get("X-Handler") != "" {
		t.Errorf("Goexit: %d %q %v", w.Code, w.Body, w.Header())
	}
}

// stray checks that a goroutine that outlives its handler cannot write any more.
func (a Adapter) stray(t *testing.T) {
	for _, flush := range []bool{false, true} {
		returned, wrote := make(chan struct{}), make(chan error, 1)
		serve := func(x host.Exchange) {
			result := x.Run(host.Call{Limit: Limit})
			close(returned)
			err := <-wrote
			if err == nil {
				t.Errorf("flushed %v: a write after the handler had returned was taken", flush)
			}
			if !result.Passed {
				x.Reply(host.Reply{Status: result.Status, Body: result.Body})
			}
		}
		g := ask(t, a.App(serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "in time")
			if flush {
				w.(http.Flusher).Flush()
			}
			go func() {
				<-returned
				_, err := io.WriteString(w, "too late")
				w.(http.Flusher).Flush()
				wrote <- err
			}()
		}), "GET")
		if g.body != "in time" || g.status != 200 {
			t.Errorf("flushed %v: %v", flush, g)
		}
	}
}

// hijack checks that a handler can have the connection, having written nothing or a header.
func (a Adapter) hijack(t *testing.T) {
	for _, switching := range []bool{false, true} {
		rec := &recorder{limit: Limit, done: make(chan struct{})}
		server := quiet(t, a.App(rec.serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
			head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
			if switching { // as some WebSocket libraries do
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "echo")
				w.WriteHeader(101)
				if now, ok := w.(interface{ WriteHeaderNow() }); ok {
					now.WriteHeaderNow()
				}
				head = ""
			}
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString(head)
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			_, _ = rw.WriteString("echo " + line)
			_ = rw.Flush()
		}))
		req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/p/1", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 101 {
			t.Fatalf("switching %v: status %d", switching, resp.StatusCode)
		}
		rw := resp.Body.(io.ReadWriteCloser)
		_, _ = io.WriteString(rw, "hello\n")
		said, _ := io.ReadAll(rw)
		rw.Close()
		<-rec.done
		if string(said) != "echo hello\n" {
			t.Errorf("switching %v: the connection said %q", switching, said)
		}
		if len(rec.results) != 1 || !rec.results[0].Passed || !slices.Equal(rec.reasons, []string{"hijack"}) {
			t.Errorf("switching %v: results %+v, reasons %q", switching, rec.results, rec.reasons)
		}
	}
}

// firstByte checks that the client sees a flushed or too large response while the handler still works.
func (a Adapter) firstByte(t *testing.T) {
	for _, first := range []string{"flush", strings.Repeat("x", 8192)} {
		seen := make(chan struct{})
		server := quiet(t, a.App((&recorder{limit: Limit}).serve, Outer{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, first)
			if first == "flush" {
				w.(http.Flusher).Flush()
			}
			select {
			case <-seen:
			case <-time.After(10 * time.Second):
				t.Error("the client has not seen the first byte")
			}
		}))
		req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/p/1", nil)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Read(make([]byte, 1))
		close(seen)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// freeze checks that the copy of a request goes through the application once more, from the start and on its own.
func (a Adapter) freeze(t *testing.T) {
	type mark struct{}
	var mu sync.Mutex
	var seen []string
	serve := func(x host.Exchange) {
		if x.Context().Value(mark{}) == nil {
			if again := x.Freeze(); again == nil {
				t.Error("no dispatcher")
			} else {
				ctx, cancel := context.WithCancel(context.WithValue(context.Background(), mark{}, "set")) // none of the request
				done := make(chan struct{})
				go func() { defer close(done); again(ctx) }()
				<-done
				cancel()
			}
		}
		x.Run(host.Call{})
	}
	app := a.App(serve, Outer{}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s %s path=%s host=%s accept=%q mark=%v outer=%v server=%v addr=%v body=%v",
			r.Proto, r.Method, r.RequestURI, r.URL, r.Host, r.Header["Accept"], r.Context().Value(mark{}), r.Context().Value(ctxKey("outer")),
			r.Context().Value(http.ServerContextKey) != nil, r.Context().Value(http.LocalAddrContextKey) != nil, r.Body == http.NoBody))
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "x")
	})
	// A router that keeps its place in a pooled value of the context, and takes a request that has one for routed.
	mounted := http.StripPrefix("/mnt", app)
	server := quiet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(ctxKey("outer")) != nil {
			t.Error("the copy carries the first request's values")
		}
		mounted.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ctxKey("outer"), "routed")))
	}))
	req, _ := http.NewRequestWithContext(t.Context(), "HEAD", server.URL+"/mnt/p/1?q=%2F", nil)
	req.Host = "shop.test"
	req.Header.Set("Accept", "text/x")
	if resp := fetch(t, server, req); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	tail := `HTTP/1.1 %s /mnt/p/1?q=%%2F path=/p/1?q=%%2F host=shop.test accept=["text/x"] mark=%v outer=routed server=true addr=true body=true`
	want := []string{fmt.Sprintf(tail, "GET", "set"), fmt.Sprintf(tail, "HEAD", "<nil>")}
	if !slices.Equal(seen, want) {
		t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}
