package ginmw

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) {
	capturetest.Run(t, capturetest.Adapter{Empty: 0, Native: &gin.Context{}, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	r := gin.New()
	r.UseRawPath = true
	r.Use(func(c *gin.Context) {
		outer.Header(c.Writer.Header())
		outer.Run(c.Next, func() *http.Request { return c.Request }, func() {
			c.Abort()
			c.String(500, "recovered")
		})
	})
	if serve != nil {
		r.Use(mount(serve))
	}
	r.GET("/*path", gin.WrapF(handler))
	r.HEAD("/*path", gin.WrapF(handler))
	return r
}
