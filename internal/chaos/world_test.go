package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/conformance"
	"github.com/herdgate/herdgate/internal/redistest"
)

const (
	processes = 2
	lock      = time.Second
	patience  = 10 * time.Second // of a loser, above all that a fault may cost
)

// A world is two processes of a service, each with a client of its own, on one Redis, with a network in between.
type world struct {
	t        *testing.T
	fault    *fault
	server   *redistest.Server // single node
	cluster  *redistest.Cluster
	sentinel *redistest.Sentinel
	proxies  []*redistest.Proxy // one of each process for a single node; else one of each server
	admin    redis.UniversalClient
	clock    *clock // of the server, where a fault needs it
	ns       string
	redis    []core.RedisOption
	gates    []*core.Gate
	urls     []string
	origin   origin
	client   *http.Client

	stop chan struct{} // ends what goes on while the fault lasts
	busy sync.WaitGroup
}

func newWorld(t *testing.T, f *fault, host conformance.Host) *world {
	w := &world{t: t, fault: f, ns: redistest.Namespace(), stop: make(chan struct{})}
	w.origin.size = max(f.body, 2000)
	var clients []redis.UniversalClient
	switch f.shape {
	case single:
		if f.clocked {
			w.clock = newClock(t)
		}
		w.server = redistest.Start(t, f.args...)
		w.admin = w.server.Client()
		for range processes {
			proxy := redistest.StartProxy(t, w.server.Addr)
			w.proxies = append(w.proxies, proxy)
			clients = append(clients, w.server.Client(func(o *redis.Options) {
				o.Addr = proxy.Addr
				if f.client != nil {
					f.client(o)
				}
			}))
		}
	case cluster:
		w.cluster = redistest.StartCluster(t, 3)
		w.admin = w.cluster.Client()
		for _, node := range w.cluster.Nodes {
			w.proxies = append(w.proxies, redistest.StartProxy(t, node.Addr))
		}
		for range processes {
			clients = append(clients, w.cluster.Client(func(o *redis.ClusterOptions) { o.Dialer = redistest.DialThrough(w.proxies...) }))
		}
	case sentinel:
		w.sentinel = redistest.StartSentinel(t)
		for _, addr := range []string{w.sentinel.Addr, w.sentinel.Nodes[0].Addr, w.sentinel.Nodes[1].Addr} {
			w.proxies = append(w.proxies, redistest.StartProxy(t, addr))
		}
		w.admin = w.sentinel.Client()
		for range processes {
			clients = append(clients, w.sentinel.Client(func(o *redis.FailoverOptions) { o.Dialer = redistest.DialThrough(w.proxies...) }))
		}
	}
	w.serve(host, clients)
	return w
}

