package main

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/herdgate/herdgate/core"
)

const (
	// streamAfter is how long the body of a response that will not be stored may take before its client gets to see
	// what there is of it.
	streamAfter = 50 * time.Millisecond
	// bufferFor is the same for one that may be stored: what goes to a client in pieces cannot be given to
	// others. It is just below the default of WaitFor, so that those who wait hear in time that it is a stream.
	bufferFor = 4 * time.Second
	// defaultMaxBody is the default of MaxBody.
	defaultMaxBody = 1 << 20
)

// headStart decides whether a response is a stream. The gate stores what the handler wrote without flushing, so
// somebody has to tell a short body without Content-Length from an endless one: this reads the body, for some time and
// up to the limit. It returns true if that was all of it; either way resp.Body then begins at the beginning.
// An error means that the body broke off.
func (f *forwarder) headStart(resp *http.Response) (whole bool, err error) {
	if core.OutcomeOf(resp.Request.Context()).Role != core.RoleWinner {
		// Nobody but this client is interested, so it gets every byte as it comes. A length that is known needs no flush.
		return resp.ContentLength >= 0, nil
	}
	if resp.ContentLength == 0 || resp.Body == http.NoBody {
		return true, nil
	}
	patience := f.patience(resp)
	if patience == 0 {
		return false, nil
	}
	ahead := readAhead(resp.Body, f.limit+1)
	resp.Body = ahead
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ahead.done:
		if errors.Is(ahead.err, io.EOF) {
			return true, nil
		}
		return false, ahead.err
	case <-timer.C:
	case <-resp.Request.Context().Done():
	}
	return false, nil
}

// patience is how long to wait for the whole body.
func (f *forwarder) patience(resp *http.Response) time.Duration {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return 0
	}
	cc := strings.ToLower(strings.Join(resp.Header.Values("Cache-Control"), ","))
	if strings.Contains(cc, "no-store") || strings.Contains(cc, "private") {
		return streamAfter
	}
	lifetime := strings.Contains(cc, "max-age") || strings.Contains(cc, "s-maxage") || resp.Header.Get("Expires") != ""
	switch {
	case lifetime, f.fresh && resp.StatusCode == http.StatusOK:
		return bufferFor
	case resp.StatusCode >= http.StatusInternalServerError:
		return bufferFor // a failure, which a stale copy may replace
	}
	return streamAfter
}

// ahead is a body that is read ahead of its reader, up to a limit.
type ahead struct {
	source io.ReadCloser
	done   chan struct{} // closed when nothing more is read ahead
	err    error         // why, once done is closed: io.EOF, a failure, or nil at the limit

	mu   sync.Mutex
	more sync.Cond // buf or end has changed
	buf  []byte    // what the reader has not had yet
	end  bool
}

// readAhead takes the body over. Its goroutine ends with the body, at the limit, or when the body is closed.
func readAhead(source io.ReadCloser, limit int64) *ahead {
	a := &ahead{source: source, done: make(chan struct{})}
	a.more.L = &a.mu
	go func() {
		defer close(a.done)
		part := make([]byte, 32<<10)
		for a.err == nil && limit > 0 {
			var n int
			n, a.err = source.Read(part[:min(int64(len(part)), limit)])
			limit -= int64(n)
			a.mu.Lock()
			a.buf = append(a.buf, part[:n]...)
			a.end = a.err != nil || limit <= 0
			a.more.Signal()
			a.mu.Unlock()
		}
	}()
	return a
}

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.buf) == 0 && !a.end {
		a.more.Wait()
	}
	switch {
	case len(a.buf) > 0:
		n := copy(p, a.buf)
		a.buf = a.buf[n:]
		return n, nil
	case a.err != nil:
		return 0, a.err
	}
	return a.source.Read(p) // beyond the limit, nobody reads ahead any more
}

// Close implements io.Closer.
func (a *ahead) Close() error { return a.source.Close() }
