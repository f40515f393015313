package conformance

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/herdgate/herdgate/core"
)

// A Script is what one call of the handler does. The zero Script writes "<number of the run> <method> <target>".
//
// In header values and bodies, {n} is the number of the run, {target} and {method} are what the handler sees, and
// {Name} is the request header of that name as the handler sees it.
type Script struct {
	Status int      // 0: none is set
	Header []string // "Name: value", added in order
	Drop   []string // response headers of outer middleware that are deleted
	Body   string
	Chunks []string // written one by one, instead of Body
	Size   int      // so many bytes that depend on the run, instead of Body
	Length int      // declared Content-Length
	Empty  bool     // nothing is written and no header set
	Late   []string // headers set after the first write
	Inform int      // 1xx status sent before
	Encode bool     // Content-Encoding: gzip for those who accept gzip, without a word in Vary
	// Confirm is the header of a 304, which is what a request with If-None-Match or If-Modified-Since gets. Such a response names its
	// run in X-Confirmed. nil: conditions make no difference.
	Confirm []string

	Stream bool // every chunk is flushed
	Hijack bool // takes the connection over, answers by hand and echoes what it reads

	Hold        bool // waits for Release before it does anything
	HoldBetween bool // and after the first chunk
	HoldContext bool // waits until the context is done, after the first chunk

	Panic   When // panics
	Goexit  When
	Abort   When // panics with http.ErrAbortHandler
	Fail    int  // returns an error for which the application makes a response with this status
	Record  bool // notes an error beside the response
	Fresh   time.Duration
	NoStore bool
}

// When is a moment in a response.
type When int

// The moments.
const (
	Never When = iota
	Before
	Between // after the first chunk
	After
)

// A run is one call of the handler.
type run struct {
	n        int
	script   Script
	method   string
	target   string
	header   http.Header // of the request, as the handler saw it
	release  chan struct{}
	released bool
	confirms bool // it answers 304
	status   int
	body     string // what the handler wrote; valid if whole
	whole    bool
	ended    bool
	left     error // of the context, when the run ended
}

// Origin is the handler behind the cache, and the record of its runs.
type Origin struct {
	mu   sync.Mutex
	next []Script // of the coming runs, one each
	then Script   // of those after them
	open bool     // holds nobody any more
	runs []*run
}

// does says what the next runs do, one script each, and what all after them do.
func (o *Origin) does(then Script, next ...Script) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next, o.then, o.open = next, then, false
}

// letGo releases the runs with these numbers, or all that are and all to come.
func (o *Origin) letGo(numbers ...int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(numbers) == 0 {
		o.open = true
	}
	for _, r := range o.runs {
		if !r.released && (len(numbers) == 0 || slices.Contains(numbers, r.n)) {
			r.released = true
			close(r.release)
		}
	}
}

func (o *Origin) count() (runs, running int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.runs {
		if !r.ended {
			running++
		}
	}
	return len(o.runs), running
}

// run returns a copy of a run.
func (o *Origin) run(n int) (run, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n < 1 || n > len(o.runs) {
		return run{}, false
	}
	return *o.runs[n-1], true
}

// seen are the request headers that runs record.
var seen = []string{
	"Accept-Encoding", "Authorization", "Cookie", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Origin", "Proxy-Authorization", "Range", "X-Api-Key", "X-Auth-Token", "X-Forwarded-User", "Cf-Access-Jwt-Assertion", "X-Lang", "X-User",
	"X-Session", "X-Tenant",
}

