package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/conformance"
	"github.com/herdgate/herdgate/internal/redistest"
)

// childEnv makes this test binary a process of the service. Its value is a setup in JSON.
const childEnv = "HERDGATE_CHAOS_CHILD"

type setup struct {
	Redis, Namespace, Host string
	Source                 string // base URL of what the handler asks
}

// child is the service. It ends with its stdin.
func child(raw string) error {
	var s setup
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return err
	}
	gate, err := core.New(core.Redis(redis.NewClient(&redis.Options{Addr: s.Redis}), s.Namespace), core.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening", ln.Addr())
	for _, host := range hosts() {
		if host.Name == s.Host {
			host.Serve(&conformance.App{
				Gate: gate, Caches: 1, Options: []core.RouteOption{core.FreshFor(time.Minute), core.LockFor(lock), core.WaitFor(time.Minute)},
				Handle: func(c conformance.Call) error {
					resp, err := http.Get(s.Source + c.Target())
					if err != nil {
						c.Status(http.StatusBadGateway)
						return nil
					}
					defer resp.Body.Close()
					body, _ := io.ReadAll(resp.Body)
					c.Set("X-Id", resp.Header.Get("X-Id"))
					c.Write(body)
					return nil
				},
				Before: func(conformance.Call) bool { return true }, After: func(conformance.Call, core.Outcome) {},
			}, ln)
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// A fleet is two processes of a service that are processes indeed.
type fleet struct {
	*world
	pids []*os.Process

	mu    sync.Mutex
	calls map[string]int
	came  chan int                              // each call of the source, by number
	until func(call int) (wait <-chan struct{}) // what a call waits for
}

func newFleet(t *testing.T, host conformance.Host) *fleet {
	f := &fleet{calls: map[string]int{}, came: make(chan int, 100)}
	f.world = &world{t: t, server: redistest.Start(t), ns: redistest.Namespace()}
	f.origin.size = 2000
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls[r.URL.Path]++
		n := f.calls[r.URL.Path]
		f.mu.Unlock()
		f.came <- n
		if f.until != nil {
			select {
			case <-f.until(n):
			case <-r.Context().Done():
			}
		}
		id := fmt.Sprintf("<%s#%d>", r.URL.Path, n)
		w.Header().Set("X-Id", id)
		_, _ = io.WriteString(w, strings.Repeat(id, f.origin.size/len(id)))
	}))
	t.Cleanup(func() { source.CloseClientConnections(); source.Close() })
	transport := &http.Transport{DisableCompression: true}
	f.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	raw, err := json.Marshal(setup{f.server.Addr, f.ns, host.Name, source.URL})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range processes {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGCONT)
			_ = stdin.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				f.urls = append(f.urls, "http://"+addr)
				break
			}
		}
		f.pids = append(f.pids, cmd.Process)
	}
	for i := range processes { // connections are made
		if a := f.get(t.Context(), i, "/warm"); a.wrong != "" {
			t.Fatal(a.wrong)
		}
		if i == 0 {
			<-f.came
		}
	}
	return f
}

// begin sends a request in the background.
func (f *fleet) begin(process int, target string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- f.get(context.Background(), process, target) }()
	return c
}

func procs() []*fault {
	const g = "Processes"
	return []*fault{
		{group: g, name: "the winner killed", custom: killed},
		{group: g, name: "the winner stopped, then continued", custom: stopped},
		{group: g, name: "the watchdog starved of CPU", slow: true, custom: starved},
		{group: g, name: "shutdown while Redis is silent", custom: shutdown},
		{group: g, name: "two versions at once", custom: versions},
	}
}

// judge takes an answer into the row.
func (r *row) judge(t *testing.T, a answer) {
	t.Helper()
	r.answers++
	switch {
	case a.wrong != "":
		r.wrong++
		t.Error(a.wrong)
	case a.own5xx:
		r.own5xx++
		t.Error("an error of our own")
	case a.ours:
		r.ours++
	}
}

