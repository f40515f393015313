// Package ginmw puts a gate in front of Gin handlers:
//
//	r.GET("/products/:id", ginmw.Cache(gate, core.FreshFor(5*time.Minute)), product)
//
// Compression belongs outside (r.Use(gzip.Gzip(...)) before Cache), so that one stored copy suits every client.
//
// A handler that calls Engine.HandleContext is served but not cached: Gin then writes past every writer that
// middleware has put in place. What such a handler set or wrote before the call is lost: pass it by with SkipIf, or make it
// the first thing that the handler does.
package ginmw

import (
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/route"
)

// Cache returns the middleware of one route. It panics on a nil gate and on an invalid option;
// core.Check returns the error instead.
//
// A response for which a handler recorded an error (c.Error) is not stored; with a status from 500 on it is a failure. Gin does not route HEAD to
// the handler of GET: register HEAD where it is wanted.
func Cache(gate *core.Gate, opts ...core.RouteOption) gin.HandlerFunc {
	return mount(gate.Mount(opts...))
}

func mount(serve host.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		x := &exchange{c: c}
		x.HTTP = c.Request
		serve(x)
	}
}

// KeyBy makes what f returns part of the key, such as a tenant that outer middleware put into the context. A request
// for which f returns "" is not cached. f is called on the request's goroutine.
func KeyBy(f func(c *gin.Context) string) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: KeyBy(nil): give a function")
		}
		cfg.KeyBy = func(native any) string { return f(native.(*gin.Context)) }
		return nil
	}
}

// SkipIf sends requests for which f returns true straight to the handler. f is called on the request's goroutine.
func SkipIf(f func(c *gin.Context) bool) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: SkipIf(nil): give a function")
		}
		cfg.Skip = func(native any) bool { return f(native.(*gin.Context)) }
		return nil
	}
}

// Outcome says what happened to the request: for handlers, and for middleware outside Cache after c.Next.
func Outcome(c *gin.Context) core.Outcome { return core.OutcomeOf(c.Request.Context()) }
