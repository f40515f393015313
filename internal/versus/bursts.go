package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// times keeps how long requests took.
type times struct {
	mu   sync.Mutex
	took []time.Duration
}

// stopwatch takes the requests of this process; nil where nobody wants to know.
var stopwatch *times

func (t *times) add(began time.Time) {
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
}

func (t *times) take() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := t.took
	t.took = nil
	return took
}

const (
	burstProcesses = 4
	burstClients   = 1000
	burstFresh     = 500 * time.Millisecond
)

// burst is what happened to clients that all asked at the same moment for a page that had expired.
type burst struct {
	slowest      time.Duration // in a server, of all requests but one
	p99          time.Duration // for the clients
	computations float64
}

type burstTable struct {
	contestants []contestant
	samples     map[string][]burst
}

// bursts sends clients for a page that is stale. The floor knows no such thing: its page does not expire, so that it has less to
// do.
func bursts(c config, s *redisServer) (table, error) {
	t := &burstTable{samples: make(map[string][]burst)}
	t.contestants = c.with(func(x contestant) bool {
		return x.cache == gateRedis || x.cache == floorRedis && x.framework != "fiber v3"
	})
	for range c.rounds {
		for _, x := range t.contestants {
			progress("bursts: %s", x.name())
			samples, err := burstsOf(x, s, 4)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.name(), err)
			}
			t.samples[x.name()] = append(t.samples[x.name()], samples...)
		}
	}
	return t, nil
}

func burstsOf(x contestant, s *redisServer, n int) (samples []burst, err error) {
	fleet, pool, end, err := connected(orders{Work: herdWork, Fresh: burstFresh, Timed: true}, x, s, burstProcesses, burstClients)
	if err != nil {
		return nil, err
	}
	defer end()
	page := request(fmt.Sprintf("%s%d/burst", pathPages, pageHead))
	for i := range fleet { // one computes, and all have connections to Redis
		if err := pool.each(pool.all[i:i+1], page, nil); err != nil {
			return nil, err
		}
	}
	for range n {
		time.Sleep(herdWork + 2*burstFresh) // a refresh ends, its page expires, the machine comes to rest
		if _, err := inServers(fleet); err != nil {
			return nil, err
		}
		before, err := computed(fleet)
		if err != nil {
			return nil, err
		}
		clients := make([]time.Duration, 0, burstClients)
		if err := pool.each(pool.all, page, func(conn *connection, now time.Time) {
			clients = append(clients, now.Sub(conn.sent))
		}); err != nil {
			return nil, err
		}
		time.Sleep(herdWork + burstFresh/5) // the refresh counts as well
		servers, err := inServers(fleet)
		if err != nil {
			return nil, err
		}
		after, err := computed(fleet)
		if err != nil {
			return nil, err
		}
		slices.Sort(clients)
		samples = append(samples, burst{
			slowest: servers[len(servers)-2], p99: clients[len(clients)*99/100], computations: float64(after - before),
		})
	}
	return samples, nil
}

// inServers returns how long the requests took in their servers since the last time, sorted.
func inServers(fleet []*process) (all []time.Duration, err error) {
	for _, p := range fleet {
		c, err := p.counters("?took")
		if err != nil {
			return nil, err
		}
		all = append(all, c.Took...)
	}
	slices.Sort(all)
	return all, nil
}

// burstBound is how long a request for a stale copy may be in the server.
const burstBound = 50 * time.Millisecond

// within is the share of the bursts that were over in time.
func within(s []burst) float64 {
	n := 0
	for _, b := range s {
		if b.slowest <= burstBound {
			n++
		}
	}
	return float64(n) / float64(max(1, len(s)))
}

func (t *burstTable) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## Stale copies\n\n%d clients that ask for one expired page at the same moment, in turn from each of %d processes. With herdgate they get the stale copy while one request "+
		"refreshes it, which takes %v. The floor's page does not expire: one GET and one write, and no refresh. \"slowest\" is the longest time that a request was in the handler, but for one, which may be the one that refreshes. "+
		"What it mostly shows is how long %d requests queue for two cores.\n\n"+
		"| | bursts | slowest ms: median | worst | bursts with slowest ≤ %v | clients' p99 ms | computations |\n|---|---|---|---|---|---|---|\n", burstClients, burstProcesses, herdWork, burstClients, burstBound)
	for _, c := range t.contestants {
		s := t.samples[c.name()]
		slowest := func(x burst) time.Duration { return x.slowest }
		var worst time.Duration
		for _, x := range s {
			worst = max(worst, x.slowest)
		}
		fmt.Fprintf(b, "| %s | %d | %.1f | %.1f | %.0f%% | %.1f | %.0f |\n", c.name(), len(s), millis(medianOf(s, slowest)), millis(worst),
			100*within(s), millis(medianOf(s, func(x burst) time.Duration { return x.p99 })), medianOf(s, func(x burst) float64 { return x.computations }))
	}
	b.WriteString("\n")
}

func (t *burstTable) goals() (goals []goal) {
	for _, c := range t.contestants {
		if s := t.samples[c.name()]; c.cache == gateRedis {
			goals = append(goals, goal{c.framework + ": slowest of 1,000 stale copies in the server, median",
				millis(medianOf(s, func(x burst) time.Duration { return x.slowest })), false, millis(burstBound), " ms"})
		}
	}
	return goals
}
