package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// clients is how many connections are busy.
const clients = 64

// workload is what the clients ask for, again and again.
type workload struct {
	name string
	size int // of a page
	keys int
	zipf bool
}

func workloads(quick bool) []workload {
	keys := 10_000
	if quick {
		keys = 100
	}
	return []workload{
		{name: "one hot key, 1 KiB", size: 1 << 10, keys: 1},
		{name: fmt.Sprintf("%d keys, uniform, 1 KiB", keys), size: 1 << 10, keys: keys},
		{name: fmt.Sprintf("%d keys, Zipf, 1 KiB", keys), size: 1 << 10, keys: keys, zipf: true},
		{name: "one hot key, 64 KiB", size: 64 << 10, keys: 1},
	}
}

func (w workload) requests() [][]byte {
	all := make([][]byte, w.keys)
	for i := range all {
		all[i] = request(fmt.Sprintf("%s%d/%d", pathPages, w.size, i))
	}
	return all
}

// order returns the requests to send, one after the other: the same for everybody.
func (w workload) order() func() []byte {
	all := w.requests()
	random := rand.New(rand.NewPCG(1, 2))
	var turn [1 << 16]uint32
	zipf := rand.NewZipf(random, 1.1, 1, uint64(w.keys-1))
	for i := range turn {
		if turn[i] = uint32(random.IntN(w.keys)); w.zipf {
			turn[i] = uint32(zipf.Uint64())
		}
	}
	n := 0
	return func() []byte {
		n++
		return all[turn[n%len(turn)]]
	}
}

// sample is what was measured of one contestant in one round of a workload.
type sample struct {
	rate     float64 // requests per second
	p50, p99 time.Duration
	cpu      time.Duration // of the server process, for one request
	commands float64       // that Redis executed, for one request
}

// hits loads each contestant with requests whose responses it has.
func hits(c config, s *redisServer) (table, error) {
	takePart := c.with(func(x contestant) bool { return x.cache != bare })
	running, pools, err := open(takePart, s, 0)
	defer shut(running, pools)
	if err != nil {
		return nil, err
	}
	all := workloads(c.quick)
	t := &hitTable{hot: all[0], uniform: all[1], samples: make(map[string]map[string][]sample)}
	for _, w := range all {
		if !c.load.MatchString(w.name) {
			continue
		}
		t.workloads = append(t.workloads, w)
		t.samples[w.name] = make(map[string][]sample)
		for i := range running {
			if err := fill(pools[i], w); err != nil {
				return nil, fmt.Errorf("%s: %w", running[i].contestant.name(), err)
			}
		}
		for round := range c.rounds {
			progress("hits: %s, round %d of %d", w.name, round+1, c.rounds)
			for i, p := range running {
				if c.profiles != "" && round == 0 {
					if err := keep(c.profiles, p, pools[i], w); err != nil {
						return nil, err
					}
				}
				got, err := measure(p, pools[i], s, w, c.slice)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.contestant.name(), err)
				}
				of := t.samples[w.name]
				of[p.contestant.name()] = append(of[p.contestant.name()], got)
			}
		}
		if err := t.explain(w, running, pools); err != nil {
			return nil, err
		}
	}
	for _, p := range running {
		t.contestants = append(t.contestants, p.contestant)
	}
	return t, nil
}

// open starts a process for each contestant, with connections to it.
func open(all []contestant, s *redisServer, work time.Duration) (running []*process, pools []*connections, err error) {
	for _, x := range all {
		fleet, err := start(orders{Work: work}, x, s.addr, 1)
		if err != nil {
			return running, pools, err
		}
		running = append(running, fleet...)
		pool, err := connect([]string{fleet[0].Addr}, clients)
		if err != nil {
			return running, pools, err
		}
		pools = append(pools, pool)
	}
	return running, pools, nil
}

func shut(running []*process, pools []*connections) {
	for _, pool := range pools {
		pool.close()
	}
	stop(running)
}

