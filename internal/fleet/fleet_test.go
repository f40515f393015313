package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

const (
	lock = 2 * time.Second
	// slack bounds the waits for what has no bound of its own, so that a test that fails ends.
	slack = 10 * time.Second
	// late is what a loaded machine may add to a time that the code keeps: processes wait for a CPU, and the test too. It is
	// far from what is seen when the code does not keep it: a wait of a minute, a lock of two seconds.
	late = 800 * time.Millisecond
)

// A source is what the handlers of all processes ask. The test decides when and what it answers.
type source struct {
	*httptest.Server
	answer func(call int, path string) string

	mu    sync.Mutex
	calls map[string]int
	last  time.Time // when it was asked last
}

func newSource(t *testing.T, answer func(call int, path string) string) *source {
	s := &source{answer: answer, calls: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls[r.URL.Path]++
		call := s.calls[r.URL.Path]
		s.last = time.Now()
		s.mu.Unlock()
		if r.URL.Path == "/warm" {
			_, _ = io.WriteString(w, "warm")
			return
		}
		_, _ = io.WriteString(w, s.answer(call, r.URL.Path))
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *source) asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

func (s *source) lastAsked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// A fleet is several processes of one service on one Redis.
type fleet struct {
	t         *testing.T
	redis     *redis.Client
	namespace string
	source    *source
	procs     []*proc
	client    *http.Client
}

type proc struct {
	t          *testing.T
	cmd        *exec.Cmd
	url, admin string
	out        bytes.Buffer
	ended      chan struct{}
}

func start(t *testing.T, n int, answer func(call int, path string) string) *fleet {
	t.Helper()
	server := redistest.Shared(t)
	f := &fleet{t: t, redis: server.Client(), namespace: redistest.Namespace(), source: newSource(t, answer)}
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	f.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	raw, err := json.Marshal(setup{Redis: server.Addr, Namespace: f.namespace, Origin: f.source.URL, Lock: lock, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		f.procs = append(f.procs, f.spawn(string(raw)))
	}
	for _, p := range f.procs { // connections are made
		redistest.Eventually(t, slack, "a hit", func() bool {
			_, _, err := f.get(p, "/warm")
			return err == nil && f.stats(p).Outcomes["hit"] > 0
		})
	}
	f.redis.Del(t.Context(), redistest.Keys(t, f.redis, f.namespace)...)
	return f
}

// computed checks how often the source was asked. Where Redis did not answer a process in time, which on a busy machine
// needs no fault, there may be more, under that named cause.
func (f *fleet) computed(want int, paths ...string) {
	f.t.Helper()
	n := 0
	for _, path := range paths {
		n += f.source.asked(path)
	}
	if late := f.late(); n < want || n > want+2*late {
		f.t.Errorf("%d computations, want %d (Redis was too slow %d times)", n, want, late)
	}
}

// late is how often Redis has not answered a process in time.
func (f *fleet) late() (n int) {
	f.t.Helper()
	for _, p := range f.procs {
		select {
		case <-p.ended:
		default:
			n += int(f.stats(p).Events["no-redis"])
		}
	}
	return n
}

func (f *fleet) spawn(raw string) *proc {
	t := f.t
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &proc{t: t, cmd: exec.Command(exe), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+raw)
	p.cmd.Stderr = &p.out
	stdin, err := p.cmd.StdinPipe() // it ends when this process does
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(p.ended)
		in := bufio.NewScanner(stdout)
		for in.Scan() {
			lines <- in.Text()
		}
		close(lines)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		_ = stdin.Close()
		for range lines { // what it still says
		}
		<-p.ended
		if t.Failed() && p.out.Len() > 0 {
			t.Logf("process %d said:\n%s", p.cmd.Process.Pid, p.out.String())
		}
	})
	for _, to := range []*string{&p.url, &p.admin} {
		select {
		case line, ok := <-lines:
			addr, is := strings.CutPrefix(line, "listening ")
			if !ok || !is {
				t.Fatalf("a process said %q", line)
			}
			*to = "http://" + addr
		case <-time.After(time.Minute):
			t.Fatal("a process does not come up")
		}
	}
	return p
}

