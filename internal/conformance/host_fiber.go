package conformance

import (
	"bufio"
	"context"
	"net"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/herdgate/herdgate/fibermw"
)

// Fiber is gofiber/fiber.
func Fiber() Host {
	return Host{
		Name: "fiber",
		Cannot: map[Capability]string{
			SeesLeave:     "fasthttp does not watch the connection while a handler runs",
			RecordsError:  "Fiber has no place for one",
			Aborts:        "fasthttp knows no http.ErrAbortHandler: the recover middleware makes a 500 of it",
			Goexits:       "fasthttp neither answers nor closes a connection whose goroutine has ended",
			Informs:       "fasthttp sends the one response when the handler has returned",
			HTTP2:         "fasthttp speaks HTTP/1 only",
			Commits:       "fasthttp sends nothing before the handler has returned",
			OwnLength:     "fasthttp sends the length that the body has",
			OwnDate:       "fasthttp writes the Date itself",
			InlineStreams: "fasthttp streams after the handler has returned",
			Trailers:      "fasthttp takes the values of trailers before the body is made",
		},
		Serve: func(app *App, ln net.Listener) func() {
			f := fiberApp(app)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = f.Listener(ln)
			}()
			return func() {
				_ = f.ShutdownWithTimeout(10 * time.Second)
				<-done
			}
		},
	}
}

func fiberApp(app *App) *fiber.App {
	f := fiber.New(fiber.Config{DisableStartupMessage: true})
	f.Use(recover.New())
	f.Use(func(c *fiber.Ctx) error {
		call := &fiberCall{c}
		if !app.Before(call) {
			return nil
		}
		defer func() { app.After(call, fibermw.Outcome(c)) }()
		return c.Next()
	})
	opts := app.Options[:len(app.Options):len(app.Options)]
	if app.KeyBy != "" {
		opts = append(opts, fibermw.KeyBy(func(c *fiber.Ctx) string { return c.Get(app.KeyBy) }))
	}
	if app.SkipIf != "" {
		opts = append(opts, fibermw.SkipIf(func(c *fiber.Ctx) bool { return c.Get(app.SkipIf) != "" }))
	}
	var chain []fiber.Handler
	for range app.Caches {
		chain = append(chain, fibermw.Cache(app.Gate, opts...))
	}
	chain = append(chain, func(c *fiber.Ctx) error { return app.Handle(&fiberCall{c}) })
	f.Get("/*", chain...) // and HEAD
	for _, method := range methods {
		if method != fiber.MethodGet && method != fiber.MethodHead {
			f.Add(method, "/*", chain...)
		}
	}
	return f
}

// fiberCall is a Call of Fiber, whose strings do not outlive the request.
type fiberCall struct{ c *fiber.Ctx }

func (c *fiberCall) Context() context.Context { return c.c.UserContext() }
func (c *fiberCall) Method() string           { return strings.Clone(c.c.Method()) }

func (c *fiberCall) Target() string {
	target := strings.Clone(c.c.Path())
	if query := c.c.Context().URI().QueryString(); len(query) > 0 {
		target += "?" + string(query)
	}
	return target
}

func (c *fiberCall) Values(name string) []string {
	var values []string
	for _, line := range c.c.Request().Header.PeekAll(name) {
		if len(line) > 0 {
			values = append(values, string(line))
		}
	}
	return values
}

func (c *fiberCall) Set(name, value string) { c.c.Set(name, value) }
func (c *fiberCall) Add(name, value string) { c.c.Response().Header.Add(name, value) }
func (c *fiberCall) Del(name string)        { c.c.Response().Header.Del(name) }
func (c *fiberCall) Status(code int)        { c.c.Status(code) }
func (c *fiberCall) Inform(int)             {}
func (c *fiberCall) Write(p []byte)         { _, _ = c.c.Write(p) }
func (c *fiberCall) Record(error)           {}
func (c *fiberCall) Fail(code int) error    { return fiber.NewError(code, "failed on purpose") }
func (c *fiberCall) Rewrite(path string)    { c.c.Path(path) }

func (c *fiberCall) Stream(run func(StreamWriter)) {
	c.c.Context().SetBodyStreamWriter(func(w *bufio.Writer) { run(w) })
}

func (c *fiberCall) Hijack(run func(net.Conn)) error {
	c.c.Context().HijackSetNoResponse(true)
	c.c.Context().Hijack(run)
	return nil
}