// fill asks for everything once, and for the hot key until it is warm.
func fill(pool *connections, w workload) error {
	if err := pool.every(w.requests()); err != nil {
		return err
	}
	_, err := pool.load(20*time.Millisecond, w.order())
	return err
}

func measure(p *process, pool *connections, s *redisServer, w workload, span time.Duration) (sample, error) {
	next := w.order()
	before, err := p.counters("")
	if err != nil {
		return sample{}, err
	}
	commands, err := s.commands()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	took, err := pool.load(span, next)
	if err != nil {
		return sample{}, err
	}
	elapsed := time.Since(began)
	executed, err := s.commands()
	if err != nil {
		return sample{}, err
	}
	after, err := p.counters("")
	if err != nil {
		return sample{}, err
	}
	if computed := after.Computations - before.Computations; computed > 0 {
		return sample{}, fmt.Errorf("%s: %d computations where all should be hits", w.name, computed)
	}
	n := len(took) + clients
	slices.Sort(took)
	return sample{
		rate:     float64(n) / elapsed.Seconds(),
		p50:      took[len(took)/2],
		p99:      took[len(took)*99/100],
		cpu:      (after.CPU - before.CPU) / time.Duration(n),
		commands: float64(executed-commands) / float64(n),
	}, nil
}

// keep writes a profile of a contestant to a directory.
func keep(dir string, p *process, pool *connections, w workload) error {
	raw, err := profileOf(p, pool, w)
	if err != nil {
		return err
	}
	name := strings.NewReplacer(" ", "-", ",", "", ":", "", "/", "").Replace(p.contestant.name() + " " + w.name)
	return os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o644)
}

// profileOf returns a profile of a contestant under the workload.
func profileOf(p *process, pool *connections, w workload) (raw []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err = p.profile()
	}()
	_, failed := pool.load(1200*time.Millisecond, w.order())
	<-done
	return raw, errors.Join(err, failed)
}

// explain profiles those that a workload showed to be too slow, and whom they are compared with.
func (t *hitTable) explain(w workload, running []*process, pools []*connections) error {
	for _, g := range t.comparisons() {
		if r := t.ratio(w, g.a, g.b); g.w.name != w.name || r == 0 || r >= g.min {
			continue
		}
		y := explanation{comparison: g}
		for n, name := range []string{g.a, g.b} {
			i := slices.IndexFunc(running, func(p *process) bool { return p.contestant.name() == name })
			raw, err := profileOf(running[i], pools[i], w)
			if err != nil {
				return err
			}
			if y.costs[n], err = costs(raw); err != nil {
				return err
			}
			whole := medianOf(t.samples[w.name][name], func(s sample) float64 { return micros(s.cpu) })
			for owner := range y.costs[n] {
				y.costs[n][owner] *= whole
			}
		}
		t.explanations = append(t.explanations, y)
	}
	return nil
}

// allocations counts what the process of a contestant allocates for one hit, on one connection.
func allocations(c config, s *redisServer) (table, error) {
	running, pools, err := open(c.contestants, s, 0)
	defer shut(running, pools)
	if err != nil {
		return nil, err
	}
	t := &allocationTable{objects: make(map[string]float64)}
	requests := 5000
	if c.quick {
		requests = 100
	}
	raw := request(fmt.Sprintf("%s%d/hot", pathPages, 1<<10))
	progress("allocations")
	for i, p := range running {
		ask := func(n int) error {
			for range n {
				if err := pools[i].each(pools[i].all[:1], raw, nil); err != nil {
					return err
				}
			}
			return nil
		}
		if err := ask(100); err != nil {
			return nil, err
		}
		before, err := p.counters("")
		if err != nil {
			return nil, err
		}
		if err := ask(requests); err != nil {
			return nil, err
		}
		after, err := p.counters("")
		if err != nil {
			return nil, err
		}
		t.contestants = append(t.contestants, p.contestant)
		t.objects[p.contestant.name()] = float64(after.Mallocs-before.Mallocs) / float64(requests)
	}
	return t, nil
}
