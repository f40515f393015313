package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is what one phase measured.
type table interface {
	markdown(b *strings.Builder)
	goals() []goal
}

// goal is what a number should be.
type goal struct {
	what     string
	measured float64
	least    bool // bound is a lower bound
	bound    float64
	unit     string
}

func (g goal) met() bool {
	return g.least && g.measured >= g.bound || !g.least && g.measured <= g.bound
}

type report struct {
	config
	machine string
	tables  []table
	took    time.Duration
}

func (r report) markdown() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, `# Benchmarks

Written by %[1]smake versus%[1]s (internal/versus, a module of its own). Do not edit: run it.

- %[2]s
- %[3]s
- %[4]s, %[5]d rounds of %[6]v, %[7]v in all

Every contestant serves the same route and is a process of its own; all use one redis-server, and clients with the defaults of their
libraries. The load is raw HTTP/1.1 over loopback from one more process, %[8]d connections that are always busy. In each round
the contestants take turns; a ratio is taken within a round, and the median of the rounds is shown, as it is of all numbers. The Redis floor is what
one writes by hand: one GET and one write for a hit, singleflight around a miss. It keeps a body and nothing else: no header, no age, no
variants, no check of what it reads. "own cache" is gin-cache behind Gin, and the cache that comes with Fiber.

`, "`", r.machine, versions(), time.Now().UTC().Format(time.DateOnly), r.rounds, r.slice, r.took.Round(time.Second), clients)
	var goals []goal
	for _, t := range r.tables {
		goals = append(goals, t.goals()...)
	}
	if len(goals) > 0 {
		b.WriteString("## Goals\n\n| | goal | measured | |\n|---|---|---|---|\n")
		for _, g := range goals {
			sign, verdict := "≤", "met"
			if g.least {
				sign = "≥"
			}
			if !g.met() {
				verdict = "**not met**"
			}
			fmt.Fprintf(b, "| %s | %s %g%s | %.2f%s | %s |\n", g.what, sign, g.bound, g.unit, g.measured, g.unit, verdict)
		}
		b.WriteString("\n")
	}
	for _, t := range r.tables {
		t.markdown(b)
	}
	return b.String()
}

func median[T cmp.Ordered](of []T) (m T) {
	if len(of) == 0 {
		return m
	}
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)/2]
}

func medianOf[S any, T cmp.Ordered](samples []S, number func(S) T) T {
	numbers := make([]T, len(samples))
	for i, s := range samples {
		numbers[i] = number(s)
	}
	return median(numbers)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// named is the name of a contestant as others refer to it.
func named(framework, cache string) string {
	return contestant{framework: framework, cache: cache}.name()
}

type hitTable struct {
	workloads    []workload
	hot, uniform workload // what the goals are about
	contestants  []contestant
	samples      map[string]map[string][]sample // by workload and contestant
	explanations []explanation
}

// comparison is a goal for the rates of two contestants.
type comparison struct {
	what string
	w    workload
	a, b string
	min  float64
}

// ratio is the median over the rounds of a's rate to b's, 0 if there is none.
func (t *hitTable) ratio(w workload, a, b string) float64 {
	of, to := t.samples[w.name][a], t.samples[w.name][b]
	var ratios []float64
	for i := range min(len(of), len(to)) {
		ratios = append(ratios, of[i].rate/to[i].rate)
	}
	return median(ratios)
}

func (t *hitTable) markdown(b *strings.Builder) {
	for _, y := range t.explanations {
		y.markdown(b)
	}
	for _, w := range t.workloads {
		fmt.Fprintf(b, "## Hits: %s\n\n| | requests/s | × Redis floor | × memory floor | p50 µs | p99 µs | server CPU µs/request | Redis commands/request |\n|---|---|---|---|---|---|---|---|\n", w.name)
		for _, c := range t.contestants {
			s := t.samples[w.name][c.name()]
			number := func(f func(sample) float64) float64 { return medianOf(s, f) }
			toMemory := "–"
			if c.inMemory() || c.cache == gateTier {
				toMemory = fmt.Sprintf("%.2f", t.ratio(w, c.name(), named(c.framework, floorMemory)))
			}
			fmt.Fprintf(b, "| %s | %.0f | %.2f | %s | %.0f | %.0f | %.1f | %.2f |\n", c.name(),
				number(func(s sample) float64 { return s.rate }), t.ratio(w, c.name(), named(c.framework, floorRedis)), toMemory,
				number(func(s sample) float64 { return micros(s.p50) }), number(func(s sample) float64 { return micros(s.p99) }),
				number(func(s sample) float64 { return micros(s.cpu) }), number(func(s sample) float64 { return s.commands }))
		}
		b.WriteString("\n")
	}
}

func (t *hitTable) comparisons() []comparison {
	hot, uniform := t.hot, t.uniform
	return []comparison{
		{"net/http on Redis to the floor, one hot key", hot, named("net/http", gateRedis), named("net/http", floorRedis), 1.2},
		{"net/http on Redis to the floor, uniform", uniform, named("net/http", gateRedis), named("net/http", floorRedis), 0.9},
		{"gin on Redis to its floor, uniform", uniform, named("gin", gateRedis), named("gin", floorRedis), 0.85},
		{"echo on Redis to its floor, uniform", uniform, named("echo", gateRedis), named("echo", floorRedis), 0.85},
		{"fiber on Redis to Fiber v2's cache on Redis, one hot key", hot, named("fiber v2", gateRedis), named("fiber v2", peerRedis), 1.5},
		{"fiber on Redis to Fiber v2's cache on Redis, uniform", uniform, named("fiber v2", gateRedis), named("fiber v2", peerRedis), 1.5},
		{"net/http, memory tier to the memory floor, one hot key", hot, named("net/http", gateTier), named("net/http", floorMemory), 0.85},
		{"fiber, memory tier to Fiber v2's cache in memory, one hot key", hot, named("fiber v2", gateTier), named("fiber v2", peerMemory), 0.9},
	}
}

func (t *hitTable) goals() (goals []goal) {
	for _, g := range t.comparisons() {
		if r := t.ratio(g.w, g.a, g.b); r > 0 {
			goals = append(goals, goal{g.what, r, true, g.min, ""})
		}
	}
	return goals
}

type allocationTable struct {
	contestants []contestant
	objects     map[string]float64
}

func (t *allocationTable) markdown(b *strings.Builder) {
	b.WriteString("## Allocations\n\nObjects that the server process allocates for one hit (1 KiB, one connection), the server and the client library included.\n\n| | objects | more than without a cache |\n|---|---|---|\n")
	for _, c := range t.contestants {
		n := t.objects[c.name()]
		fmt.Fprintf(b, "| %s | %.1f | %.1f |\n", c.name(), n, n-t.objects[named(c.framework, bare)])
	}
	b.WriteString("\n")
}

func (t *allocationTable) goals() (goals []goal) {
	without := t.objects[named("net/http", bare)]
	for _, g := range []struct {
		cache string
		most  float64
	}{{gateTier, 6}, {gateMemory, 6}, {gateRedis, 25}} {
		if n, ok := t.objects[named("net/http", g.cache)]; ok {
			goals = append(goals, goal{"net/http, " + g.cache + ": objects for a hit, over the bare handler", n - without, false, g.most, ""})
		}
	}
	return goals
}

type waiterTable struct {
	clients     int
	contestants []contestant
	bytes       map[string]float64
}

func (t *waiterTable) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## Memory of those who wait\n\nHeap and stacks of a server process with %d requests for one cold page under way, less what it had before, for each request. Without a cache each computes (it sleeps).\n\n| | bytes for a request | more than without a cache |\n|---|---|---|\n", t.clients)
	for _, c := range t.contestants {
		n := t.bytes[c.name()]
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", c.name(), n, n-t.bytes[named(c.framework, bare)])
	}
	b.WriteString("\n")
}

