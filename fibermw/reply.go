package fibermw

import (
	"net/http"

	"github.com/herdgate/herdgate/internal/host"
)

// Reply implements host.Exchange.
//
// The body is copied, into a buffer of fasthttp's pool. SetBodyRaw would do without, but it keeps the slice until the
// response is written, which is after Reply, and middleware outside that appends to the body (c.Write)
// would lose what is there.
func (x *exchange) Reply(reply host.Reply) {
	resp := x.c.Response()
	resp.ResetBody()
	apply(&resp.Header, reply.Header)
	if reply.Age != "" {
		resp.Header.Set("Age", reply.Age)
	}
	addCacheStatus(&resp.Header, reply.CacheStatus)
	if reply.Status != 0 {
		resp.SetStatusCode(reply.Status)
	}
	if len(reply.Body) > 0 && bodyAllowed(resp.StatusCode()) {
		resp.SetBody(reply.Body) // for HEAD, fasthttp writes its length only
	}
}

// bodyAllowed reports whether a response with this status may have a body (RFC 9110 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