// serve starts the processes, each with one of the clients.
func (w *world) serve(host conformance.Host, clients []redis.UniversalClient) {
	t := w.t
	transport := &http.Transport{MaxIdleConnsPerHost: 400, DisableCompression: true}
	w.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	for _, client := range clients {
		gate, err := core.New(core.Redis(client, w.ns, w.redis...), core.Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.gates = append(w.gates, gate)
		w.urls = append(w.urls, "http://"+ln.Addr().String())
		end := host.Serve(&conformance.App{
			Gate: gate, Caches: 1,
			Options: []core.RouteOption{core.LockFor(lock), core.WaitFor(patience), core.MaxBody(4 << 20)},
			Handle:  w.origin.handle,
			Before:  func(conformance.Call) bool { return true },
			After:   func(conformance.Call, core.Outcome) {},
		}, ln)
		t.Cleanup(func() {
			end()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := gate.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	t.Cleanup(transport.CloseIdleConnections)
}

// warm serves one request.
func warm(t *testing.T, host conformance.Host) {
	gate, err := core.New(core.Off())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, urls: []string{"http://" + ln.Addr().String()}, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	w.origin.size = 100
	defer host.Serve(&conformance.App{Gate: gate, Caches: 1, Handle: w.origin.handle,
		Before: func(conformance.Call) bool { return true }, After: func(conformance.Call, core.Outcome) {}}, ln)()
	if a := w.get(t.Context(), 0, "/warm"); a.wrong != "" {
		t.Fatal(a.wrong)
	}
}

// every calls f again and again until the fault is over.
func (w *world) every(pause time.Duration, f func()) {
	stop := w.stop
	w.busy.Go(func() {
		for {
			f()
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
		}
	})
}

// calm ends what every started.
func (w *world) calm() {
	close(w.stop)
	w.busy.Wait()
	w.stop = make(chan struct{})
}

// all does something to each network.
func (w *world) all(f func(*redistest.Proxy)) {
	for _, p := range w.proxies {
		f(p)
	}
}

// origin is what the handlers are made of. Each response says which computation of which target it is, in all its parts.
type origin struct {
	size int
	mark string // in all its responses

	mu    sync.Mutex
	runs  map[string]int
	spans map[string][]span // of the computations of each target, in the order of their ends
}

// A span is when a computation went on.
type span struct{ began, ended time.Time }

const (
	hotWork  = 3 * time.Millisecond
	coldWork = 15 * time.Millisecond
)

func (o *origin) handle(c conformance.Call) error {
	began, target := time.Now(), strings.Clone(c.Target())
	o.mu.Lock()
	if o.runs == nil {
		o.runs, o.spans = map[string]int{}, map[string][]span{}
	}
	o.runs[target]++
	n := o.runs[target]
	o.mu.Unlock()
	age, work := "max-age=60", coldWork
	if strings.HasPrefix(target, "/hot") {
		age, work = "max-age=1", hotWork
	}
	<-time.After(work)
	id := fmt.Sprintf("<%s#%s%d>", target, o.mark, n)
	c.Set("X-Id", id)
	c.Set("Content-Type", "text/plain")
	c.Set("Cache-Control", age)
	body := []byte(strings.Repeat(id, o.size/len(id)))
	o.mu.Lock()
	o.spans[target] = append(o.spans[target], span{began, time.Now()})
	o.mu.Unlock()
	c.Write(body)
	return nil
}

// idle returns how much of the time from start to end nobody computed a response for target.
func (o *origin) idle(target string, start, end time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	took := end.Sub(start)
	for _, s := range slices.Backward(o.spans[target]) {
		if !s.ended.After(start) {
			break
		}
		if s.ended.Before(end) {
			end = s.ended // what overlaps is counted once
		}
		if s.began.Before(start) {
			s.began = start
		}
		if s.began.Before(end) {
			took -= end.Sub(s.began)
			end = s.began
		}
	}
	return took
}

func (o *origin) computed(target string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[target]
}

// An answer is what a client got.
type answer struct {
	status string // Cache-Status
	took   time.Duration
	idle   time.Duration // of that, while no computation for the target went on
	wrong  string        // why it is no good answer, or ""
	own5xx bool
	ours   bool // the documented 503
}

// get sends one request to a process and checks the response, byte for byte.
func (w *world) get(ctx context.Context, process int, target string) answer {
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.urls[process]+target, http.NoBody)
	if err != nil {
		return answer{wrong: err.Error()}
	}
	req.Host = "shop.example"
	resp, err := w.client.Do(req)
	if err != nil {
		return answer{wrong: err.Error(), took: time.Since(start)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	end := time.Now()
	a := answer{status: resp.Header.Get("Cache-Status"), took: end.Sub(start), idle: w.origin.idle(target, start, end)}
	id := resp.Header.Get("X-Id")
	switch {
	case err != nil:
		a.wrong = err.Error()
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") >= "1" && resp.Header.Get("Cache-Control") == "no-store":
		a.ours = true
	case resp.StatusCode >= 500:
		a.own5xx = true
	case resp.StatusCode != http.StatusOK:
		a.wrong = resp.Status
	case !strings.HasPrefix(id, "<"+target+"#"+w.origin.mark), len(body) == 0, len(body) != w.origin.size/len(id)*len(id), strings.ReplaceAll(string(body), id, "") != "":
		a.wrong = fmt.Sprintf("%d bytes for %s, beginning %.60q, as %s", len(body), id, body, a.status)
	}
	return a
}

// usage is what a process holds on to.
type usage struct {
	goroutines int
	heap       uint64
}

// heapSlack is what one run may leave behind for pools, caches of the runtime, and the like.
const heapSlack = 16 << 20

func resources() usage {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return usage{goroutines(), m.HeapAlloc}
}

// retired is the pool of a stopped server of fasthttp's: it notices at its next round, up to 10 s later.
const retired = "github.com/valyala/fasthttp.(*workerPool).Start.func2"

func goroutines() (n int) {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		if !strings.Contains(stack, retired) {
			n++
		}
	}
	return n
}

// settle waits until all is as before, and returns what is not.
func settle(before usage) (goroutines int, heap int64) {
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(20 * time.Millisecond) {
		now := resources()
		goroutines, heap = max(0, now.goroutines-before.goroutines), max(0, int64(now.heap)-int64(before.heap))
		if goroutines == 0 && heap < heapSlack || time.Now().After(deadline) {
			return goroutines, heap
		}
	}
}