func (t *waiterTable) goals() (goals []goal) {
	for _, c := range t.contestants {
		if c.cache == gateRedis {
			goals = append(goals, goal{c.framework + ": bytes that a waiter costs", t.bytes[c.name()] - t.bytes[named(c.framework, bare)], false, 8192, ""})
		}
	}
	return goals
}

type herdTable struct {
	herds       []herd
	contestants []contestant
	samples     map[herd]map[string][]herdSample
}

// lateness is the 99th percentile of how late the page came to the clients of other processes.
func (s herdSample) lateness() time.Duration {
	if len(s.remote) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.remote))
	return sorted[len(sorted)*99/100]
}

func (t *herdTable) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## Herds\n\nClients that ask for one cold page at the same moment, in turn from each of the processes; computing it takes %v. \"remote\" is when the page had "+
		"arrived at 99%% of the clients of other processes, counted from the moment at which it was computed: the store, the announcement, the read and the way to the client are in it, "+
		"and the queue for two cores of all who are woken at once. \"idle\" is the share of the machine's CPU time that nobody wanted while the herd was there (about %v).\n\n", herdWork, herdWork)
	for _, h := range t.herds {
		fmt.Fprintf(b, "### %d clients, processes: %d\n\n| | computations | Redis commands | for each process | p50 ms | p99 ms | max ms | remote p99 ms | idle |\n|---|---|---|---|---|---|---|---|---|\n", h.clients, h.processes)
		for _, c := range t.contestants {
			s := t.samples[h][c.name()]
			if len(s) == 0 {
				continue
			}
			number := func(f func(herdSample) float64) float64 { return medianOf(s, f) }
			commands := number(func(s herdSample) float64 { return s.commands })
			fmt.Fprintf(b, "| %s | %.0f | %.0f | %.1f | %.0f | %.0f | %.0f | %.1f | %.0f%% |\n", c.name(),
				number(func(s herdSample) float64 { return s.computations }), commands, commands/float64(h.processes),
				number(func(s herdSample) float64 { return millis(s.p50) }), number(func(s herdSample) float64 { return millis(s.p99) }),
				number(func(s herdSample) float64 { return millis(s.max) }), number(func(s herdSample) float64 { return millis(s.lateness()) }),
				100*number(func(s herdSample) float64 { return s.idle }))
		}
		b.WriteString("\n")
	}
}

func (t *herdTable) goals() (goals []goal) {
	big, calm := herd{8, 5000}, herd{8, 100}
	for _, c := range t.contestants {
		if s := t.samples[big][c.name()]; c.cache == gateRedis && len(s) > 0 {
			most := slices.MaxFunc(s, func(a, b herdSample) int { return cmp.Compare(a.computations, b.computations) })
			goals = append(goals,
				goal{c.framework + ": computations of a herd of 5,000 over 8 processes, at most", most.computations, false, 1, ""},
				goal{c.framework + ": Redis commands of that, for each process", medianOf(s, func(s herdSample) float64 { return s.commands }) / 8, false, 15, ""})
		}
		if s := t.samples[calm][c.name()]; c.cache == gateRedis && len(s) > 0 {
			goals = append(goals, goal{c.framework + ": remote losers of 100 clients over 8 processes, p99 after the computation",
				medianOf(s, func(s herdSample) float64 { return millis(s.lateness()) }), false, 10, " ms"})
		}
	}
	return goals
}
