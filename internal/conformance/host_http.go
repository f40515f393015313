package conformance

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/nethttpmw"
)

// NetHTTP is http.ServeMux.
func NetHTTP() Host {
	return Host{
		Name:    "nethttp",
		Cluster: true,
		Cannot: map[Capability]string{
			ReturnsError: "an http.Handler returns nothing",
			RecordsError: "net/http has no place for one",
		},
		Serve: func(app *App, ln net.Listener) func() { return serveHTTP(muxApp(app), ln) },
	}
}

// Chi is go-chi/chi, with the adapter for net/http.
func Chi() Host {
	return Host{
		Name: "chi",
		Cannot: map[Capability]string{
			ReturnsError: "an http.Handler returns nothing",
			RecordsError: "chi has no place for one",
			HeadLeads:    "chi routes HEAD apart, to a handler that may be another one",
		},
		Serve: func(app *App, ln net.Listener) func() { return serveHTTP(chiApp(app), ln) },
	}
}

// methods are those that hosts route.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func muxApp(app *App) http.Handler {
	h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = app.Handle(&httpCall{w, r}) }))
	for range app.Caches {
		h = nethttpmw.Cache(app.Gate, httpOptions(app)...)(h)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", h)
	mux.Handle("/", h)
	return recovering(outer(app)(mux))
}

func chiApp(app *App) http.Handler {
	r := chi.NewRouter()
	r.Use(recovering, outer(app))
	var caches chi.Middlewares
	for range app.Caches {
		caches = append(caches, nethttpmw.Cache(app.Gate, httpOptions(app)...))
	}
	for _, method := range methods {
		r.With(caches...).MethodFunc(method, "/*", func(w http.ResponseWriter, r *http.Request) { _ = app.Handle(&httpCall{w, r}) })
	}
	return r
}

func httpOptions(app *App) []core.RouteOption {
	opts := app.Options[:len(app.Options):len(app.Options)]
	if app.KeyBy != "" {
		opts = append(opts, nethttpmw.KeyBy(func(r *http.Request) string { return r.Header.Get(app.KeyBy) }))
	}
	if app.SkipIf != "" {
		opts = append(opts, nethttpmw.SkipIf(func(r *http.Request) bool { return r.Header.Get(app.SkipIf) != "" }))
	}
	return opts
}

func outer(app *App) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			call := &httpCall{w, r}
			if !app.Before(call) {
				return
			}
			defer func() { app.After(call, nethttpmw.Outcome(r)) }()
			next.ServeHTTP(w, r)
		})
	}
}

// recovering is what services put around their handlers: chi's Recoverer, without its log.
func recovering(next http.Handler) http.Handler {
	return quiet(middleware.Recoverer(next))
}

func quiet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, middleware.WithLogEntry(r, noLog{}))
	})
}

type noLog struct{}

func (noLog) Write(int, int, http.Header, time.Duration, any) {}
func (noLog) Panic(any, []byte)                               {}

// serveHTTP serves a handler on a listener, HTTP/2 included if the listener negotiates it.
func serveHTTP(h http.Handler, ln net.Listener) (stop func()) {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// httpCall is a Call of anything that is made on net/http.
type httpCall struct {
	w http.ResponseWriter
	r *http.Request
}

func (c *httpCall) Context() context.Context    { return c.r.Context() }
func (c *httpCall) Method() string              { return c.r.Method }
func (c *httpCall) Target() string              { return c.r.URL.RequestURI() }
func (c *httpCall) Values(name string) []string { return c.r.Header.Values(name) }
func (c *httpCall) Set(name, value string)      { c.w.Header().Set(name, value) }
func (c *httpCall) Add(name, value string)      { c.w.Header().Add(name, value) }
func (c *httpCall) Del(name string)             { c.w.Header().Del(name) }
func (c *httpCall) Status(code int)             { c.w.WriteHeader(code) }
func (c *httpCall) Inform(code int)             { c.w.WriteHeader(code) }
func (c *httpCall) Write(p []byte)              { _, _ = c.w.Write(p) }
func (c *httpCall) Record(error)                {}
func (c *httpCall) Fail(int) error              { return nil }

func (c *httpCall) Stream(run func(StreamWriter)) {
	run(httpStream{c.w, http.NewResponseController(c.w)})
}

func (c *httpCall) Hijack(run func(net.Conn)) error {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	run(conn)
	return nil
}

func (c *httpCall) Rewrite(path string) { c.r.URL.Path, c.r.URL.RawPath = path, "" }

type httpStream struct {
	io.Writer
	control *http.ResponseController
}

func (s httpStream) Flush() error { return s.control.Flush() }
