package core

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/host"
)

// A visit is one request and the response to it, without a framework and without a network: a host.Exchange
// over plain values, which works in a synctest bubble as well as on a real Redis.
type visit struct {
	method, host, target string
	header               http.Header // of the request
	handler              func(ctx context.Context, p *page)
	outer                http.Header // response header as middleware outside has left it
	app                  host.Middleware
	frozen               func(*visit) // sees the copy that Freeze sends through app

	mu  sync.Mutex
	ctx context.Context

	// Set when the middleware has returned.
	status int
	got    http.Header
	body   string
	out    Outcome
	panics any  // what the handler panicked with
	gone   bool // the goroutine ended by Goexit
	took   time.Duration
}

// page is what a handler makes. After Flush it goes straight to the client.
type page struct {
	status int
	header http.Header
	body   bytes.Buffer

	limit   int64
	passing func(reason string) string
	passed  bool
	cache   string // Cache-Status, when passed
}

// write is a handler that answers with a status and a body.
func (p *page) write(status int, body string) {
	p.status = status
	p.body.WriteString(body)
	if int64(p.body.Len()) > p.limit {
		p.pass("too-large")
	}
}

func (p *page) flush() { p.pass("flush") }

func (p *page) pass(reason string) {
	if p.passing == nil || p.passed {
		return
	}
	p.passed = true
	p.cache = p.passing(reason)
}

// get is a GET of a target with a handler.
func get(target string, handler func(context.Context, *page), changes ...func(*visit)) *visit {
	v := &visit{method: "GET", host: "shop.example", target: target, header: http.Header{}, outer: http.Header{}, handler: handler, ctx: context.Background()}
	for _, change := range changes {
		change(v)
	}
	return v
}

// with sets a request header.
func with(name, value string) func(*visit) {
	return func(v *visit) { v.header.Add(name, value) }
}

// on gives the request a context.
func on(ctx context.Context) func(*visit) { return func(v *visit) { v.ctx = ctx } }

// send sends the visit through a middleware, on this goroutine. A panic and a Goexit of the handler
// are kept, as a framework's recovery would.
func (v *visit) send(serve host.Middleware) *visit {
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended := false
		defer func() {
			v.panics = recover()
			v.gone = !ended && v.panics == nil
			v.took = time.Since(start)
			v.out = OutcomeOf(v.Context())
		}()
		serve(v)
		ended = true
	}()
	<-done
	return v
}

// start sends the visit in the background. The channel is closed when it has its response.
func (v *visit) start(serve host.Middleware) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.send(serve)
	}()
	return done
}

// herd sends n visits at once, and returns them when all have their responses.
func herd(n int, serve host.Middleware, next func(i int) *visit) []*visit {
	visits := []*visit{}
	var wg sync.WaitGroup
	for i := range n {
		v := next(i)
		visits = append(visits, v)
		wg.Go(func() { v.send(serve) })
	}
	wg.Wait()
	return visits
}

func (v *visit) Native() any { return v }

func (v *visit) Context() context.Context {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ctx
}

func (v *visit) SetContext(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ctx = ctx
}

func (v *visit) Method() string              { return v.method }
func (v *visit) Host() string                { return v.host }
func (v *visit) Target() string              { return v.target }
func (v *visit) Path() string                { return before(v.target) }
func (v *visit) Query() string               { return after(v.target) }
func (v *visit) Values(name string) []string { return v.header[name] }
func (v *visit) HasBody() bool               { return false }
func (v *visit) ClientCertificate() bool     { return false }
func (v *visit) HeadIsGet() bool             { return true }

func before(target string) string {
	path, _, _ := bytes.Cut([]byte(target), []byte("?"))
	return string(path)
}

func after(target string) string {
	_, query, _ := bytes.Cut([]byte(target), []byte("?"))
	return string(query)
}

func (v *visit) Run(call host.Call) host.Result {
	ctx := call.Context
	if ctx == nil {
		ctx = v.Context()
	}
	p := &page{header: v.outer.Clone(), limit: call.Limit, passing: call.Passing}
	if call.Limit == 0 {
		p.pass("")
	}
	defer func() { // a panic leaves what has already gone out
		if p.passed {
			v.status, v.got, v.body = p.status, p.header, p.body.String()
			v.got.Add("Cache-Status", p.cache)
		}
	}()
	v.handler(ctx, p)
	if call.Head != nil {
		call.Head(p.status, p.header)
	}
	if p.passed {
		return host.Result{Passed: true}
	}
	return host.Result{Status: p.status, Before: v.outer, After: p.header, Body: p.body.Bytes()}
}

func (v *visit) Reply(r host.Reply) {
	v.status, v.body, v.got = r.Status, string(r.Body), v.outer.Clone()
	for _, f := range r.Header {
		v.got.Add(f.Name, f.Value)
	}
	v.got.Add("Cache-Status", r.CacheStatus)
}

