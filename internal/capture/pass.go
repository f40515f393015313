package capture

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/herdgate/herdgate/internal/host"
)

// Straight prepares a header for a handler that runs on the native writer, without capture (Limit 0).
func Straight(h http.Header, call host.Call) {
	if call.Passing != nil {
		addCacheStatus(h, call.Passing(""))
	}
}

// pass gives the capture up: what was captured goes to the client, and all that follows goes straight on. With
// no header written yet (Hijack) the header stays open.
func (w *Writer) pass(reason string) error {
	w.state = passed
	if w.passing != nil {
		w.cacheStatus = w.passing(reason)
	}
	if w.status == 0 {
		return nil
	}
	w.commit()
	body := w.body
	w.body = nil
	if len(body) == 0 {
		return nil
	}
	_, err := w.outer.Writer.Write(body)
	return err
}

// commit writes the captured header to the outer writer.
func (w *Writer) commit() {
	send := func() {
		h := w.outer.Writer.Header()
		replace(h, w.after)
		addCacheStatus(h, w.cacheStatus)
		w.outer.Writer.WriteHeader(w.status)
	}
	if w.outer.Commit == nil {
		send()
		return
	}
	w.outer.Commit(send)
}

// Flush is FlushError without the error.
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError passes the response on and flushes it: a handler that flushes wants its client to see
// something now. Where the server cannot flush, the error is http.ErrNotSupported and the capture goes on.
func (w *Writer) FlushError() error {
	switch bottom(w.outer.Writer).(type) {
	case http.Flusher, interface{ FlushError() error }:
	default:
		return fmt.Errorf("herdgate: flush: %w", http.ErrNotSupported)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == closed {
		return ErrClosed
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	if w.state == capturing {
		if err := w.pass("flush"); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.outer.Writer).Flush()
}

// Hijack gives the handler the connection. Where the server cannot, the error is http.ErrNotSupported and
// the capture goes on.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if _, ok := bottom(w.outer.Writer).(http.Hijacker); !ok {
		return nil, nil, fmt.Errorf("herdgate: hijack: %w", http.ErrNotSupported)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == closed {
		return nil, nil, ErrClosed
	}
	if w.state == capturing {
		if err := w.pass("hijack"); err != nil {
			return nil, nil, err
		}
	}
	return http.NewResponseController(w.outer.Writer).Hijack()
}

// Push is HTTP/2's server push; http.ErrNotSupported without it.
func (w *Writer) Push(target string, opts *http.PushOptions) error {
	for to := w.outer.Writer; to != nil; to = unwrap(to) {
		if pusher, ok := to.(http.Pusher); ok {
			return pusher.Push(target, opts)
		}
	}
	return http.ErrNotSupported
}

// bottom returns the innermost writer, which is what decides whether the connection can flush or be hijacked:
// Gin's and Echo's writers have the methods in any case, and panic.
func bottom(w http.ResponseWriter) http.ResponseWriter {
	for {
		next := unwrap(w)
		if next == nil {
			return w
		}
		w = next
	}
}

func unwrap(w http.ResponseWriter) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	return nil
}

func addCacheStatus(h http.Header, value string) {
	if value != "" {
		h.Add("Cache-Status", value)
	}
}
