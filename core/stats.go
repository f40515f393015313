package core

import (
	"sync"
	"sync/atomic"
)

// Stats is a snapshot of what a gate did since it was made. The keys of its maps are
// a bounded set of words.
type Stats struct {
	// Outcomes counts finished requests by role; those with RoleBypass as "bypass:<reason>".
	Outcomes map[string]uint64
	// Computations counts runs of handlers by cause, bypasses excepted.
	Computations map[string]uint64
	// Events counts what befell locks, stored values and refreshes: "lock-lost", "hold-cap", "invalidated", "dropped", "no-redis",
	// "breaker-open", "corrupt", "mismatch", "invalidation-unconfirmed", "refresh-lost", "refresh-dropped", "refresh-panic".
	Events map[string]uint64
	// Waiting is how many requests wait now.
	Waiting int64
	// Flights is how many keys this process is computing or waiting for now.
	Flights int
	// Breakers is the state of the circuit breakers in front of Redis, three for each of its nodes.
	Breakers []Breaker
}

// Stats returns a snapshot. It is cheap enough to be called for every scrape.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	flights, waiting := len(g.flights), 0
	for _, f := range g.flights {
		waiting += f.taken()
	}
	g.mu.Unlock()
	var breakers []Breaker
	if g.backend != nil {
		breakers = g.backend.breakers()
	}
	return Stats{
		Breakers:     breakers,
		Outcomes:     g.stats.outcomes.snapshot(),
		Computations: g.stats.computations.snapshot(),
		Events:       g.stats.events.snapshot(),
		Waiting:      int64(waiting),
		Flights:      flights,
	}
}

type stats struct {
	outcomes, computations, events counters
}

// counters are counters by name.
type counters struct{ m sync.Map }

func (c *counters) add(name string) {
	n, ok := c.m.Load(name)
	if !ok {
		n, _ = c.m.LoadOrStore(name, new(atomic.Uint64))
	}
	n.(*atomic.Uint64).Add(1)
}

func (c *counters) snapshot() map[string]uint64 {
	s := make(map[string]uint64)
	c.m.Range(func(name, n any) bool {
		s[name.(string)] = n.(*atomic.Uint64).Load()
		return true
	})
	return s
}

// count counts an event.
func (g *Gate) count(event cause) { g.stats.events.add(string(event)) }

// cures says what to do about the reasons for which responses of a route are not cached.
var cures = map[string]string{
	"no-freshness":     "the response has no Cache-Control lifetime: add FreshFor",
	"credentials":      "requests carry credentials: add Public if the response is the same for everyone, or KeyCookie, KeyHeader, PerUser with KeyBy",
	"set-cookie":       "the response sets a cookie, or middleware outside Cache does: move it inside or off this route",
	"vary-credentials": "the response varies by Cookie or Authorization: add Public, KeyCookie or KeyHeader if that is not so",
	"vary-many":        "the response varies on more headers than there is room for: name fewer in Vary",
	"too-large":        "the body is larger than MaxBody: raise it",
	"private":          "the response says private: remove it, or Cache from this route",
	"no-store":         "the response says no-store: remove it, or Cache from this route",
}

// explain warns once per route and reason, with the cure.
func (m *middleware) explain(reason string) {
	cure, ok := cures[reason]
	if !ok {
		return
	}
	if _, said := m.gate.warned.LoadOrStore(m.cfg.Name+"\x00"+m.recipe.fingerprint+"\x00"+reason, true); !said {
		m.gate.log.Warn("herdgate: not cached", "route", m.cfg.Name, "reason", reason, "cure", cure)
	}
}

// record counts a finished request.
func (m *middleware) record(o *Outcome) {
	name := string(o.Role)
	if o.Role == RoleBypass {
		name += ":" + o.Detail
	}
	m.gate.stats.outcomes.add(name)
	if o.Detail != "" {
		m.explain(o.Detail)
	}
}
