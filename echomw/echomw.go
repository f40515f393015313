// Package echomw puts a gate in front of Echo handlers:
//
//	e.GET("/products/:id", product, echomw.Cache(gate, core.FreshFor(5*time.Minute)))
//
// Compression belongs outside (e.Use(middleware.Gzip())), so that one stored copy suits every client.
package echomw

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/route"
)

// Cache returns the middleware of one route. It panics on a nil gate and on an invalid option;
// core.Check returns the error instead.
//
// An error that a captured handler returns is turned into the response by the application's own
// HTTPErrorHandler inside Cache, since it is the final response that counts; middleware outside sees this
// response and no error. A response that is not captured keeps its error.
func Cache(gate *core.Gate, opts ...core.RouteOption) echo.MiddlewareFunc {
	return mount(gate.Mount(opts...))
}

func mount(serve host.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			x := &exchange{c: c, next: next}
			x.HTTP = c.Request()
			serve(x)
			return x.err
		}
	}
}

// KeyBy makes what f returns part of the key, such as a tenant that outer middleware put into the context. A request
// for which f returns "" is not cached. f is called on the request's goroutine.
func KeyBy(f func(c echo.Context) string) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: KeyBy(nil): give a function")
		}
		cfg.KeyBy = func(native any) string { return f(native.(echo.Context)) }
		return nil
	}
}

// SkipIf sends requests for which f returns true straight to the handler. f is called on the request's goroutine.
func SkipIf(f func(c echo.Context) bool) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: SkipIf(nil): give a function")
		}
		cfg.Skip = func(native any) bool { return f(native.(echo.Context)) }
		return nil
	}
}

// Outcome says what happened to the request: for handlers, and for middleware outside Cache after its next(c).
func Outcome(c echo.Context) core.Outcome { return core.OutcomeOf(c.Request().Context()) }