// get is one request to a process.
func (f *fleet) get(p *proc, path string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	req.Host = "service" // the same for all: it is part of the key
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// want asks a process for /x and checks what it answers.
func (f *fleet) want(p *proc, body string) {
	f.t.Helper()
	status, got, err := f.get(p, "/x")
	if err != nil || status != 200 || got != body {
		f.t.Errorf("%d %q %v, want 200 %q", status, got, err, body)
	}
}

// later is a request in the background.
type later struct {
	done   chan struct{}
	status int
	body   string
	err    error
}

func (f *fleet) start(p *proc, path string) *later {
	l := &later{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.status, l.body, l.err = f.get(p, path)
	}()
	return l
}

func (f *fleet) invalidate(p *proc, path string) {
	f.t.Helper()
	resp, err := f.client.PostForm(p.admin+"/invalidate", url.Values{"path": {path}})
	if err != nil {
		f.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("invalidate: %d", resp.StatusCode)
	}
}

func (f *fleet) stats(p *proc) (s core.Stats) {
	f.t.Helper()
	resp, err := f.client.Get(p.admin + "/stats")
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// freeze stops the process, and returns when it has stopped: it answers nothing any more.
func (p *proc) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	quick := &http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	redistest.Eventually(p.t, slack, "the process stops", func() bool {
		resp, err := quick.Get(p.admin + "/stats")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
}

// lockOf returns the one lock that stands, "" if none does.
func (f *fleet) lockOf() (key, token string) {
	f.t.Helper()
	locks := redistest.Locks(f.t, f.redis, f.namespace)
	if len(locks) != 1 {
		return "", ""
	}
	token, err := f.redis.Get(f.t.Context(), locks[0]).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		f.t.Fatal(err)
	}
	return locks[0], token
}

// settled checks what must be so at the end of every test: no lock is left 200 ms after the last handler ended.
func (f *fleet) settled() {
	f.t.Helper()
	redistest.Eventually(f.t, 200*time.Millisecond+late, "no lock is left", func() bool { return len(redistest.Locks(f.t, f.redis, f.namespace)) == 0 })
	redistest.CheckTTLs(f.t, f.redis, f.namespace)
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(slack):
		t.Fatalf("not within %v: %s", slack, what)
	}
}

// The holder of the lock is killed: another process takes over when its lock has run out.
func TestHolderIsKilled(t *testing.T) {
	asked, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	f := start(t, 2, func(call int, _ string) string {
		if call == 1 {
			close(asked)
			<-never
			return "first"
		}
		return "second"
	})
	holder, other := f.procs[0], f.procs[1]
	lost := f.start(holder, "/x")
	await(t, "the holder computes", asked)
	loser := f.start(other, "/x")
	redistest.Eventually(t, slack, "the other waits", func() bool { return f.stats(other).Waiting == 1 })

	holder.signal(syscall.SIGKILL)
	<-holder.ended // it renews nothing any more
	key, _ := f.lockOf()
	left, read := f.redis.PTTL(t.Context(), key).Val(), time.Now()
	if left <= 0 || left > lock {
		t.Fatalf("the lock of a dead holder lives for %v, want up to %v", left, lock)
	}
	await(t, "takeover", loser.done)
	after := f.source.lastAsked().Sub(read)
	t.Logf("taken over %v after the kill, the lock had %v left", after, left)
	if after > left+300*time.Millisecond+late {
		t.Errorf("taken over after %v: the lock had %v left, and the next poll takes 300 ms at most", after, left)
	}
	if after < left-50*time.Millisecond { // clocks tick
		t.Errorf("taken over after %v, while the lock lived for %v", after, left)
	}
	if loser.status != 200 || loser.body != "second" || loser.err != nil {
		t.Errorf("the loser got %d %q %v", loser.status, loser.body, loser.err)
	}
	<-lost.done
	f.computed(2, "/x")
	if s := f.stats(other); s.Computations["takeover"] != 1 {
		t.Errorf("computations %v, want one takeover", s.Computations)
	}
	f.want(other, "second")
	f.settled()
}

// The holder is stopped beyond its lock, and continued while the next one computes: it must not delete the next
// one's lock, and not store.
func TestHolderIsStoppedWhileTheNextComputes(t *testing.T) {
	first, second := newStep(), newStep()
	f := start(t, 3, func(call int, _ string) string {
		switch call {
		case 1:
			first.pass()
			return "old"
		case 2:
			second.pass()
			return "new"
		}
		return fmt.Sprint("call ", call)
	})
	a, b, c := f.procs[0], f.procs[1], f.procs[2]
	old := f.start(a, "/x")
	await(t, "the first computes", first.reached)
	a.freeze()
	next := f.start(b, "/x")
	await(t, "the second takes over", second.reached)
	key, token := f.lockOf()

	close(first.goOn) // the old response waits in the stopped process's socket
	a.signal(syscall.SIGCONT)
	await(t, "the first answers its client", old.done)
	if old.status != 200 || old.body != "old" {
		t.Errorf("the first client got %d %q %v, want its own response", old.status, old.body, old.err)
	}
	if k, tok := f.lockOf(); token == "" || k != key || tok != token {
		t.Errorf("the second's lock was %s=%x, is %s=%x", key, token, k, tok)
	}
	for _, key := range redistest.Keys(t, f.redis, f.namespace) {
		if strings.HasSuffix(key, "}") {
			t.Errorf("the first has stored at %s", key)
		}
	}
	joins := f.start(c, "/x")

	close(second.goOn)
	for _, l := range []*later{next, joins} {
		await(t, "an answer", l.done)
		if l.body != "new" {
			t.Errorf("got %d %q %v, want the new response", l.status, l.body, l.err)
		}
	}
	for _, p := range f.procs {
		f.want(p, "new")
	}
	f.computed(2, "/x")
	f.settled()
}

// The holder is stopped beyond its lock, and continued when the next one has stored: it must not overwrite that.
func TestHolderIsStoppedUntilTheNextHasStored(t *testing.T) {
	first := newStep()
	f := start(t, 2, func(call int, _ string) string {
		if call == 1 {
			first.pass()
			return "old"
		}
		return "new"
	})
	a, b := f.procs[0], f.procs[1]
	old := f.start(a, "/x")
	await(t, "the first computes", first.reached)
	waits := f.start(a, "/x")
	redistest.Eventually(t, slack, "one waits for the first", func() bool { return f.stats(a).Waiting == 1 })
	a.freeze()
	close(first.goOn)
	f.want(b, "new")
	a.signal(syscall.SIGCONT)
	await(t, "the first answers its client", old.done)
	await(t, "and who waits there", waits.done)
	if old.body != "old" {
		t.Errorf("the first client got %d %q %v, want its own response", old.status, old.body, old.err)
	}
	if waits.status != 200 || waits.body != "new" && waits.body != "old" {
		t.Errorf("who waited got %d %q %v", waits.status, waits.body, waits.err)
	}
	for range 3 {
		for _, p := range f.procs {
			f.want(p, "new")
		}
	}
	f.computed(2, "/x")
	f.settled()
}

// 500 fresh keys, 500 computations. A round in which a process says that Redis did not answer it in time, which on a busy
// machine needs no fault, shows nothing and is not counted; there are few.
func TestOneComputationPerKey(t *testing.T) {
	const rounds, repeated = 500, 25
	f := start(t, 3, func(call int, path string) string {
		<-time.After(10 * time.Millisecond)
		return fmt.Sprint(path, " ", call)
	})
	late := 0
	for i, clean := 0, 0; clean < rounds; i++ {
		if i-clean > repeated {
			t.Fatalf("Redis was too slow in %d of %d rounds", i-clean, i)
		}
		path := fmt.Sprint("/", i)
		var requests []*later
		for j := range 9 {
			requests = append(requests, f.start(f.procs[j%3], path))
		}
		for _, l := range requests {
			<-l.done
			if l.status != 200 || !strings.HasPrefix(l.body, path+" ") {
				t.Fatalf("round %d: %d %q %v", i, l.status, l.body, l.err)
			}
		}
		was := late
		if late = f.late(); late > was {
			continue
		}
		if n := f.source.asked(path); n != 1 {
			t.Fatalf("round %d: %d computations, want 1", i, n)
		}
		clean++
	}
	f.settled()
}

func TestInvalidateAcrossProcesses(t *testing.T) {
	first := newStep()
	var version atomic.Value
	version.Store("old")
	var blocked atomic.Pointer[step] // the next call waits there
	blocked.Store(first)
	f := start(t, 3, func(int, string) string {
		v := version.Load().(string)
		if s := blocked.Swap(nil); s != nil {
			s.pass()
		}
		return v
	})
	old := f.start(f.procs[0], "/x")
	await(t, "the first computes", first.reached)
	version.Store("new")
	f.invalidate(f.procs[1], "/x")
	var after []*later
	for _, p := range f.procs { // the first computation is still under way, in one of these processes
		after = append(after, f.start(p, "/x"))
	}
	f.want(f.procs[2], "new")
	close(first.goOn)
	await(t, "the first computation ends", old.done)
	for _, l := range after {
		await(t, "an answer", l.done)
		if l.body != "new" {
			t.Errorf("who came after Invalidate got %d %q %v", l.status, l.body, l.err)
		}
	}
	if old.body != "old" {
		t.Errorf("the first client got %d %q, want its own response", old.status, old.body)
	}

	// Nobody has come since: what was computed before is not stored all the same.
	late := newStep()
	blocked.Store(late)
	version.Store("late")
	work := f.start(f.procs[0], "/x?blocked")
	await(t, "it computes", late.reached)
	f.invalidate(f.procs[1], "/x?blocked")
	close(late.goOn)
	await(t, "it ends", work.done)
	version.Store("later")
	for _, p := range f.procs {
		if status, body, err := f.get(p, "/x?blocked"); body != "later" {
			t.Errorf("after Invalidate: %d %q %v, want what was computed later", status, body, err)
		}
	}

	for round := range 30 {
		v := fmt.Sprint("version ", round)
		version.Store(v)
		f.invalidate(f.procs[round%3], "/x")
		var requests []*later
		for i := range 6 {
			requests = append(requests, f.start(f.procs[i%3], "/x"))
		}
		for _, l := range requests {
			<-l.done
			if l.body != v {
				t.Fatalf("round %d: %d %q after Invalidate, want %q", round, l.status, l.body, v)
			}
		}
	}
	f.settled()
}

// A process that is told to end finishes its work, and leaves no lock behind.
func TestShutdownFinishesWork(t *testing.T) {
	first := newStep()
	f := start(t, 2, func(int, string) string { first.pass(); return "body" })
	a, b := f.procs[0], f.procs[1]
	work := f.start(a, "/x")
	await(t, "the first computes", first.reached)
	waits := f.start(b, "/x")
	a.signal(syscall.SIGTERM)
	redistest.Eventually(t, slack, "it accepts nothing new", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(first.goOn)
	await(t, "the work ends", work.done)
	await(t, "who waits elsewhere has it", waits.done)
	await(t, "the process ends", a.ended)
	if state := a.cmd.ProcessState; !state.Success() {
		t.Errorf("it ended with %v", state)
	}
	if work.body != "body" || waits.body != "body" {
		t.Errorf("got %q and %q", work.body, waits.body)
	}
	f.computed(1, "/x")
	f.settled()
}

// A step is a point that is reached, once, and not left before the test says so.
type step struct {
	once          sync.Once
	reached, goOn chan struct{}
}

func newStep() *step { return &step{reached: make(chan struct{}), goOn: make(chan struct{})} }

func (s *step) pass() {
	s.once.Do(func() { close(s.reached) })
	<-s.goOn
}
