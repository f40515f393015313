// Versus measures herdgate side by side with other caches for the same frameworks, and with the few lines that one would
// write by hand: on one real Redis, in one run, over loopback HTTP. It is a module of its own, so that what it compares with
// is not among the dependencies of herdgate.
//
//	go run . -out ../../docs/benchmarks.md     # the whole of it, about ten minutes
//	go run . -quick                            # does it work? the numbers mean nothing
//
// The load comes from this process, over raw connections with a parser that knows just enough HTTP. Each contestant is a process
// of its own, this program started again. They take turns, round by round, so that what the machine does besides hits them all alike, and each is
// compared with the floor of its own framework in the same round. Linux only.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if orders := os.Getenv(childEnv); orders != "" {
		exit(serve(orders))
	}
	c := config{}
	var only, load, phases string
	quick := flag.Bool("quick", false, "a smoke test: one short round of everything")
	flag.IntVar(&c.rounds, "rounds", 5, "`rounds`, of which medians are taken")
	flag.DurationVar(&c.slice, "slice", 500*time.Millisecond, "how long each contestant is under load in a round")
	flag.StringVar(&c.redis, "redis", "", "`address` of a Redis that nobody else uses (default: an own redis-server)")
	flag.StringVar(&only, "only", "", "contestants whose name matches `regexp`, and the floors of their frameworks")
	flag.StringVar(&load, "load", "", "of the hits, what matches `regexp`: \"one hot key, 1 KiB\"")
	flag.StringVar(&phases, "phases", "hits,allocations,waiters,herd,bursts", "what to measure")
	flag.StringVar(&c.out, "out", "", "write the report to `file`")
	flag.StringVar(&c.profiles, "profiles", "", "write CPU profiles of the servers to `directory`, one for each cell of the hits; they cost time")
	flag.Parse()
	if *quick {
		c.rounds, c.slice, c.quick = 1, 50*time.Millisecond, true
	}
	c.phases = strings.Split(phases, ",")
	pattern, err := regexp.Compile(only)
	if err != nil {
		exit(err)
	}
	if c.load, err = regexp.Compile(load); err != nil {
		exit(err)
	}
	if c.profiles != "" {
		if err := os.MkdirAll(c.profiles, 0o755); err != nil {
			exit(err)
		}
	}
	all := contestants()
	frameworks := make(map[string]bool)
	for _, x := range all {
		frameworks[x.framework] = frameworks[x.framework] || pattern.MatchString(x.name())
	}
	for _, x := range all {
		if pattern.MatchString(x.name()) || frameworks[x.framework] && (x.floor() || x.cache == bare) {
			c.contestants = append(c.contestants, x)
		}
	}
	exit(run(c))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "versus:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type config struct {
	rounds      int
	slice       time.Duration
	quick       bool
	redis       string
	phases      []string
	load        *regexp.Regexp
	contestants []contestant
	out         string
	profiles    string
}

// with returns the contestants that take part in something.
func (c config) with(takesPart func(contestant) bool) []contestant {
	return slices.DeleteFunc(slices.Clone(c.contestants), func(x contestant) bool { return !takesPart(x) })
}

func run(c config) error {
	began := time.Now()
	server, err := openRedis(c.redis)
	if err != nil {
		return err
	}
	defer server.close()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	go func() { // the servers end with our end of their pipes, Redis does not
		<-stopped
		server.close()
		os.Exit(1)
	}()
	r := report{config: c, machine: describe(server)}
	for _, phase := range []struct {
		name string
		run  func(config, *redisServer) (table, error)
	}{{"hits", hits}, {"allocations", allocations}, {"waiters", waiters}, {"herd", herds}, {"bursts", bursts}} {
		if !slices.Contains(c.phases, phase.name) {
			continue
		}
		t, err := phase.run(c, server)
		if err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		r.tables = append(r.tables, t)
	}
	r.took = time.Since(began)
	text := r.markdown()
	fmt.Print(text)
	if c.out == "" {
		return nil
	}
	return os.WriteFile(c.out, []byte(text), 0o644)
}

// progress says what is being measured.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
