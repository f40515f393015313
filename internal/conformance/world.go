package conformance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

// patience bounds every wait of the suite. It is long, because a slow machine is no fault.
const patience = 20 * time.Second

// lockGone is how soon after the end of the last handler no lock may be left.
const lockGone = 200 * time.Millisecond

// world is a running case: processes with a gate and a server each, on one backend, and clients.
type world struct {
	t         *attempt
	c         *Case
	host      *Host
	backend   string
	origin    *Origin
	gates     []*core.Gate
	closed    map[int]bool
	client    *client
	namespace string
	redis     redis.UniversalClient // nil on memory
	network   *redistest.Proxy
	stores    atomic.Int64
	groups    map[string][]*exchange
	all       []*exchange
	ids       atomic.Int64
	excused   []string // events that steps have brought about; see tooSlow
	slow      string   // what the machine was too slow for when a step failed; see tooSlow

	mu       sync.Mutex
	outcomes map[string]core.Outcome
}

// backend makes the gates of a case.
type backend struct {
	name string
	open func(w *world, at int) core.Backend // of process at
}

func newWorld(t *attempt, h *Host, c *Case, b backend, ends *sync.WaitGroup) *world {
	w := &world{
		t: t, c: c, host: h, backend: b.name, origin: &Origin{then: c.Origin}, closed: map[int]bool{},
		namespace: redistest.Namespace(), groups: map[string][]*exchange{}, outcomes: map[string]core.Outcome{},
	}
	var addrs []string
	for at := range max(1, c.Gates) {
		gate, err := core.New(b.open(w, at), append([]core.GateOption{core.Logger(silent)}, c.Gate...)...)
		if err != nil {
			t.Fatal(err)
		}
		w.gates = append(w.gates, gate)
		t.Cleanup(func() { w.closeGate(at) })
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, ln.Addr().String())
		if c.Narrow {
			ln = narrow{ln}
		}
		if c.TLS || c.H2 {
			ln = secured(ln, c.H2)
		}
		stop := h.Serve(w.app(gate), ln)
		t.Cleanup(func() { ends.Go(stop) }) // Fiber's takes its time
	}
	w.client = newClient(addrs, c)
	t.Cleanup(w.client.close)
	t.Cleanup(func() {
		w.origin.letGo()
		for _, x := range w.all {
			x.cancel()
			<-x.done
		}
	})
	return w
}

// narrow is a listener whose connections have a small send buffer.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(4 << 10)
	}
	return conn, err
}

func (w *world) app(gate *core.Gate) *App {
	return &App{
		Gate:    gate,
		Options: w.c.Route,
		KeyBy:   w.c.KeyBy,
		SkipIf:  w.c.SkipIf,
		Caches:  max(1, w.c.Caches),
		Handle:  w.origin.Handle,
		Before:  w.before,
		After: func(c Call, o core.Outcome) {
			id := c.Values(idHeader)
			if len(id) == 0 || core.Refreshing(c.Context()) {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.outcomes[id[0]] = o
		},
	}
}

// rewriteHeader is the request header by which middleware outside rewrites the path.
const rewriteHeader = "X-Rewrite"

// before is the middleware outside.
func (w *world) before(c Call) bool {
	if w.c.Refuses && core.Refreshing(c.Context()) {
		c.Status(http.StatusTooManyRequests)
		return false
	}
	for _, line := range w.c.Outer {
		name, value, _ := strings.Cut(line, ": ")
		if from, to := strings.IndexByte(value, '{'), strings.IndexByte(value, '}'); from >= 0 && to > from {
			of := value[from+1 : to]
			if of == "id" {
				of = idHeader
			}
			lines := c.Values(of)
			if len(lines) == 0 {
				continue
			}
			value = value[:from] + lines[0] + value[to+1:]
		}
		c.Add(name, value)
	}
	if to := c.Values(rewriteHeader); len(to) > 0 {
		c.Rewrite(to[0])
	}
	return true
}

func (w *world) run() {
	for i, step := range w.c.Steps {
		w.step(i, step)
	}
	w.settle()
}

func (w *world) step(i int, step Step) {
	done := false
	defer func() {
		if !done {
			w.slow = w.tooSlow()
			w.t.Logf("in step %d: %T%+v", i+1, step, step)
			for at, gate := range w.gates {
				w.t.Logf("gate %d: %+v", at, gate.Stats())
			}
		}
	}()
	step.take(w)
	done = true
}

// settle sees that the case leaves nothing behind.
func (w *world) settle() {
	w.origin.letGo()
	w.until("the end of all requests and handlers", patience, func() bool {
		_, running := w.origin.count()
		return running == 0
	})
	if w.network != nil {
		w.network.Pass()
	}
	left := func() string {
		waiting, flights := w.atWork()
		if waiting != 0 || flights != 0 {
			return fmt.Sprintf("%d waiting requests, %d flights", waiting, flights)
		}
		if w.redis != nil {
			if locks := redistest.Locks(w.t, w.redis, w.namespace); len(locks) > 0 {
				return fmt.Sprintf("locks %q", locks)
			}
		}
		return ""
	}
	// On a machine on which so few looks are possible in that time, it says nothing.
	const looks = 10
	for start, n := time.Now(), 0; left() != ""; <-time.After(5 * time.Millisecond) {
		if n++; time.Since(start) > lockGone && n > looks {
			w.t.Errorf("%v after the last handler ended there are still %s", lockGone, left())
			break
		}
	}
	if w.redis != nil {
		redistest.CheckTTLs(w.t, w.redis, w.namespace)
	}
	for at := range w.gates {
		w.closeGate(at)
	}
}

func (w *world) closeGate(at int) {
	if w.closed[at] {
		return
	}
	w.closed[at] = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.gates[at].Close(ctx); err != nil {
		w.t.Errorf("gate %d: %v", at, err)
	}
}

// atWork is what the gates do at this moment.
func (w *world) atWork() (waiting, flights int) {
	for _, gate := range w.gates {
		s := gate.Stats()
		waiting += int(s.Waiting)
		flights += s.Flights
	}
	return waiting, flights
}

func (w *world) until(what string, within time.Duration, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			runs, running := w.origin.count()
			waiting, flights := w.atWork()
			w.t.Fatalf("not within %v: %s; the handler ran %d times and runs %d times, %d requests wait in %d flights", within, what, runs, running, waiting, flights)
		}
	}
}

