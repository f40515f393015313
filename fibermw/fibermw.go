// Package fibermw is herdgate's middleware for Fiber v2.
//
//	app.Get("/products/:id", fibermw.Cache(gate, core.FreshFor(5*time.Minute), core.Public()), product)
//
// Put the recover middleware around it: Fiber has none of its own, and a handler that panics ends the process.
// Compression and ETag middleware belong around it as well. A streamed body (SetBodyStream, SendFile,
// server-sent events) is passed through and not cached.
package fibermw

import (
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/route"
)

// Cache returns the middleware of one route or group. It panics on a nil gate and on an invalid option (core.Check
// returns the error instead).
//
// The handler sees a context of its own in c.UserContext(), which core.SetFresh and core.NoStore need; a context that it
// sets there is gone when it returns. An error that a cached handler returns becomes a response at once, by the application's
// ErrorHandler, so middleware outside sees the response and not the error.
//
// By default Fiber believes X-Forwarded-Host (c.Hostname, c.BaseURL). Requests for which it shows another host
// than the Host header are kept apart, but a key has room for 64 such hosts only: where they are many,
// give the host to KeyBy. What an application does with X-Forwarded-Proto (c.Protocol) is not part of the
// key: use core.KeyHeader.
func Cache(gate *core.Gate, opts ...core.RouteOption) fiber.Handler {
	return handler(gate.Mount(opts...))
}

// KeyBy makes what f returns part of the key, such as the tenant or the user that middleware outside put into
// c.Locals. With "" the request is not cached. f runs on the request's goroutine; the string is copied, so it may alias
// Fiber's buffers. A nil f is an error.
func KeyBy(f func(*fiber.Ctx) string) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: KeyBy(nil): give it the function that names the tenant or user")
		}
		cfg.KeyBy = func(native any) string {
			c, ok := native.(*fiber.Ctx)
			if !ok {
				return "" // the option of one framework on the route of another
			}
			return strings.Clone(f(c))
		}
		return nil
	}
}

// SkipIf sends the requests for which f returns true straight to the handler. f runs on the request's goroutine. A nil f is an
// error.
func SkipIf(f func(*fiber.Ctx) bool) core.RouteOption {
	return func(cfg *route.Config) error {
		if f == nil {
			return errors.New("herdgate: SkipIf(nil): give it the function that says which requests are not cached")
		}
		cfg.Skip = func(native any) bool {
			c, ok := native.(*fiber.Ctx)
			return !ok || f(c)
		}
		return nil
	}
}

// Outcome returns what happened to the request: complete for middleware outside Cache once c.Next has returned, only
// in part for the handler. It is the zero Outcome if no Cache saw the request.
func Outcome(c *fiber.Ctx) core.Outcome {
	return core.OutcomeOf(c.UserContext())
}

// handler runs serve for each request. The error is the handler's, if its response was not captured.
func handler(serve host.Middleware) fiber.Handler {
	return func(c *fiber.Ctx) error {
		resume(c)
		x := newExchange(c)
		serve(x)
		return x.err
	}
}
