package conformance

import (
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/herdgate/herdgate/ginmw"
)

// Gin is gin-gonic/gin.
func Gin() Host {
	gin.SetMode(gin.ReleaseMode)
	return Host{
		Name: "gin",
		Cannot: map[Capability]string{
			HeadLeads:    "Gin routes HEAD apart, to a handler that may be another one",
			ReturnsError: "a gin.HandlerFunc returns nothing",
			Informs:      "gin.ResponseWriter takes every status for the final one",
		},
		Serve: func(app *App, ln net.Listener) func() { return serveHTTP(ginApp(app), ln) },
	}
}

func ginApp(app *App) http.Handler {
	r := gin.New()
	r.Use(func(c *gin.Context) { // Gin's own recovery takes http.ErrAbortHandler too, since 1.12: such a response looks complete
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // the very value
				panic(p)
			}
			if p != nil {
				c.AbortWithStatus(http.StatusInternalServerError)
			}
		}()
		c.Next()
	})
	r.Use(func(c *gin.Context) {
		call := ginCall(c)
		if !app.Before(call) {
			c.Abort()
			return
		}
		defer func() { app.After(ginCall(c), ginmw.Outcome(c)) }()
		c.Next()
	})
	opts := app.Options[:len(app.Options):len(app.Options)]
	if app.KeyBy != "" {
		opts = append(opts, ginmw.KeyBy(func(c *gin.Context) string { return c.GetHeader(app.KeyBy) }))
	}
	if app.SkipIf != "" {
		opts = append(opts, ginmw.SkipIf(func(c *gin.Context) bool { return c.GetHeader(app.SkipIf) != "" }))
	}
	var chain []gin.HandlerFunc
	for range app.Caches {
		chain = append(chain, ginmw.Cache(app.Gate, opts...))
	}
	chain = append(chain, func(c *gin.Context) { _ = app.Handle(ginCall(c)) })
	r.Match(methods, "/*path", chain...)
	return r
}

type ginsCall struct {
	httpCall
	c *gin.Context
}

func (c *ginsCall) Record(err error) { _ = c.c.Error(err) }

func ginCall(c *gin.Context) Call { return &ginsCall{httpCall{c.Writer, c.Request}, c} }
