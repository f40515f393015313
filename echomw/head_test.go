package echomw

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/herdgate/herdgate/internal/host"
)

// The response to an error is made after the middleware has returned, and may be a success.
func TestHeadOfAnError(t *testing.T) {
	var told []int
	e := echo.New()
	e.HTTPErrorHandler = func(_ error, c echo.Context) { _ = c.Redirect(http.StatusSeeOther, "/login") }
	e.POST("/", func(echo.Context) error { return errors.New("who are you") }, mount(func(x host.Exchange) {
		x.Run(host.Call{Head: func(status int, header http.Header) {
			if header.Get("Location") == "/login" {
				told = append(told, status)
			}
		}})
	}))
	for range 2 { // Echo uses the response again
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	}
	if !slices.Equal(told, []int{303, 303}) {
		t.Errorf("told %d, want 303 for each request", told)
	}
}
