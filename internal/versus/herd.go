package main

import (
	"fmt"
	"slices"
	"time"
)

// herdWork is what computing the page takes that a herd asks for.
const herdWork = 200 * time.Millisecond

// herd is how many clients ask for a cold page at the same moment, in turn from each of some processes.
type herd struct{ processes, clients int }

// herdSample is what one herd cost.
type herdSample struct {
	computations, commands float64
	p50, p99, max          time.Duration
	remote                 []time.Duration // after the page was computed by another process
	idle                   float64         // share of the machine's CPU time
}

// herds sends herds.
func herds(c config, s *redisServer) (table, error) {
	t := &herdTable{samples: make(map[herd]map[string][]herdSample)}
	forAll := []herd{{1, 100}, {4, 1000}, {8, 5000}}
	var forOne []herd // the rest of the table, for one of the adapters
	for _, processes := range []int{1, 4, 8} {
		for _, clients := range []int{100, 1000, 5000} {
			if h := (herd{processes, clients}); !slices.Contains(forAll, h) {
				forOne = append(forOne, h)
			}
		}
	}
	if c.quick {
		forAll, forOne = []herd{{2, 50}}, []herd{{1, 50}}
	}
	t.contestants = c.with(func(x contestant) bool {
		return x.cache == gateRedis || x.cache == peerRedis || x.cache == floorRedis && x.framework == "net/http"
	})
	for _, h := range slices.Concat(forAll, forOne) {
		t.herds = append(t.herds, h)
		t.samples[h] = make(map[string][]herdSample)
		for _, x := range t.contestants {
			if slices.Contains(forOne, h) && !(x.cache == gateRedis && x.framework == "net/http") {
				continue
			}
			progress("herd: %d clients, %d processes, %s", h.clients, h.processes, x.name())
			samples, err := h.send(x, s, c.rounds)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.name(), err)
			}
			t.samples[h][x.name()] = samples
		}
	}
	return t, nil
}

// send sends a number of herds, each at another page.
func (h herd) send(x contestant, s *redisServer, rounds int) ([]herdSample, error) {
	fleet, pool, end, err := connected(orders{Work: herdWork}, x, s, h.processes, h.clients)
	if err != nil {
		return nil, err
	}
	defer end()

	// Each process once alone, so that connections to Redis are open and the scripts known.
	for i := range fleet {
		if err := pool.each(pool.all[i:i+1], request(fmt.Sprintf("%s%d/warm-%d", pathPages, pageHead, i)), nil); err != nil {
			return nil, err
		}
	}
	var samples []herdSample
	for round := range rounds {
		time.Sleep(300 * time.Millisecond) // the machine comes to rest
		got, err := h.once(pool, fleet, s, request(fmt.Sprintf("%s%d/cold-%d", pathPages, pageHead, round)))
		if err != nil {
			return nil, err
		}
		samples = append(samples, got)
	}
	return samples, nil
}

func (h herd) once(pool *connections, fleet []*process, s *redisServer, raw []byte) (got herdSample, err error) {
	computations, err := computed(fleet)
	if err != nil {
		return got, err
	}
	commands, err := s.commands()
	if err != nil {
		return got, err
	}
	busy := idleTime()
	began := time.Now()
	took := make([]time.Duration, 0, h.clients)
	err = pool.each(pool.all, raw, func(conn *connection, now time.Time) {
		took = append(took, now.Sub(conn.sent))
		if pid, at, err := conn.computed(); err == nil && pid != fleet[conn.to].cmd.Process.Pid {
			got.remote = append(got.remote, now.Sub(at))
		}
	})
	if err != nil {
		return got, err
	}
	got.idle = busy(time.Since(began))
	time.Sleep(50 * time.Millisecond) // what goes on after the responses counts as well
	executed, err := s.commands()
	if err != nil {
		return got, err
	}
	now, err := computed(fleet)
	if err != nil {
		return got, err
	}
	if x := fleet[0].contestant; x.cache == gateRedis && now-computations > 1 {
		why(fleet, now-computations)
	}
	slices.Sort(took)
	got.computations, got.commands = float64(now-computations), float64(executed-commands)
	got.p50, got.p99, got.max = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	return got, nil
}

// why says why a herd cost more than one computation, so far as the gates know.
func why(fleet []*process, n int64) {
	progress("  %d computations; since they started:", n)
	for _, p := range fleet {
		if c, err := p.counters(""); err == nil {
			progress("  process %d: %v, events %v", p.cmd.Process.Pid, c.Gate.Computations, c.Gate.Events)
		}
	}
}

func computed(fleet []*process) (n int64, err error) {
	for _, p := range fleet {
		c, err := p.counters("")
		if err != nil {
			return 0, err
		}
		n += c.Computations
	}
	return n, nil
}
