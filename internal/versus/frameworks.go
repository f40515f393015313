package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	fiber2 "github.com/gofiber/fiber/v2"
	fiber3 "github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
)

// source returns the page behind a path. A path is valid during the call only: Fiber reuses its buffer.
type source func(ctx context.Context, path string) []byte

// application serves one listener until it fails.
type application func(net.Listener) error

// The routes are the same everywhere: pathNoop, which nobody caches, and the pages.
const (
	pathNoop    = "/noop"
	pathPages   = "/pages/"
	contentType = "application/json"
)

// All say how long the page is, so that none is sent in chunks.

func netHTTP(pages source, cache func(http.Handler) http.Handler) application {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathNoop, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.Handle("GET "+pathPages+"{size}/{id}", cache(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages(r.Context(), r.URL.Path)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	})))
	return onNetHTTP(mux)
}

func ginApp(pages source, cache ...gin.HandlerFunc) application {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.GET(pathNoop, func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	r.GET(pathPages+":size/:id", append(cache, func(c *gin.Context) {
		page := pages(c.Request.Context(), c.Request.URL.Path)
		c.Header("Content-Length", strconv.Itoa(len(page)))
		c.Data(http.StatusOK, contentType, page)
	})...)
	return onNetHTTP(r)
}

func echoApp(pages source, cache ...echo.MiddlewareFunc) application {
	e := echo.New()
	e.GET(pathNoop, func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	e.GET(pathPages+":size/:id", func(c echo.Context) error {
		page := pages(c.Request().Context(), c.Request().URL.Path)
		c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(page)))
		return c.Blob(http.StatusOK, contentType, page)
	}, cache...)
	return onNetHTTP(e)
}

func onNetHTTP(h http.Handler) application {
	if stopwatch != nil {
		timed := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer stopwatch.add(time.Now())
			timed.ServeHTTP(w, r)
		})
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	return server.Serve
}

func fiber2App(pages source, cache ...fiber2.Handler) application {
	app := fiber2.New(fiber2.Config{DisableStartupMessage: true})
	if stopwatch != nil {
		app.Use(func(c *fiber2.Ctx) error {
			defer stopwatch.add(time.Now())
			return c.Next()
		})
	}
	app.Get(pathNoop, func(c *fiber2.Ctx) error { return c.SendString("ok") })
	app.Get(pathPages+":size/:id", append(cache, func(c *fiber2.Ctx) error {
		c.Set(fiber2.HeaderContentType, contentType)
		return c.Send(pages(c.UserContext(), c.Path()))
	})...)
	return app.Listener
}

func fiber3App(pages source, cache ...fiber3.Handler) application {
	app := fiber3.New()
	app.Get(pathNoop, func(c fiber3.Ctx) error { return c.SendString("ok") })
	page := func(c fiber3.Ctx) error {
		c.Set(fiber3.HeaderContentType, contentType)
		return c.Send(pages(c.Context(), c.Path()))
	}
	if len(cache) == 0 {
		app.Get(pathPages+":size/:id", page)
	} else {
		app.Get(pathPages+":size/:id", cache[0], page)
	}
	return func(l net.Listener) error {
		return app.Listener(l, fiber3.ListenConfig{DisableStartupMessage: true})
	}
}
