package capture

import (
	"bufio"
	"net"
	"net/http"

	"github.com/herdgate/herdgate/internal/host"
)

// Watch returns a writer that tells call.Head about the head of the response before it goes to w, and a function to be called
// when the handler has returned, for a response without any write. Without call.Head the writer is w itself.
func Watch(w http.ResponseWriter, call host.Call) (watched http.ResponseWriter, written func()) {
	if call.Head == nil {
		return w, func() {}
	}
	watching := &watcher{ResponseWriter: w, head: call.Head}
	return watching, func() { watching.tell(http.StatusOK) }
}

type watcher struct {
	http.ResponseWriter
	head func(status int, header http.Header) // nil: told
}

func (w *watcher) tell(status int) {
	if head := w.head; head != nil {
		w.head = nil
		head(status, w.Header())
	}
}

func (w *watcher) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		w.tell(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *watcher) Write(p []byte) (int, error) {
	w.tell(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

func (w *watcher) Flush() { _ = w.FlushError() }

func (w *watcher) FlushError() error {
	w.tell(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack leaves nothing to be told about; where it fails (HTTP/2), a response follows.
func (w *watcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.head = nil
	}
	return conn, rw, err
}

func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }
