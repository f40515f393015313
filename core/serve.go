package core

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/rfc9111"
	"github.com/herdgate/herdgate/internal/route"
)

// middleware is one route of a gate.
type middleware struct {
	gate            *Gate
	cfg             *route.Config
	recipe          recipe
	hidden          []string     // request headers that the handler does not see
	foregroundUntil atomic.Int64 // refreshes are in the foreground until then, in ns
}

// maxTurns bounds how often one request looks again, because what it waited for came to nothing.
const maxTurns = 5

// serve is the way of a request, from top to bottom. The handler runs on this goroutine or not at all.
func (m *middleware) serve(x host.Exchange) {
	if x.Context().Value(insideKey{m.gate}) != nil {
		// The Cache around this one leads. Waiting here would be waiting for ourselves.
		x.Run(host.Call{Passing: func(string) string { return "" }})
		return
	}
	rq := &request{x: x, context: outcomeContext{Context: x.Context()}}
	o := &rq.context.outcome
	x.SetContext(&rq.context)
	defer m.record(o)

	// Not ours: straight to the handler.
	if reason := m.notOurs(x); reason != "" {
		if reason == "method" && rfc9111.Unsafe(x.Method()) {
			m.write(x, o)
			return
		}
		m.bypass(x, o, reason)
		return
	}
	if !m.view(rq) {
		m.bypass(x, o, "key")
		return
	}
	if rq.says.NoStore {
		m.bypass(x, o, "request-no-store")
		return
	}
	if r := m.arrival(x.Context(), rq.base); r != nil {
		o.Forward = "stale"
		m.compute(rq, o, r.grant, r.seen)
		return
	}

	var deadline time.Time // once there is something to wait for
	for turn := range maxTurns {
		if turn > 0 && time.Now().After(deadline) {
			break
		}

		// Look. A key that this process is computing from nothing needs no look.
		p := m.gate.placeOf(rq)
		var got stored
		if !m.gate.computing(p) {
			p, got, _ = m.gate.look(rq) // what cannot be read is a miss
		}

		// Fresh, or stale within its window: answer at once, while one request refreshes.
		copied := m.usable(rq, got.entry)
		if copied != nil {
			now := m.gate.backend.now()
			switch {
			case turn > 0 && copied.Grant >= rq.arrived: // somebody computed it while this request waited
				o.Role = RoleRemoteWaiter
				m.reply(rq, o, copied, now)
				return
			case copied.FreshAt(now) > 0 && rq.says.Accepts(copied, now):
				m.serveCopy(rq, o, RoleHit, copied, now, "")
				return
			case rq.says.Tolerates(copied, now):
				m.serveCopy(rq, o, RoleStale, copied, now, "")
				return
			case rq.mayHaveStale(copied, copied.Stale, now):
				m.serveStale(rq, o, p, got, now)
				return
			}
		}
		o.Forward = rq.forward(p, got, copied)
		if rq.says.OnlyIfCached {
			m.unavailable(rq, o)
			return
		}
		if reason := rq.neverLeads(); reason != "" {
			m.bypass(x, o, reason)
			return
		}

		// Nothing to serve: take part in computing it.
		if turn == 0 {
			deadline = m.deadline(rq)
		}
		s := m.newSeat(rq, copied, deadline)
		t := m.takePart(rq, o, m.newFlight(rq, p, got), s)
		switch t.kind {
		case tidingsElected:
			m.compute(rq, o, t.grant, got)
			return
		case tidingsAnswered:
			if e := m.answers(rq, t); e != nil {
				o.Role = RoleLocalWaiter
				if t.remote {
					o.Role = RoleRemoteWaiter
				}
				m.reply(rq, o, e, m.gate.backend.now())
				return
			}
			m.gate.learn(rq, t.stored)
		case tidingsAgain:
		case tidingsParallel:
			m.parallel(rq, o)
			return
		case tidingsLeave: // only requests with credentials do not wait
			reason := "credentials"
			if s.patient { // Close came between the look and the seat
				reason = "closed"
			}
			m.bypass(x, o, reason)
			return
		case tidingsFailing:
			m.degrade(rq, o, "failing", t.after)
			return
		case tidingsTooMany:
			m.degrade(rq, o, "too-many-waiters", m.cfg.LockFor)
			return
		case tidingsTimeout:
			m.degrade(rq, o, "wait", time.Second)
			return
		}
	}
	m.degrade(rq, o, "wait", time.Second)
}

// notOurs returns why a request is left alone whatever is stored, or "".
func (m *middleware) notOurs(x host.Exchange) string {
	switch {
	case m.gate.backend == nil:
		return "off"
	case m.gate.closed.Load():
		return "closed"
	case x.Method() != "GET" && x.Method() != "HEAD":
		return "method"
	case x.HasBody():
		return "body"
	case len(x.Values("Upgrade")) > 0:
		return "upgrade"
	case len(x.Values("X-Http-Method-Override")) > 0, len(x.Values("X-Http-Method")) > 0, len(x.Values("X-Method-Override")) > 0:
		return "method-override"
	case m.cfg.Skip != nil && m.cfg.Skip(x.Native()):
		return "skip"
	}
	return ""
}

// request is what the decisions about one request need to know of it.
type request struct {
	x           host.Exchange
	context     outcomeContext // of x
	key         string         // canonical
	recipe      *recipe
	hash        string
	base        string
	chosen      string
	credentials rfc9111.Credentials
	class       class
	arrived     int64         // fleet time; 0 until it is needed
	blocked     time.Duration // on Redis, so far
	says        rfc9111.Request

	hidden []string        // headers that the handler does not see
	set    []headers.Field // and what it sees instead
}

// shown returns the lines of a request header as the handler sees them.
func (rq *request) shown(name string) []string {
	if !slices.Contains(rq.hidden, name) {
		return rq.x.Values(name)
	}
	for _, f := range rq.set {
		if f.Name == name {
			return []string{f.Value}
		}
	}
	return nil
}

// view looks at the request. It returns false if it has no key.
func (m *middleware) view(rq *request) bool {
	x := rq.x
	k := Key{Host: x.Host(), Target: x.Target()}
	if m.cfg.KeyBy != nil {
		if k.By = m.cfg.KeyBy(x.Native()); k.By == "" {
			return false
		}
	}
	if len(m.recipe.secret) > 0 {
		k.Header = make(map[string][]string, len(m.recipe.secret))
		for _, name := range m.recipe.secret {
			k.Header[name] = x.Values(name)
		}
	}
	var room [512]byte // on the stack: a longer key costs an allocation more
	key := m.recipe.key(room[:0], k)
	both := string(m.gate.appendBase(key, key))
	rq.key, rq.base = both[:len(key)], both[len(key):]
	rq.hash = hashOf(rq.base)
	rq.chosen = m.recipe.chosen(x)
	rq.recipe, rq.hidden, rq.set = &m.recipe, m.hidden, m.reducedCookie(x)
	if m.cfg.HonourRequest {
		rq.says = rfc9111.ParseRequest(x.Values("Cache-Control"), x.Values("Pragma"))
	}
	if rq.credentials = m.uncovered(x); rq.credentials != rfc9111.NoCredentials {
		rq.class = credentialed
	}
	return true
}

// place is where the response to the request belongs if it varies on these headers.
func (rq *request) place(names []string) place {
	p := place{base: rq.base, hash: rq.hash, key: rq.key, names: names}
	if rq.chosen == "" && len(names) == 0 {
		return p
	}
	f := frames{}.add(rq.chosen)
	for _, name := range names {
		f = f.add(name).add(rq.recipe.varyValue(name, rq.shown(name)))
	}
	p.vary = digest(string(f))
	p.variant = p.vary[:16]
	return p
}

// placeOf is where the response belongs as far as this process knows.
func (g *Gate) placeOf(rq *request) place {
	names, _ := g.varies.GetIfPresent(rq.hash)
	return rq.place(names)
}

// computing reports whether this process is computing what belongs at p and knows that nothing is stored
// there: whoever comes can join without a look.
func (g *Gate) computing(p place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.flights[p.loc()]
	return ok && f.seen == ""
}

// look reads what is stored for a request: one GET, or two if this process did not know yet what the key varies on.
func (g *Gate) look(rq *request) (place, stored, error) {
	p := g.placeOf(rq)
	for range 2 {
		got, copied := g.tier.copyAt(p, g.backend.now)
		var err error
		if !copied {
			if got, err = g.read(rq, p); errors.Is(err, errNotAsked) {
				if last := g.tier.lastCopy(p); last.entry != nil {
					got, err = last, nil
				}
			}
		}
		if e := got.entry; e != nil && (e.Key != rq.key || e.VaryKey != p.vary && slices.Equal(e.Vary, p.names)) {
			g.count(causeCorrupt) // somebody moved it here
			got.entry = nil
		}
		if err != nil || got.record == nil {
			return p, got, err
		}
		g.varies.Set(rq.hash, got.record.Names)
		p = rq.place(got.record.Names)
	}
	return p, stored{}, nil
}

// read asks the backend, unless the request has waited for it long enough.
func (g *Gate) read(rq *request, p place) (stored, error) {
	if rq.blocked > readBudget {
		return stored{}, errTooBrief
	}
	began := time.Now()
	defer func() { rq.blocked += time.Since(began) }()
	loc := p.loc()
	g.tier.listens()
	got, err := g.backend.read(rq.x.Context(), loc)
	if err == nil {
		g.tier.keep(loc, got, began, g.backend.now)
	}
	return got, err
}

// usable returns e if it may answer the request in principle, whatever its age: it was stored for this very key and
// variant, and its response may be shown to somebody with these credentials. Otherwise nil.
func (m *middleware) usable(rq *request, e *entry.Entry) *entry.Entry {
	if e == nil || e.Key != rq.key || e.VaryKey != rq.place(e.Vary).vary {
		return nil
	}
	if !rq.credentials.Allows(e.Scope) {
		return nil
	}
	return e
}

// answers returns the response that a flight brought, if it answers this request too: another variant may have been computed. It was
// computed while the request waited, so it does not matter if it has become stale since; one that came by Redis may be older.
//
// A response that never was fresh (no-cache, max-age=0) answers only those who had come before the handler was called: for them it
// is what their own call would have brought (RFC 9111 4).
func (m *middleware) answers(rq *request, t tidings) *entry.Entry {
	e := m.usable(rq, t.stored.entry)
	if e == nil || e.Grant >= rq.arrived {
		return e
	}
	if !rq.says.Accepts(e, m.gate.backend.now()) {
		return nil
	}
	if e.Fresh+e.Stale <= e.Age || t.remote && e.FreshAt(m.gate.backend.now()) <= 0 {
		return nil
	}
	return e
}

// forward returns why what was found at a place does not answer the request (RFC 9211 2.2).
func (rq *request) forward(p place, got stored, copied *entry.Entry) string {
	switch e := got.entry; {
	case copied != nil && !rq.says.NoCache && !rq.says.MaxAge.Present && !rq.says.MinFresh.Present:
		return "stale"
	case copied != nil:
		return "request"
	case e != nil && e.Key == rq.key && e.VaryKey != rq.place(e.Vary).vary:
		return "vary-miss"
	case e == nil && p.variant == "":
		return "uri-miss"
	}
	return "miss"
}

// learn remembers what a key varies on, from what was brought for another variant of it.
func (g *Gate) learn(rq *request, s stored) {
	switch {
	case s.record != nil:
		g.varies.Set(rq.hash, s.record.Names)
	case s.entry != nil && len(s.entry.Vary) > 0:
		g.varies.Set(rq.hash, s.entry.Vary)
	}
}

func (rq *request) mayHaveStale(e *entry.Entry, window time.Duration, now int64) bool {
	return window > 0 && e.FreshAt(now)+window > 0 && rq.says.Accepts(e, now)
}

// neverLeads returns why the request must not compute for others, or "".
func (rq *request) neverLeads() string {
	switch {
	case len(rq.x.Values("Range")) > 0:
		return "range"
	case rq.x.Method() == "HEAD" && !rq.x.HeadIsGet():
		return "head"
	}
	return ""
}

// deadline is when a request that has just found nothing to serve ends its wait. What it took to find that out is part of it.
func (m *middleware) deadline(rq *request) time.Time {
	deadline := time.Now().Add(m.cfg.WaitFor - rq.blocked)
	if d, ok := rq.x.Context().Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return deadline
}

// newFlight is this process's part in computing what belongs at p, if there is none yet. seen is what the request found there.
func (m *middleware) newFlight(rq *request, p place, seen stored) *flight {
	return &flight{m: m, place: p, seen: seen.head(), budget: lookBudget - rq.blocked}
}

// newSeat makes the request's seat in a flight. A request with credentials that the route does not cover
// waits only where the stored copy says that its response is for everybody.
func (m *middleware) newSeat(rq *request, copied *entry.Entry, deadline time.Time) *seat {
	hasStale := copied != nil && rq.mayHaveStale(copied, copied.StaleIfError, m.gate.backend.now())
	return &seat{
		class:    rq.class,
		patient:  rq.class == anonymous || copied != nil,
		hasStale: hasStale,
		deadline: deadline,
		tidings:  make(chan tidings, 1),
	}
}

// takePart boards a flight and waits until it has tidings, the client leaves, or the wait is over.
func (m *middleware) takePart(rq *request, o *Outcome, f *flight, s *seat) tidings {
	g, ctx := m.gate, rq.x.Context()
	if g.waiting.Add(1) > g.maxWaiters && g.inFlight(f.place) {
		g.waiting.Add(-1)
		return tidings{kind: tidingsTooMany}
	}
	defer g.waiting.Add(-1)
	s.boarded = time.Now()
	defer func() { o.Waited += time.Since(s.boarded) }()
	if rq.arrived == 0 {
		rq.arrived = g.backend.now()
	}

	if f = g.board(f, s); f == nil {
		return tidings{kind: tidingsLeave}
	}
	timer := time.NewTimer(time.Until(s.deadline))
	defer timer.Stop()
	select {
	case t := <-s.tidings:
		return t
	case <-timer.C:
	case <-ctx.Done():
	}
	t, told := f.leave(s)
	switch {
	case !told:
		return tidings{kind: tidingsTimeout}
	case t.kind == tidingsElected && ctx.Err() != nil:
		t.grant.report(completion{result: resultGaveUp}) // for the next in line
		return tidings{kind: tidingsTimeout}
	}
	return t
}

// serveStale answers with a stale copy and has it refreshed: in the background if possible, else by
// this request, if it gets the lock.
func (m *middleware) serveStale(rq *request, o *Outcome, p place, seen stored, now int64) {
	copied := seen.entry
	if rq.neverLeads() != "" || m.gate.inFlight(p) {
		m.serveCopy(rq, o, RoleStale, copied, now, "")
		return
	}
	f := m.newFlight(rq, p, seen)
	if rq.class == anonymous {
		f.refresh = m.freeze(rq.x, seen)
	}
	if f.refresh != nil {
		m.gate.board(f, nil)
		m.serveCopy(rq, o, RoleStale, copied, now, "")
		return
	}
	s := m.newSeat(rq, copied, time.Now().Add(lookBudget))
	s.patient = false
	o.Forward = "stale"
	t := m.takePart(rq, o, f, s)
	if t.kind == tidingsElected {
		t.grant.cause = causeStale
		m.compute(rq, o, t.grant, seen)
		return
	}
	m.serveCopy(rq, o, RoleStale, copied, m.gate.backend.now(), "")
}

func (g *Gate) inFlight(p place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.flights[p.loc()]
	return ok
}

// bypass runs the handler as if the middleware were not there.
func (m *middleware) bypass(x host.Exchange, o *Outcome, reason string) {
	o.Role, o.Detail = RoleBypass, reason
	x.Run(host.Call{Passing: func(string) string { return o.cacheStatus() }})
}

// parallel runs the handler for this request alone: the response is not shareable.
func (m *middleware) parallel(rq *request, o *Outcome) {
	o.Role, o.Cause, o.Detail = RoleParallel, string(causeUncacheable), string(causeUncacheable)
	m.gate.stats.computations.add(o.Cause)
	x := rq.x
	x.Run(host.Call{Drop: m.hidden, Set: rq.set, Context: context.WithValue(x.Context(), insideKey{m.gate}, true),
		Passing: func(string) string { return o.cacheStatus() }})
}

// unavailable answers a request that wants nothing but what is stored, and nothing is (RFC 9111 5.2.1.7).
func (m *middleware) unavailable(rq *request, o *Outcome) {
	o.Role, o.Detail, o.Status = RoleDegraded, "only-if-cached", http.StatusGatewayTimeout
	rq.x.Reply(host.Reply{
		Status:      o.Status,
		Header:      []headers.Field{{Op: headers.Set, Name: "Cache-Control", Value: "no-store"}},
		CacheStatus: o.cacheStatus(),
	})
}

// degrade answers without a response: with a stale copy where one may stand in, else with the route's degraded answer. It
// looks again for the copy: the one from before the wait may have been invalidated.
func (m *middleware) degrade(rq *request, o *Outcome, why string, after time.Duration) {
	if _, got, err := m.gate.look(rq); err == nil && m.usable(rq, got.entry) != nil {
		copied := got.entry
		now := m.gate.backend.now()
		if why == "failing" && rq.mayHaveStale(copied, copied.StaleIfError, now) || rq.mayHaveStale(copied, copied.OverStale, now) {
			m.serveCopy(rq, o, RoleStale, copied, now, why)
			return
		}
	}
	o.Role, o.Detail = RoleDegraded, why
	answer := degraded(m.cfg, after, o.cacheStatus())
	o.Status = answer.Status
	rq.x.Reply(answer)
}

// serveCopy answers with what is stored.
func (m *middleware) serveCopy(rq *request, o *Outcome, role Role, e *entry.Entry, now int64, detail string) {
	o.Role, o.Detail, o.Forward = role, detail, ""
	m.reply(rq, o, e, now)
}
