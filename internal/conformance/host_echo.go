package conformance

import (
	"io"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/herdgate/herdgate/echomw"
)

// Echo is labstack/echo.
func Echo() Host {
	return Host{
		Name: "echo",
		Cannot: map[Capability]string{
			HeadLeads:    "Echo routes HEAD apart, to a handler that may be another one",
			RecordsError: "Echo has no place for one",
			Informs:      "echo.Response takes every status for the final one",
		},
		Serve: func(app *App, ln net.Listener) func() { return serveHTTP(echoApp(app), ln) },
	}
}

func echoApp(app *App) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true}))
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !app.Before(newEchoCall(c)) {
				return nil
			}
			defer func() { app.After(newEchoCall(c), echomw.Outcome(c)) }()
			return next(c)
		}
	})
	opts := app.Options[:len(app.Options):len(app.Options)]
	if app.KeyBy != "" {
		opts = append(opts, echomw.KeyBy(func(c echo.Context) string { return c.Request().Header.Get(app.KeyBy) }))
	}
	if app.SkipIf != "" {
		opts = append(opts, echomw.SkipIf(func(c echo.Context) bool { return c.Request().Header.Get(app.SkipIf) != "" }))
	}
	var caches []echo.MiddlewareFunc
	for range app.Caches {
		caches = append(caches, echomw.Cache(app.Gate, opts...))
	}
	e.Match(methods, "/*", func(c echo.Context) error { return app.Handle(newEchoCall(c)) }, caches...)
	return e
}

type echoCall struct{ httpCall }

func newEchoCall(c echo.Context) Call { return &echoCall{httpCall{c.Response(), c.Request()}} }

func (c *echoCall) Fail(code int) error { return echo.NewHTTPError(code, "failed on purpose") }