func (o *Origin) begin(c Call) *run {
	header := http.Header{}
	for _, name := range seen {
		for _, v := range c.Values(name) {
			header.Add(name, v)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &run{n: len(o.runs) + 1, script: o.then, method: c.Method(), target: c.Target(), header: header, release: make(chan struct{})}
	if len(o.next) > 0 {
		r.script, o.next = o.next[0], o.next[1:]
	}
	if r.script.Confirm != nil && (header.Get("If-None-Match") != "" || header.Get("If-Modified-Since") != "") {
		s := r.script
		r.script = Script{Status: http.StatusNotModified, Header: s.Confirm, Fresh: s.Fresh, Hold: s.Hold}
		r.confirms = true
	}
	if o.open {
		r.released = true
		close(r.release)
	}
	o.runs = append(o.runs, r)
	return r
}

func (o *Origin) end(ctx context.Context, r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.ended, r.left = true, ctx.Err()
}

// wrote records what a run writes, before it does.
func (o *Origin) wrote(r *run, status int, p string, whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.status, r.whole = status, whole
	r.body += p
}

// runHeader is the response header that names the run that made the response.
const runHeader = "X-Run"

// confirmHeader is the response header that names the run that confirmed the response.
const confirmHeader = "X-Confirmed"

// probeHeader marks a request that looks at what is stored. Such a request has a Range, so it never computes for others.
const probeHeader = "X-Probe"

var errOnPurpose = errors.New("on purpose")

// Handle is the handler.
func (o *Origin) Handle(c Call) error {
	if len(c.Values(probeHeader)) > 0 {
		c.Set(probeHeader, "nothing stored")
		c.Status(http.StatusNotFound)
		return nil
	}
	r := o.begin(c)
	ctx := c.Context()
	s := &r.script
	if s.Stream {
		o.prepare(c, r)
		c.Stream(func(w StreamWriter) {
			defer o.end(ctx, r)
			o.stream(ctx, w, r)
		})
		return nil
	}
	if s.Hijack {
		return c.Hijack(func(conn net.Conn) {
			defer o.end(ctx, r)
			o.talk(conn)
		})
	}
	defer o.end(ctx, r)
	if s.Hold {
		<-r.release
	}
	r.script.fail(Before)
	if s.Fail != 0 {
		return c.Fail(s.Fail)
	}
	if s.Empty {
		return nil
	}
	if s.Record {
		c.Record(errOnPurpose)
	}
	o.prepare(c, r)
	o.write(ctx, c, r)
	return nil
}

func (s *Script) fail(at When) {
	switch at {
	case s.Panic:
		panic(errOnPurpose)
	case s.Goexit:
		runtime.Goexit()
	case s.Abort:
		panic(http.ErrAbortHandler)
	default: // nothing goes wrong here
	}
}

// prepare sets header and status.
func (o *Origin) prepare(c Call, r *run) {
	s := &r.script
	if s.Fresh > 0 {
		core.SetFresh(c.Context(), s.Fresh)
	}
	if s.NoStore {
		core.NoStore(c.Context())
	}
	if s.Inform != 0 {
		c.Set("Link", "</style.css>; rel=preload")
		c.Inform(s.Inform)
		c.Del("Link")
	}
	for _, name := range s.Drop {
		c.Del(name)
	}
	for _, line := range s.Header {
		name, value, _ := strings.Cut(line, ": ")
		value = r.fill(value)
		if name == "Content-Type" {
			c.Set(name, value)
			continue
		}
		c.Add(name, value)
	}
	if s.Encode && strings.Contains(r.header.Get("Accept-Encoding"), "gzip") {
		c.Set("Content-Encoding", "gzip")
	}
	if s.Length > 0 {
		c.Set("Content-Length", strconv.Itoa(s.Length))
	}
	if r.confirms {
		c.Set(confirmHeader, strconv.Itoa(r.n))
	} else {
		c.Set(runHeader, strconv.Itoa(r.n))
	}
	if s.Status != 0 {
		c.Status(s.Status)
	}
}

func (r *run) statusCode() int {
	if r.script.Status == 0 {
		return http.StatusOK
	}
	return r.script.Status
}

// chunks is the body, as it is written.
func (r *run) chunks() []string {
	s := &r.script
	switch {
	case s.Chunks != nil:
		chunks := make([]string, len(s.Chunks))
		for i, chunk := range s.Chunks {
			chunks[i] = r.fill(chunk)
		}
		return chunks
	case s.Size > 0:
		return []string{pattern(r.n, s.Size)}
	case s.Body != "":
		return []string{r.fill(s.Body)}
	case s.Status == http.StatusNoContent, s.Status == http.StatusNotModified:
		return nil
	}
	return []string{r.fill("{n} {method} {target}")}
}

func (o *Origin) write(ctx context.Context, c Call, r *run) {
	s, chunks := &r.script, r.chunks()
	if len(chunks) == 0 {
		o.wrote(r, r.statusCode(), "", true)
	}
	for i, chunk := range chunks {
		o.wrote(r, r.statusCode(), chunk, i == len(chunks)-1)
		c.Write([]byte(chunk))
		if i == 0 {
			for _, line := range s.Late {
				name, value, _ := strings.Cut(line, ": ")
				c.Set(name, r.fill(value))
			}
			s.fail(Between)
			r.pause(ctx)
		}
	}
	s.fail(After)
}

func (o *Origin) stream(ctx context.Context, w StreamWriter, r *run) {
	chunks := r.chunks()
	for i, chunk := range chunks {
		o.wrote(r, r.statusCode(), chunk, i == len(chunks)-1)
		_, _ = w.Write([]byte(chunk))
		if w.Flush() != nil {
			return // the client has left
		}
		if i == 0 {
			r.script.fail(Between)
			r.pause(ctx)
		}
	}
	r.script.fail(After)
}

func (r *run) pause(ctx context.Context) {
	if r.script.HoldBetween {
		<-r.release
	}
	if r.script.HoldContext {
		select {
		case <-ctx.Done():
		case <-r.release:
		}
	}
}

// fill replaces what is in braces.
func (r *run) fill(s string) string {
	if !strings.Contains(s, "{") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		s = after
		switch name {
		case "n":
			b.WriteString(strconv.Itoa(r.n))
		case "method":
			b.WriteString(r.method)
		case "target":
			b.WriteString(r.target)
		default:
			b.WriteString(strings.Join(r.header.Values(name), ", "))
		}
	}
}

// pattern is a body of the given size that is another one in each run and at each offset.
func pattern(n, size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte((i+i/26+n)%26)
	}
	return string(b)
}

// talk is the far end of a connection that was taken over: it switches protocols and sends back what it reads.
func (o *Origin) talk(conn net.Conn) {
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		_, _ = io.WriteString(conn, "echo "+lines.Text()+"\n")
	}
}
