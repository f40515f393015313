// Package capture is what the adapters of net/http, Gin and Echo share: a ResponseWriter that
// holds a response back (Writer), the view of an *http.Request (Request), a copy of it that is sent through the
// application again (Frozen), and the writing of a whole response (Write).
package capture

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/herdgate/herdgate/internal/host"
)

// ErrClosed is returned to a handler's goroutine that still writes after the handler has returned.
var ErrClosed = errors.New("herdgate: response written to after the handler returned")

// Outer is the response as the middleware outside sees it.
type Outer struct {
	Writer http.ResponseWriter // takes the response when it is not captured after all
	Inform http.ResponseWriter // takes 1xx statuses; nil: they are dropped
	// Commit runs send, which writes the header to Writer, with the framework's context as outer middleware
	// knows it: its hooks run inside. nil: send is just called.
	Commit func(send func())
}

type state int

const (
	capturing state = iota
	passed          // everything goes straight to the outer writer
	closed          // the handler has returned
)

// Writer is the http.ResponseWriter of a handler whose response is captured. The handler works on a
// clone of the outer header, so that nothing of it is visible outside until Reply or pass-through,
// and a recovery middleware outside starts from the header that it knows.
//
// The body, the status and the end of the capture are guarded by a mutex: a handler's own goroutines may write
// together, and one that outlives the handler gets ErrClosed. The header map is the handler's, as in net/http.
//
// It has no ReadFrom, so io.Copy ends in Write, and no CloseNotify: captured work does not
// belong to the client.
type Writer struct {
	outer   Outer
	head    bool
	limit   int64
	passing func(reason string) string
	before  http.Header
	header  http.Header // the handler's

	mu          sync.Mutex
	state       state
	status      int         // 0 until the final header was written
	after       http.Header // header at that moment: what comes later has no effect (net/http) but as trailers
	declared    int64       // Content-Length in it
	overrun     bool        // a write beyond declared was refused
	body        []byte
	cacheStatus string // what passing returned
}

// New starts a capture of the response to a request with the given method. It uses Limit and Passing of call.
func New(outer Outer, method string, call host.Call) *Writer {
	return &Writer{
		outer:   outer,
		head:    method == http.MethodHead,
		limit:   call.Limit,
		passing: call.Passing,
		before:  outer.Writer.Header().Clone(),
		header:  outer.Writer.Header().Clone(),
	}
}

// Header returns the handler's header.
func (w *Writer) Header() http.Header { return w.header }

// Unwrap lets an http.ResponseController reach the connection's deadlines. What would go around the capture
// (Flush, Hijack) is implemented here, so it does not get that far.
func (w *Writer) Unwrap() http.ResponseWriter { return w.outer.Writer }

// Started reports whether the final header was written, or the response goes straight to the client.
func (w *Writer) Started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status != 0 || w.state == passed
}

// Passed reports whether the response goes straight to the client.
func (w *Writer) Passed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == passed
}

// WriteHeader records the status and the header. Informational statuses (1xx but for 101) go to the
// client at once and are not recorded. It panics on an invalid status and ignores a second one, as net/http does.
func (w *Writer) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(code)
}

func (w *Writer) writeHeader(code int) {
	if w.state == closed || w.status != 0 {
		return
	}
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if code < 200 && code != http.StatusSwitchingProtocols {
		w.inform(code)
		return
	}
	w.status = code
	w.after = w.header.Clone()
	w.declared = contentLength(w.after)
	if w.state == passed {
		w.commit()
	}
}

// inform sends a 1xx with the handler's header (a Link of 103, RFC 8297) and puts the outer header back.
func (w *Writer) inform(code int) {
	if w.outer.Inform == nil {
		return
	}
	h := w.outer.Inform.Header()
	saved := maps.Clone(h)
	defer replace(h, saved)
	replace(h, w.header)
	w.outer.Inform.WriteHeader(code)
}

// Write records p, or passes it on.
func (w *Writer) Write(p []byte) (int, error) { return write(w, p, http.ResponseWriter.Write) }

// WriteString records s, or passes it on.
func (w *Writer) WriteString(s string) (int, error) {
	return write(w, s, func(to http.ResponseWriter, s string) (int, error) { return io.WriteString(to, s) })
}

func write[T []byte | string](w *Writer, p T, straight func(http.ResponseWriter, T) (int, error)) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == closed {
		return 0, ErrClosed
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	if w.state == passed {
		return straight(w.outer.Writer, p)
	}
	size := int64(len(w.body)) + int64(len(p))
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.declared >= 0 && size > w.declared:
		w.overrun = true
		return 0, http.ErrContentLength
	case size > w.limit, w.declared > w.limit && !w.head:
		if err := w.pass("too-large"); err != nil {
			return 0, err
		}
		return straight(w.outer.Writer, p)
	}
	if w.body == nil && w.declared > 0 && w.declared <= w.limit {
		w.body = make([]byte, 0, w.declared)
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// Close ends the capture and returns what the handler did; Status is 0 if it wrote neither header nor body. Later
// writes get ErrClosed. A second Close returns nothing of use: it is there for a defer, against panics.
func (w *Writer) Close() host.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.state
	w.state = closed
	switch was {
	case closed:
		return host.Result{}
	case passed:
		w.trailers(w.outer.Writer.Header())
		return host.Result{Passed: true}
	case capturing:
	}
	if w.after == nil {
		w.after = w.header.Clone()
		w.declared = contentLength(w.after)
	}
	result := host.Result{Status: w.status, Before: w.before, After: w.after, Body: w.body}
	switch {
	case w.trailers(w.after):
		result.Flaw = "trailer"
	case w.head || !bodyAllowed(w.status):
	case w.overrun, w.declared != undeclared && w.declared != int64(len(w.body)):
		result.Flaw = "length"
	}
	w.body = nil
	return result
}

// trailers copies the trailers that the handler set after its header to the header h, and reports whether it set or
// announced any. An announced one gets net/http's prefix on the way: in a Reply all of h is there before the
// header is written, and without the prefix it would be sent as a header field too.
func (w *Writer) trailers(h http.Header) bool {
	found := false
	for name, values := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			found = true
			h[name] = values
		}
	}
	for _, line := range w.after["Trailer"] {
		found = true
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			values, set := w.header[name]
			if _, early := w.after[name]; set && !early {
				h[http.TrailerPrefix+name] = values
			}
		}
	}
	return found
}

const (
	undeclared int64 = -1
	unreadable int64 = -2
)

func contentLength(h http.Header) int64 {
	lines := h["Content-Length"]
	if len(lines) == 0 {
		return undeclared
	}
	n, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil || n < 0 {
		return unreadable
	}
	return n
}

// bodyAllowed reports whether a response with this status may have a body (RFC 9110 6.4.1).
func bodyAllowed(status int) bool {
	return status == 0 || status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// replace makes h equal to src, keeping the map: others hold it.
func replace(h, src http.Header) {
	clear(h)
	maps.Copy(h, src)
}
