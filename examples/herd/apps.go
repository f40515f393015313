package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/echomw"
	"github.com/herdgate/herdgate/fibermw"
	"github.com/herdgate/herdgate/ginmw"
	"github.com/herdgate/herdgate/nethttpmw"
)

// app is one of the four applications, which differ in nothing but the framework.
type app struct {
	serve    func(net.Listener) error
	shutdown func(context.Context) error
}

var apps = map[string]func(*core.Gate, *shop) app{
	"nethttp": nethttpApp,
	"gin":     ginApp,
	"echo":    echoApp,
	"fiber":   fiberApp,
}

// coldFresh outlives every demonstration.
const coldFresh = 10 * time.Minute

func nethttpApp(gate *core.Gate, s *shop) app {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(s.page(r.URL.Path)))
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathNoop, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.Handle("GET "+pathWithout+"{id}", page)
	mux.Handle("GET "+pathCold+"{id}", nethttpmw.Cache(gate, routeOptions(coldFresh, s.work)...)(page))
	mux.Handle("GET "+pathStale+"{id}", nethttpmw.Cache(gate, routeOptions(staleFresh, s.work)...)(page))
	return onNetHTTP(mux)
}

func ginApp(gate *core.Gate, s *shop) app {
	page := func(c *gin.Context) {
		c.Data(http.StatusOK, "text/html; charset=utf-8", []byte(s.page(c.Request.URL.Path)))
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.GET(pathNoop, func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	r.GET(pathWithout+":id", page)
	r.GET(pathCold+":id", ginmw.Cache(gate, routeOptions(coldFresh, s.work)...), page)
	r.GET(pathStale+":id", ginmw.Cache(gate, routeOptions(staleFresh, s.work)...), page)
	return onNetHTTP(r)
}

func echoApp(gate *core.Gate, s *shop) app {
	page := func(c echo.Context) error { return c.HTML(http.StatusOK, s.page(c.Request().URL.Path)) }
	e := echo.New()
	e.GET(pathNoop, func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	e.GET(pathWithout+":id", page)
	e.GET(pathCold+":id", page, echomw.Cache(gate, routeOptions(coldFresh, s.work)...))
	e.GET(pathStale+":id", page, echomw.Cache(gate, routeOptions(staleFresh, s.work)...))
	return onNetHTTP(e)
}

func fiberApp(gate *core.Gate, s *shop) app {
	page := func(c *fiber.Ctx) error {
		c.Type("html", "utf-8")
		return c.SendString(s.page(strings.Clone(c.Path()))) // Fiber's strings do not outlive the request
	}
	f := fiber.New(fiber.Config{DisableStartupMessage: true})
	f.Use(func(c *fiber.Ctx) error {
		start := time.Now()
		err := c.Next()
		c.Set(serverTiming, timing(start))
		return err
	})
	f.Get(pathNoop, func(c *fiber.Ctx) error { return c.SendString("ok") })
	f.Get(pathWithout+":id", page)
	f.Get(pathCold+":id", fibermw.Cache(gate, routeOptions(coldFresh, s.work)...), page)
	f.Get(pathStale+":id", fibermw.Cache(gate, routeOptions(staleFresh, s.work)...), page)
	return app{serve: f.Listener, shutdown: f.ShutdownWithContext}
}

func onNetHTTP(h http.Handler) app {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(&timedWriter{ResponseWriter: w, start: time.Now()}, r)
		}),
		ReadHeaderTimeout: time.Minute,
	}
	return app{serve: server.Serve, shutdown: server.Shutdown}
}

// serverTiming is the response header by which the clients know how long the server took, without
// the network and without their own queueing.
const serverTiming = "Server-Timing"

func timing(start time.Time) string { return fmt.Sprintf("app;dur=%.3f", millis(time.Since(start))) }

// timedWriter adds the Server-Timing, when the response begins.
type timedWriter struct {
	http.ResponseWriter
	start time.Time
	timed bool
}

func (w *timedWriter) WriteHeader(code int) {
	if !w.timed && code >= 200 {
		w.timed = true
		w.Header().Set(serverTiming, timing(w.start))
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *timedWriter) Write(p []byte) (int, error) {
	if !w.timed {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
