package capture

import (
	"bufio"
	"context"
	"net"
	"net/http"
)

// discard is the ResponseWriter of a request that nobody waits for. It has what frameworks take for granted.
type discard struct {
	ctx    context.Context
	header http.Header
}

func (d *discard) Header() http.Header               { return d.header }
func (d *discard) WriteHeader(int)                   {}
func (d *discard) Write(p []byte) (int, error)       { return len(p), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }
func (d *discard) Flush()                            {}

// Hijack is refused, with an error where Gin would panic on a missing method.
func (d *discard) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// CloseNotify fires when the context ends: Gin's c.Stream, an endless one included, looks at nothing else.
func (d *discard) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(d.ctx, func() { gone <- true })
	return gone
}
