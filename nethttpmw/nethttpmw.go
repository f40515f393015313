// Package nethttpmw puts a gate in front of net/http handlers, and thereby of every router that takes
// func(http.Handler) http.Handler:
//
//	mux.Handle("GET /products/{id}", nethttpmw.Cache(gate, core.FreshFor(5*time.Minute))(product))
//	r.With(nethttpmw.Cache(gate, core.FreshFor(5*time.Minute))).Get("/products/{id}", product) // chi
package nethttpmw

import (
	"errors"
	"net/http"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/route"
)

// Cache returns the middleware of one route. It panics on a nil gate and on an invalid option, as
// http.ServeMux does on an invalid pattern; core.Check returns the error instead.
//
// Middleware outside sees the response when it is whole, or from the first byte if it is too large or flushed.
// The request's context is replaced in place, so that Outcome works for whoever passed the same *http.Request on.
func Cache(gate *core.Gate, opts ...core.RouteOption) func(http.Handler) http.Handler {
	return mount(gate.Mount(opts...))
}

func mount(serve host.Middleware) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := &exchange{w: w, next: next}
			x.HTTP = r
			serve(x)
		})
	}
}

// KeyBy makes what f returns part of the key, such as a tenant that outer middleware put into the request's
// context. A request for which f returns "" is not cached. f is called on the request's goroutine.
func KeyBy(f func(r *http.Request) string) core.RouteOption {
	return func(c *route.Config) error {
		if f == nil {
			return errors.New("herdgate: KeyBy(nil): give a function")
		}
		c.KeyBy = func(native any) string { return f(native.(*http.Request)) }
		return nil
	}
}

// SkipIf sends requests for which f returns true straight to the handler. f is called on the request's goroutine.
func SkipIf(f func(r *http.Request) bool) core.RouteOption {
	return func(c *route.Config) error {
		if f == nil {
			return errors.New("herdgate: SkipIf(nil): give a function")
		}
		c.Skip = func(native any) bool { return f(native.(*http.Request)) }
		return nil
	}
}

// Outcome says what happened to the request: for handlers, and for middleware outside Cache after
// its next.ServeHTTP(w, r) has returned, if it passed r itself on and no copy (r.WithContext).
func Outcome(r *http.Request) core.Outcome { return core.OutcomeOf(r.Context()) }
