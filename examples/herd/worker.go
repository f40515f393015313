package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
)

// workerEnv holds the orders of a child process: the program starts itself again with it.
const workerEnv = "HERDGATE_HERD_WORKER"

// orders are what the parent tells a worker.
type orders struct {
	Adapter   string // or embeddedRedis
	Redis     string
	Namespace string
	Work      time.Duration
}

// ready is what a worker answers, as one line on its stdout: where it serves clients, and where its parent
// reads its counters.
type ready struct{ Addr, Admin string }

// counters is what a worker tells its parent.
type counters struct {
	Computations map[string]int // by path
	Commands     int64          // sent to Redis, by a hook in the client
	Busy         bool           // something is being computed, or waited for
	Events       map[string]int // what befell locks and refreshes
}

func isWorker() bool { return os.Getenv(workerEnv) != "" }

func workerMain() int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "herd: worker:", err)
		return 1
	}
	return 0
}

// work is the application: a small shop like any other, and an admin endpoint that tells its counters.
func work() error {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &o); err != nil {
		return err
	}
	if o.Adapter == embeddedRedis {
		return embedded()
	}
	commands := &commandCounter{}
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }()
	counted := core.Instrument(func(own redis.UniversalClient) error {
		own.AddHook(commands)
		return nil
	})
	gate, err := core.New(core.Redis(rdb, o.Namespace, counted), core.Logger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	s := &shop{work: o.Work, computations: make(map[string]int)}
	app := apps[o.Adapter](gate, s)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	adminListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(s.count(commands, gate))
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	failed := make(chan error, 2)
	go func() { failed <- app.serve(listener) }()
	go func() { failed <- admin.Serve(adminListener) }()
	if err := json.NewEncoder(os.Stdout).Encode(ready{listener.Addr().String(), adminListener.Addr().String()}); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-orphaned():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return errors.Join(app.shutdown(ctx), gate.Close(ctx), admin.Close())
}

// orphaned returns a channel that is closed when the parent wants this process to end, and when the parent is
// gone, however that came about: stdin is a pipe from it.
func orphaned() <-chan struct{} {
	end := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	return end
}

// embeddedRedis makes a worker that is not the application but the Redis, for machines that have none.
const embeddedRedis = "redis"

// embedded is a process of its own: inside the parent, the Redis took its turn behind a thousand clients, and its
// answers came so late that the gate did without it. Lifetimes pass there only when told to.
func embedded() error {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return err
	}
	defer m.Close()
	if err := json.NewEncoder(os.Stdout).Encode(ready{Addr: m.Addr()}); err != nil {
		return err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	end, last := orphaned(), time.Now()
	for {
		select {
		case now := <-ticker.C:
			m.FastForward(now.Sub(last))
			last = now
		case <-end:
			return nil
		}
	}
}

// routeOptions are those of the two routes behind the gate.
func routeOptions(fresh, work time.Duration) []core.RouteOption {
	return []core.RouteOption{
		core.Public(),
		core.FreshFor(fresh),
		core.StaleFor(time.Minute),
		core.WaitFor(5*time.Second + 2*work), // a demonstration with -work 10s is not about degraded answers
		core.HoldFor(30*time.Second + 2*work),
	}
}

// shop is what all four applications have in common: one slow page.
type shop struct {
	work    time.Duration
	running atomic.Int64

	mu           sync.Mutex
	computations map[string]int
}

// page computes the page behind a path. No two computations have the same result.
func (s *shop) page(path string) string {
	s.running.Add(1)
	defer s.running.Add(-1)
	s.mu.Lock()
	s.computations[path]++
	n := s.computations[path]
	s.mu.Unlock()
	time.Sleep(s.work)
	return fmt.Sprintf("<!doctype html><title>A product</title><p>computed by process %d, number %d</p>\n", os.Getpid(), n)
}

func (s *shop) count(commands *commandCounter, gate *core.Gate) counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := counters{Computations: make(map[string]int), Commands: commands.n.Load(), Events: make(map[string]int)}
	maps.Copy(c.Computations, s.computations)
	stats := gate.Stats()
	for event, n := range stats.Events {
		c.Events[event] = int(n)
	}
	c.Busy = s.running.Load() > 0 || stats.Flights > 0 || stats.Waiting > 0
	return c
}

// commandCounter is a hook of go-redis that counts what goes to the server.
type commandCounter struct{ n atomic.Int64 }

func (c *commandCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commandCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commandCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
