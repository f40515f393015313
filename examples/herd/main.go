// Command herd shows what herdgate is for. It starts several real processes of one small
// application on one Redis, lets a herd of clients ask for the same slow page at the same moment, and counts
// how often the page was computed: without the gate, with it on a cold key, and with it on a
// key that has expired.
//
//	go run ./examples/herd                                # Redis is embedded: nothing to install
//	go run ./examples/herd -redis localhost:6379 -adapter all
//	go run ./examples/herd -json | jq
//
// It exits with 1 if the cold key cost more than one computation, or something did not work, and with 2 if it
// was called in the wrong way.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	procs   int
	clients int
	work    time.Duration
	adapter string
	redis   string
	json    bool
}

func main() {
	if isWorker() {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code := herdMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func herdMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	flags := flag.NewFlagSet("herd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.procs, "procs", 4, "processes of the application")
	flags.IntVar(&s.clients, "clients", 1000, "clients that ask at the same moment")
	flags.DurationVar(&s.work, "work", 200*time.Millisecond, "how long the page takes to compute")
	flags.StringVar(&s.adapter, "adapter", "nethttp", "nethttp, gin, echo, fiber or all")
	flags.StringVar(&s.redis, "redis", "", "address of Redis; empty: an embedded one")
	flags.BoolVar(&s.json, "json", false, "print one JSON object per adapter and line, and nothing else, on stdout")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	adapters, err := s.check(flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "herd:", err)
		return 2
	}

	show := newProgress(stderr)
	code := 0
	for _, adapter := range adapters {
		r, err := herd(ctx, s, adapter, show)
		show.clear()
		if err != nil {
			fmt.Fprintf(stderr, "herd: %s: %v\n", adapter, err)
			return 1
		}
		if s.json {
			err = json.NewEncoder(stdout).Encode(r)
		} else {
			err = r.table(stdout)
		}
		if err != nil {
			fmt.Fprintln(stderr, "herd:", err)
			return 1
		}
		for _, line := range append(r.remarks(), r.faults...) {
			fmt.Fprintf(stderr, "herd: %s: %s\n", adapter, line)
		}
		if len(r.faults) > 0 {
			code = 1
		}
	}
	return code
}

func (s settings) check(rest []string) (adapters []string, err error) {
	all := []string{"nethttp", "gin", "echo", "fiber"}
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	case s.procs < 1, s.clients < 1:
		return nil, errors.New("-procs and -clients must be at least 1")
	case s.work <= 0:
		return nil, errors.New("-work must be positive")
	case s.adapter == "all":
		return all, nil
	case !slices.Contains(all, s.adapter):
		return nil, fmt.Errorf("-adapter %q: use %s or all", s.adapter, strings.Join(all, ", "))
	}
	return []string{s.adapter}, nil
}

// Paths of the application. The same product, behind three registrations of one handler.
const (
	pathNoop    = "/noop"
	pathWithout = "/without/"
	pathCold    = "/cold/"
	pathStale   = "/stale/"
	product     = "42"
)

// staleFresh is how long a response behind pathStale is fresh, and so how long the demonstration waits for it to
// expire. The response of the refresh is as short-lived, and must outlive the phase.
const staleFresh = 2 * time.Second

// herd runs all phases on one adapter.
func herd(ctx context.Context, s settings, adapter string, show *progress) (result, error) {
	// Generous, and yet an end: every wait below has its own, shorter one.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute+20*s.work)
	defer cancel()

	show.step("%s: starting %d processes", adapter, s.procs)
	r := result{Adapter: adapter, Procs: s.procs, Clients: s.clients, WorkMS: millis(s.work)}
	fleet, err := startFleet(ctx, s, adapter, show.w)
	if err != nil {
		return r, err
	}
	defer fleet.stop()
	r.embedded = fleet.embedded()

	show.step("%s: connecting %d clients", adapter, s.clients)
	clients, err := connect(ctx, fleet.addrs(), s.clients)
	if err != nil {
		return r, err
	}
	defer clients.close()

	// Some requests through the gate to each process, for pages of their own. They open the connections to Redis, load
	// the scripts and subscribe to the inbox, which a process does once in its life: what the cold
	// phase then costs is what any cold key costs.
	show.step("%s: warming up", adapter)
	if err := fleet.warmUp(ctx, s.patience()); err != nil {
		return r, err
	}

	for _, name := range []string{"without", "cold", "stale"} {
		path := map[string]string{"without": pathWithout, "cold": pathCold, "stale": pathStale}[name] + product
		old := ""
		if name == "stale" {
			show.step("%s: stale: computing the copy that will be stale in %v", adapter, staleFresh)
			a := ask(ctx, fleet.workers[0].Addr, path, s.patience())
			if a.err != nil || a.status != 200 {
				return r, fmt.Errorf("computing the stale copy: status %d: %w", a.status, a.err)
			}
			old = a.body
			if !pause(ctx, staleFresh+100*time.Millisecond) {
				return r, ctx.Err()
			}
		}
		before, err := fleet.settled(ctx, path)
		if err != nil {
			return r, err
		}
		answers := clients.run(ctx, path, s.patience(), func(answered int) {
			show.live("%s: %s: %d of %d answered", adapter, name, answered, s.clients)
		})
		after, err := fleet.settled(ctx, path)
		if err != nil {
			return r, err
		}
		p := summarize(name, answers)
		p.Computations, p.RedisCommands = after.computations-before.computations, after.commands-before.commands
		p.events = after.events - before.events
		r.add(p, answers, old)
		show.step("%s: %s: %d clients answered, %d computations", adapter, name, s.clients, p.Computations)
	}
	return r, ctx.Err()
}

// patience is how long one request may take at most.
func (s settings) patience() time.Duration { return 30*time.Second + 3*s.work }

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