// name says where the case is running.
func (w *world) name() string { return w.host.Name + " on " + w.backend }

func (w *world) nextID() string { return strconv.FormatInt(w.ids.Add(1), 10) }

func (w *world) start(name string, req Request, n int, spread bool) {
	w.groups[name] = nil
	for i := range n {
		if spread {
			req.At = i % len(w.gates)
		}
		x := w.client.start(w.nextID(), req)
		w.groups[name] = append(w.groups[name], x)
		w.all = append(w.all, x)
	}
}

func (w *world) finished(name string) (n int) {
	for _, x := range w.groups[name] {
		if x.finished() {
			n++
		}
	}
	return n
}

func (w *world) leave(name string, n int) {
	group := w.groups[name]
	if n == 0 {
		n = len(group)
	}
	for _, x := range group[:n] {
		x.cancel()
		<-x.done
	}
	w.groups[name] = group[n:]
}

// probe asks what is stored for a request without computing it: a request with a Range is answered from
// what is stored, or passed on to the handler, which knows the probe. Nothing is stored only if it says so three times: a
// read that is not answered in time looks the same. sent is when the last of these requests was sent.
func (w *world) probe(req Request) (hit bool, ttl int, sent time.Time) {
	req.Header = append(slices.Clone(req.Header), probeHeader+": 1", "Range: bytes=0-")
	for range 3 {
		sent = time.Now()
		x := w.client.start(w.nextID(), req)
		select {
		case <-x.done:
		case <-time.After(patience):
			x.cancel()
			<-x.done
		}
		if x.err != nil {
			w.t.Fatalf("probe: %v", x.err)
		}
		status := ours(x.header)
		if _, hit = status["hit"]; hit {
			return true, number(status["ttl"]), sent
		}
	}
	return false, 0, sent
}

// outcome is what the adapter's Outcome said of a request.
func (w *world) outcome(id string) (o core.Outcome) {
	w.until("outcome of request "+id, patience, func() (ok bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		o, ok = w.outcomes[id]
		return ok
	})
	return o
}

// members are the members of Cache-Status that are ours, with their parameters (RFC 9211 2).
func members(h http.Header) (all []map[string]string) {
	for _, line := range h.Values("Cache-Status") {
		for member := range strings.SplitSeq(line, ",") {
			parts := strings.Split(member, ";")
			if strings.TrimSpace(parts[0]) != "herdgate" {
				continue
			}
			m := map[string]string{}
			for _, part := range parts[1:] {
				name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
				m[name] = value
			}
			all = append(all, m)
		}
	}
	return all
}

// ours is the last member: that of the outermost of our caches.
func ours(h http.Header) map[string]string {
	all := members(h)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}