// killed: the process that computes dies. The other takes over when the lock has run out.
func killed(t *testing.T, host conformance.Host, r *row) {
	f := newFleet(t, host)
	never := make(chan struct{})
	now := make(chan struct{})
	close(now)
	f.until = func(call int) <-chan struct{} {
		if call == 1 {
			return never
		}
		return now
	}
	dead := f.begin(0, "/work")
	<-f.came
	waiting := []<-chan answer{f.begin(1, "/work"), f.begin(1, "/work"), f.begin(1, "/work")}
	<-time.After(lock / 2)
	if err := f.pids[0].Kill(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	<-f.came
	r.heal = time.Since(start)
	for _, c := range waiting {
		r.judge(t, <-c)
	}
	<-dead // with a broken connection, whatever we do
	r.extra, r.keys = f.calls["/work"]-1, 1
	if f.calls["/work"] != 2 {
		t.Errorf("%d computations, want 2", f.calls["/work"])
	}
}

// stopped: the process that computes is paused for longer than its lock lives, and comes back when the other has stored.
func stopped(t *testing.T, host conformance.Host, r *row) {
	f := newFleet(t, host)
	goOn, now := make(chan struct{}), make(chan struct{})
	close(now)
	f.until = func(call int) <-chan struct{} {
		if call == 1 {
			return goOn
		}
		return now
	}
	first := f.begin(0, "/work")
	<-f.came
	if err := f.pids[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	second := f.begin(1, "/work")
	<-f.came
	r.heal = time.Since(start)
	r.judge(t, <-second)
	close(goOn)
	if err := f.pids[0].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.judge(t, <-first)
	for i := range processes {
		a := f.get(t.Context(), i, "/work")
		if r.judge(t, a); !strings.HasPrefix(a.status, "herdgate; hit") {
			t.Errorf("process %d: %s, want a hit", i, a.status)
		}
	}
	r.extra, r.keys = f.calls["/work"]-1, 1
	if f.calls["/work"] != 2 {
		t.Errorf("%d computations, want 2: what came late was stored, or asked for", f.calls["/work"])
	}
}

// starved: the process that computes gets a tenth of the time.
func starved(t *testing.T, host conformance.Host, r *row) {
	f := newFleet(t, host)
	goOn := make(chan struct{})
	f.until = func(int) <-chan struct{} { return goOn }
	first := f.begin(0, "/work")
	<-f.came
	second := f.begin(1, "/work")
	for range 6 {
		_ = f.pids[0].Signal(syscall.SIGSTOP)
		<-time.After(lock * 9 / 20)
		_ = f.pids[0].Signal(syscall.SIGCONT)
		<-time.After(lock / 20)
	}
	close(goOn)
	r.judge(t, <-first)
	r.judge(t, <-second)
	for i := range processes {
		r.judge(t, f.get(t.Context(), i, "/work"))
	}
	r.extra, r.keys = f.calls["/work"]-1, 1
	if f.calls["/work"] > 2 {
		t.Errorf("%d computations, want at most one for each process", f.calls["/work"])
	}
}

// shutdown: Close is bounded by its context, whatever Redis does.
func shutdown(t *testing.T, host conformance.Host, r *row) {
	w := newWorld(t, &fault{}, host)
	l := begin(w)
	w.healed(0, 10*time.Second)
	w.all((*redistest.Proxy).BlackHole)
	<-time.After(200 * time.Millisecond)
	l.end()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	for _, gate := range w.gates {
		_ = gate.Close(ctx) // an error if locks could not be given back in time
	}
	r.heal = time.Since(start)
	r.answers, r.wrong, r.own5xx, r.ours = l.answers, len(l.wrong), l.own5xx, l.ours
	for i := range processes {
		a := w.get(t.Context(), i, "/after")
		if r.judge(t, a); !strings.Contains(a.status, "detail=closed") {
			t.Errorf("after Close: %s", a.status)
		}
	}
	if r.heal > 2*time.Second+5*time.Second { // for a busy machine; without the bound it would take the lock's life and more
		t.Errorf("Close took %v", r.heal)
	}
}
