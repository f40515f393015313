package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// fleet is the processes of the application and the Redis that they share.
type fleet struct {
	workers []*worker
	rdb     *redis.Client // counts the commands of a real Redis; nil: the workers count
	ends    []func()
}

// worker is one child process.
type worker struct {
	ready
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when the process has ended
}

// startFleet starts everything. stop ends it.
func startFleet(ctx context.Context, s settings, adapter string, stderr io.Writer) (_ *fleet, err error) {
	f := &fleet{}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	o := orders{Adapter: adapter, Redis: s.redis, Work: s.work, Namespace: "herd-" + rand.Text()} // nothing is left of an earlier run
	if s.redis == "" {
		embedded, err := startWorker(ctx, orders{Adapter: embeddedRedis}, stderr)
		if err != nil {
			return nil, err
		}
		f.ends = append(f.ends, embedded.stop)
		o.Redis = embedded.Addr
	} else {
		// One connection, opened now: what follows is not counted.
		f.rdb = redis.NewClient(&redis.Options{Addr: s.redis, DisableIndentity: true, ContextTimeoutEnabled: true})
		f.ends = append(f.ends, func() { _ = f.rdb.Close() })
		if err := f.rdb.Ping(ctx).Err(); err != nil {
			return nil, fmt.Errorf("-redis %s: %w", s.redis, err)
		}
	}
	for range s.procs {
		w, err := startWorker(ctx, o, stderr)
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

func (f *fleet) embedded() bool { return f.rdb == nil }

func startWorker(ctx context.Context, o orders, stderr io.Writer) (*worker, error) {
	orders, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(orders))
	w.cmd.Stderr = stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
		first, _ := r.ReadString('\n')
		line <- first
		_, _ = io.Copy(io.Discard, r)
		_ = w.cmd.Wait() // how it ended does not matter
		close(w.done)
	}()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case first := <-line:
		if err = json.Unmarshal([]byte(first), &w.ready); err != nil {
			err = fmt.Errorf("a child process did not start: %w", err)
		}
	case <-timeout.C:
		err = errors.New("a child process did not start in time")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// stop ends the process: by its stdin, and by force if that does not help.
func (w *worker) stop() {
	_ = w.stdin.Close()
	timeout := time.NewTimer(5 * time.Second)
	defer timeout.Stop()
	select {
	case <-w.done:
	case <-timeout.C:
		_ = w.cmd.Process.Kill()
		<-w.done
	}
}

func (f *fleet) stop() {
	var all sync.WaitGroup
	for _, w := range f.workers {
		all.Go(w.stop)
	}
	all.Wait()
	for _, end := range f.ends {
		end()
	}
}

// warmUp asks one process after the other for some pages at the same moment. One at a time would open one
// connection to Redis only, and all processes together would be a herd already.
func (f *fleet) warmUp(ctx context.Context, patience time.Duration) error {
	for i, w := range f.workers {
		var errs [4]error
		var all sync.WaitGroup
		for j := range errs {
			all.Go(func() {
				a := ask(ctx, w.Addr, fmt.Sprintf("%swarm-up-%d-%d", pathCold, i, j), patience)
				switch {
				case a.err != nil:
					errs[j] = fmt.Errorf("warm-up: %w", a.err)
				case a.status != http.StatusOK:
					errs[j] = fmt.Errorf("warm-up: status %d", a.status)
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) addrs() []string {
	var addrs []string
	for _, w := range f.workers {
		addrs = append(addrs, w.Addr)
	}
	return addrs
}

// count is the sum over the fleet.
type count struct {
	computations int   // of one path
	commands     int64 // that Redis has executed
	busy         bool
	events       int // that befell locks and refreshes, such as a Redis that did not answer in time
}

// settled waits until the fleet has nothing to do any more, background work included, and returns what it
// has done so far. On a Redis that others use too, the number of commands never rests: after two seconds
// of that it takes what there is.
func (f *fleet) settled(ctx context.Context, path string) (count, error) {
	last, err := f.count(ctx, path)
	restless := time.Now().Add(2 * time.Second)
	for calm := 0; calm < 2 && err == nil; {
		if !pause(ctx, 25*time.Millisecond) {
			return last, ctx.Err()
		}
		var now count
		if now, err = f.count(ctx, path); err != nil {
			break
		}
		switch {
		case now.busy:
			calm, restless = 0, time.Now().Add(2*time.Second)
		case now == last, time.Now().After(restless):
			calm++
		default:
			calm = 0
		}
		last = now
	}
	return last, err
}

func (f *fleet) count(ctx context.Context, path string) (c count, err error) {
	for _, w := range f.workers {
		told, err := w.count(ctx)
		if err != nil {
			return c, err
		}
		c.computations += told.Computations[path]
		c.commands += told.Commands
		c.busy = c.busy || told.Busy
		for _, n := range told.Events {
			c.events += n
		}
	}
	if f.rdb != nil {
		c.commands, err = commandStats(ctx, f.rdb)
	}
	return c, err
}

func (w *worker) count(ctx context.Context) (c counters, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.Admin, nil)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// commandStats sums the calls of all commands but INFO itself. Those that scripts make count too.
func commandStats(ctx context.Context, rdb *redis.Client) (calls int64, err error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		command, rest, ok := strings.Cut(line, ":calls=")
		if !ok || command == "cmdstat_info" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO commandstats: %w", err)
		}
		calls += n
	}
	return calls, nil
}
