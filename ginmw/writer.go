package ginmw

import (
	"bufio"
	"net"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/host"
)

// writer is a capture with Gin's manners: WriteHeader only notes the status, and the first write
// or WriteHeaderNow writes the header with the status noted last.
type writer struct {
	*capture.Writer
	outer gin.ResponseWriter
	began int // status at the start: 200, or the 404 and 405 that Gin presets where no route matched

	mu     sync.Mutex
	status int
	noted  bool // the handler has called WriteHeader
	size   int  // -1 until the header is written
}

var _ gin.ResponseWriter = (*writer)(nil)

func newWriter(outer gin.ResponseWriter, method string, call host.Call) *writer {
	return &writer{
		Writer: capture.New(capture.Outer{
			Writer: outer,
			Inform: beneath(outer),
			Commit: func(send func()) {
				send()
				outer.WriteHeaderNow() // before a Hijack nothing else would
			},
		}, method, call),
		outer:  outer,
		began:  outer.Status(),
		status: outer.Status(),
		size:   -1,
	}
}

// beneath returns the writer that a 1xx can be written to: to Gin's own every WriteHeader is the final one.
func beneath(w http.ResponseWriter) http.ResponseWriter {
	for {
		if _, gins := w.(gin.ResponseWriter); !gins {
			return w
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

// settle writes the header of a handler that set a status and wrote nothing, as Gin does after the
// chain. A status that Gin had preset does not count: Gin then writes its page.
func (w *writer) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noted && (w.status != w.began || w.began == http.StatusOK) {
		w.writeHeaderNow()
	}
}

func (w *writer) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if code > 0 && w.size < 0 {
		w.status, w.noted = code, true
	}
}

func (w *writer) WriteHeaderNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderNow()
}

func (w *writer) writeHeaderNow() {
	if w.size < 0 {
		w.size = 0
		w.Writer.WriteHeader(w.status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderNow()
	n, err := w.Writer.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderNow()
	n, err := w.Writer.WriteString(s)
	w.size += n
	return n, err
}

func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.WriteHeaderNow()
	return w.Writer.FlushError()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.Writer.Hijack()
	if err == nil {
		w.mu.Lock()
		w.size = max(w.size, 0)
		w.mu.Unlock()
	}
	return conn, rw, err
}

func (w *writer) Status() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

func (w *writer) Size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

func (w *writer) Written() bool { return w.Size() >= 0 }

// CloseNotify is the client's: c.Stream ends by it, and a stream is never captured for long.
func (w *writer) CloseNotify() <-chan bool { return w.outer.CloseNotify() }

func (w *writer) Pusher() http.Pusher { return w.outer.Pusher() }

// watcher tells about the head of a response that goes straight to the client, before it does. Gin keeps a status back
// until the first byte, or until the handlers have returned.
type watcher struct {
	gin.ResponseWriter
	head func(status int, header http.Header)
}

func (w *watcher) tell() {
	if head := w.head; head != nil {
		w.head = nil
		head(w.Status(), w.Header())
	}
}

func (w *watcher) WriteHeaderNow() {
	w.tell()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.tell()
	return w.ResponseWriter.Write(p)
}

func (w *watcher) WriteString(s string) (int, error) {
	w.tell()
	return w.ResponseWriter.WriteString(s)
}

func (w *watcher) Flush() {
	w.tell()
	w.ResponseWriter.Flush()
}

func (w *watcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.head = nil
	}
	return conn, rw, err
}

// Unwrap is for http.ResponseController, which does not need to be told about for deadlines.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }
