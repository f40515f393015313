package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// doTimeout bounds what the package itself asks of a server.
const doTimeout = 10 * time.Second

// Server is one redis-server. Its methods fail the test that got it if they cannot do
// what they say. They may be called from several goroutines, though a failure must come
// from the test's own.
type Server struct {
	Addr string // 127.0.0.1:port, the same over restarts

	t      TB
	p      *process
	admin  *redis.Client // for Do
	shared bool
}

// Start starts a redis-server without persistence on a free port of 127.0.0.1, with the
// extra arguments ("--maxmemory", "10mb"), waits until it answers, and ends it after the
// test.
func Start(t TB, extraArgs ...string) *Server {
	t.Helper()
	return newServer(t, launch(t, func(port int, dir string) []string {
		return append(serverArgs(port, dir), extraArgs...)
	}))
}

func newServer(t TB, p *process) *Server {
	s := &Server{Addr: p.addr(), t: t, p: p}
	s.admin = s.Client(func(o *redis.Options) {
		o.ContextTimeoutEnabled = true
		o.PoolSize = 1
		o.MaxRetries = -1
	})
	return s
}

func serverArgs(port int, dir string) []string {
	return []string{
		"--port", itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}
}

// Client returns a new client with go-redis' defaults, changed by the functions given,
// which is closed after the test.
func (s *Server) Client(change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: s.Addr, Password: s.p.pass}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// Do runs one command, for at most ten seconds, and returns its reply, nil for a null.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), doTimeout)
	defer cancel()
	reply, err := s.admin.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("redistest: %v on %s: %v", args, s.Addr, err)
	}
	return reply
}

// Pid returns the id of the server's process, the current one.
func (s *Server) Pid() int { return s.p.pid() }

// Stop freezes the server (SIGSTOP): connections are accepted by the kernel, and stay
// silent. It returns when the server has stopped.
func (s *Server) Stop() {
	s.t.Helper()
	s.mine("Stop")
	if err := s.p.stop(); err != nil {
		s.t.Fatalf("redistest: stop %s: %v", s.Addr, err)
	}
}

// Cont lets a stopped server go on (SIGCONT).
func (s *Server) Cont() {
	s.t.Helper()
	s.mine("Cont")
	if err := s.p.cont(); err != nil {
		s.t.Fatalf("redistest: continue %s: %v", s.Addr, err)
	}
}

// Kill ends the server (SIGKILL) and returns when it is gone: its connections are reset
// and new ones refused.
func (s *Server) Kill() {
	s.t.Helper()
	s.mine("Kill")
	s.p.kill()
}

// Restart kills the server, if it still runs, and starts it again on the same port. Its
// data, scripts and ACL users are lost; a cluster node stays a member. It returns when
// the server answers; see [Cluster.WaitReady] for a cluster node.
func (s *Server) Restart() {
	s.t.Helper()
	s.mine("Restart")
	s.p.kill()
	if err := s.p.start(); err != nil {
		s.t.Fatalf("redistest: restart %s: %v\n%s", s.Addr, err, s.p.logTail())
	}
}

// mine refuses what would disturb the other users of a shared server.
func (s *Server) mine(what string) {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("redistest: %s on a shared server: use Start, or StartCluster", what)
	}
}

// Namespace returns a key namespace that nobody else uses.
func Namespace() string { return "t-" + rand.Text() }

// poll calls ok until it returns nil, for at most readyTimeout, and fails with the last
// error then.
func poll(t TB, what string, ok func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for {
		err := ok(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redistest: %s: not after %v: %v", what, readyTimeout, err)
			return
		case <-time.After(pollInterval):
		}
	}
}
