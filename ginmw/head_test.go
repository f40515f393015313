package ginmw

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/herdgate/herdgate/internal/host"
)

// A connection that the handler has taken over has no head to be told about.
func TestHijackIsNotTold(t *testing.T) {
	done := make(chan struct{})
	r := gin.New()
	r.GET("/", mount(func(x host.Exchange) {
		defer close(done)
		x.Run(host.Call{Head: func(status int, _ http.Header) { t.Errorf("told %d", status) }})
	}), func(c *gin.Context) {
		conn, _, err := c.Writer.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	server := httptest.NewServer(r)
	defer server.Close()
	if resp, err := server.Client().Get(server.URL); err == nil {
		t.Error(resp.Status)
		_ = resp.Body.Close()
	}
	<-done
}