func (v *visit) Freeze() func(context.Context) {
	if v.app == nil {
		return nil
	}
	again := get(v.target, v.handler)
	again.header = v.header.Clone()
	return func(ctx context.Context) {
		again.ctx = ctx
		if v.frozen != nil {
			v.frozen(again)
		}
		v.app(again)
	}
}

// retryAfter returns the seconds of Retry-After, 0 if it is none.
func (v *visit) retryAfter() int {
	n, _ := strconv.Atoi(v.got.Get("Retry-After"))
	return n
}

// wantDegraded fails the test unless the visit got our own 503.
func (v *visit) wantDegraded(t *testing.T, why string) {
	t.Helper()
	switch {
	case v.out.Role != RoleDegraded, v.out.Detail != why:
		t.Errorf("%s %s, want degraded %s", v.out.Role, v.out.Detail, why)
	case v.status != 503, v.retryAfter() < 1, v.got.Get("Cache-Control") != "no-store":
		t.Errorf("degraded answer: %d %v, want 503 with Retry-After >= 1 and no-store", v.status, v.got)
	}
}

// wantBody fails the test unless the visit got a 200 with this body, in this role.
func (v *visit) want(t *testing.T, role Role, body string) {
	t.Helper()
	if v.status != 200 || v.body != body || v.out.Role != role {
		t.Errorf("got %d %q as %s (%s), want 200 %q as %s", v.status, v.body, v.out.Role, v.out.Detail, body, role)
	}
}

// gateOn makes a gate that is closed after the test.
func gateOn(t *testing.T, b Backend, opts ...GateOption) *Gate {
	t.Helper()
	g, err := New(b, append(opts, Logger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// origin counts how often its handlers run.
type origin struct{ n atomic.Int64 }

func (o *origin) runs() int64 { return o.n.Load() }

// answers is a handler that takes some time and then answers 200 with the body.
func (o *origin) answers(work time.Duration, body string) func(context.Context, *page) {
	return func(_ context.Context, p *page) {
		o.n.Add(1)
		pause(work)
		p.write(200, body)
	}
}

// handles is any handler, counted.
func (o *origin) handles(f func(ctx context.Context, p *page)) func(context.Context, *page) {
	return func(ctx context.Context, p *page) {
		o.n.Add(1)
		f(ctx, p)
	}
}

// pause is work that takes time, inside and outside of bubbles.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// opens is a Backend that is open already: two gates on one are two processes of a fleet, in
// a bubble too.
type opens struct{ backend backend }

func (o opens) open() (backend, error) { return o.backend, nil }

// memoryFor opens the memory backend, for spies and for several gates.
func memoryFor(t *testing.T) *memory {
	t.Helper()
	b, err := Memory(64 << 20).open()
	if err != nil {
		t.Fatal(err)
	}
	b.announcements(func(string, result) {})
	return b.(*memory)
}

// A spy looks at calls of a backend, and may change what they do.
type spy struct {
	backend
	onAcquire func(ctx context.Context, q query) (answer, error)
	onExtend  func(ctx context.Context, l lease) (tenure, error)
	onFinish  func(ctx context.Context, l lease, c completion) (verdict, error)
	onRead    func(ctx context.Context, loc string) (stored, error)

	onInvalidate func(ctx context.Context, base string) error

	acquires, extends, finishes atomic.Int64
}

func (s *spy) read(ctx context.Context, loc string) (stored, error) {
	if s.onRead != nil {
		return s.onRead(ctx, loc)
	}
	return s.backend.read(ctx, loc)
}

func (s *spy) acquire(ctx context.Context, q query) (answer, error) {
	s.acquires.Add(1)
	if s.onAcquire != nil {
		return s.onAcquire(ctx, q)
	}
	return s.backend.acquire(ctx, q)
}

func (s *spy) extend(ctx context.Context, l lease) (tenure, error) {
	s.extends.Add(1)
	if s.onExtend != nil {
		return s.onExtend(ctx, l)
	}
	return s.backend.extend(ctx, l)
}

func (s *spy) finish(ctx context.Context, l lease, c completion) (verdict, error) {
	s.finishes.Add(1)
	if s.onFinish != nil {
		return s.onFinish(ctx, l, c)
	}
	return s.backend.finish(ctx, l, c)
}

func (s *spy) invalidate(ctx context.Context, base string) error {
	if s.onInvalidate != nil {
		if err := s.onInvalidate(ctx, base); err != nil {
			return err
		}
	}
	return s.backend.invalidate(ctx, base)
}

// locked returns how many locks the memory backend has.
func (m *memory) locked() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.micros()
	for _, k := range m.keys {
		for _, l := range k.variants {
			if l.lock.expires > now {
				n++
			}
		}
	}
	return n
}

// dropLocks makes all locks run out.
func (m *memory) dropLocks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		for _, l := range k.variants {
			l.lock = memoryToken{}
		}
	}
}
