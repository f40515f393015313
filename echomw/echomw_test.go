package echomw

import (
	"io"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	native := echo.New().NewContext(nil, nil)
	capturetest.Run(t, capturetest.Adapter{Empty: 0, Native: native, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			outer.Header(c.Response().Header())
			outer.Run(func() { err = next(c) }, c.Request, func() { err = c.String(500, "recovered") })
			return err
		}
	})
	if serve != nil {
		e.Use(mount(serve))
	}
	e.Match([]string{"GET", "HEAD"}, "/*", func(c echo.Context) error {
		handler(c.Response(), c.Request())
		return nil
	})
	return e
}
