package nethttpmw

import (
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/capture/capturetest"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	capturetest.Run(t, capturetest.Adapter{Empty: 200, Native: &http.Request{}, App: app})
}

func app(serve host.Middleware, outer capturetest.Outer, handler http.HandlerFunc) http.Handler {
	var inner http.Handler = handler
	if serve != nil {
		inner = mount(serve)(handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer.Header(w.Header())
		outer.Run(func() { inner.ServeHTTP(w, r) }, func() *http.Request { return r }, func() {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "recovered")
		})
	})
}
