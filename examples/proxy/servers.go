package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/echomw"
	"github.com/herdgate/herdgate/fibermw"
	"github.com/herdgate/herdgate/ginmw"
	"github.com/herdgate/herdgate/nethttpmw"
)

// server is the proxy in one of the four frameworks.
type server struct {
	serve    func(net.Listener) error
	shutdown func(context.Context) error
}

// servers are the frameworks. Each takes every path and every method, and leaves both as they were received.
var servers map[string]func(*core.Gate, *forwarder, []core.RouteOption) server

func init() {
	servers = map[string]func(*core.Gate, *forwarder, []core.RouteOption) server{
		"nethttp": onNetHTTP,
		"gin":     onGin,
		"echo":    onEcho,
		"fiber":   onFiber,
	}
}

// onNetHTTP uses no mux: it would clean paths.
func onNetHTTP(gate *core.Gate, f *forwarder, opts []core.RouteOption) server {
	return httpServer(nethttpmw.Cache(gate, opts...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.serve(w, w, r)
	})))
}

func onGin(gate *core.Gate, f *forwarder, opts []core.RouteOption) server {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	forward := func(c *gin.Context) {
		f.serve(c.Writer, beneath(c.Writer), c.Request)
		c.Writer.WriteHeaderNow() // a 404 without a body would become Gin's own page
	}
	// No route, so that the path is not looked at, and methods that Gin does not know come through too.
	r.NoRoute(ginmw.Cache(gate, opts...), forward)
	return httpServer(r)
}

// beneath returns the first writer that is not Gin's: Gin takes every status for the final one.
func beneath(w http.ResponseWriter) http.ResponseWriter {
	for {
		if _, gins := w.(gin.ResponseWriter); !gins {
			return w
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

func onEcho(gate *core.Gate, f *forwarder, opts []core.RouteOption) server {
	e := echo.New()
	forward := func(c echo.Context) error {
		f.serve(c.Response(), c.Response().Writer, c.Request())
		return nil
	}
	e.RouteNotFound("/*", forward, echomw.Cache(gate, opts...))
	return httpServer(e)
}

func httpServer(h http.Handler) server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		DisableGeneralOptionsHandler: true} // "OPTIONS *" is for the origin
	return server{s.Serve, func(ctx context.Context) error {
		if err := s.Shutdown(ctx); err != nil {
			return s.Close() // a stream has no end: it is cut off
		}
		return nil
	}}
}

// webDAV and others, which Fiber has to know to route them (IANA's registry of methods).
var otherMethods = []string{"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY",
	"MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "PURGE", "QUERY", "REBIND",
	"REPORT", "SEARCH", "M-SEARCH", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL"}

func onFiber(gate *core.Gate, f *forwarder, opts []core.RouteOption) server {
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StrictRouting:                true,
		RequestMethods:               slices.Concat(fiber.DefaultMethods, otherMethods),
		BodyLimit:                    1 << 30,  // request bodies are held in memory here
		ReadBufferSize:               64 << 10, // the limit of a request header: Fiber's 4 KiB is less than browsers send
		DisablePreParseMultipartForm: true,     // bodies are not ours to parse
		DisableDefaultContentType:    true,
		EnableTrustedProxyCheck:      true, // X-Forwarded-* is for the origin
		IdleTimeout:                  2 * time.Minute,
	})
	app.Use(fibermw.Cache(gate, opts...), func(c *fiber.Ctx) error {
		f.serveFast(c.UserContext(), c.Context())
		return nil
	})
	// Fiber refuses methods that are not in its list. They are forwarded without it.
	routed := app.Handler()
	app.Server().Handler = func(c *fasthttp.RequestCtx) {
		if slices.Contains(app.Config().RequestMethods, string(c.Method())) {
			routed(c)
		} else {
			f.serveFast(context.Background(), c)
		}
	}
	return server{app.Listener, app.ShutdownWithContext}
}
