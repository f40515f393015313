package core

import (
	"container/list"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// A request is blocked on Redis for 250 ms at most: lookBudget for reading and acquiring together, of which
	// reading may take readBudget, and finishBudget. What takes longer goes on off the request.
	lookBudget   = 200 * time.Millisecond
	readBudget   = 100 * time.Millisecond
	finishBudget = 50 * time.Millisecond

	pollGrowth  = 5
	pollCeiling = 250 * time.Millisecond
	// lastPoll is how long before the first deadline among its seats a flight asks once more.
	lastPoll = 15 * time.Millisecond
)

// A flight is this process's part in computing what belongs at one place. Its one
// goroutine is the only one that talks to the backend about it, however many requests
// wait: it takes the lock, polls while somebody else has it, renews it while a request
// of this process computes, and finishes.
//
// Requests take seats in it. When it has the lock it elects one seat to compute; the
// others are told what became of it.
type flight struct {
	m       *middleware
	place   place
	budget  time.Duration // for its first acquire: what its starter has left
	seen    string        // the head that its starter saw
	refresh *refresh      // computes if there is no seat; nil if only seats can
	entered time.Time     // when it asked to hear of the end of somebody else's lock; zero: of the next one it has not

	mu    sync.Mutex
	seats list.List // of *seat, longest waiting first
	shut  bool      // takes no more seats

	// unproven is what was computed without a lock: it may be older than an invalidation elsewhere. Those who came meanwhile get it if
	// there is still no lock to be had.
	unproven *tidings
	beneath  string // the head of what was stored when that began; "" if it is not known

	wake chan struct{} // the last seat left, or one with an earlier deadline came
	news chan result   // an announcement came in
}

// A seat is one request in a flight.
type seat struct {
	class    class
	patient  bool // waits while somebody computes; the impatient are told to leave
	hasStale bool
	deadline time.Time
	boarded  time.Time
	tidings  chan tidings // buffered: a flight never waits for a seat
	at       *list.Element
}

// tidings is what a seat is told, once.
type tidings struct {
	kind   tidingsKind
	grant  *grant        // elected; parallel, if the response may be stored
	stored stored        // answered
	remote bool          // answered: by another process
	after  time.Duration // failing: how long it makes no sense to come back
}

type tidingsKind uint8

const (
	tidingsElected  tidingsKind = iota // compute: you are the winner
	tidingsAnswered                    // here is what was computed
	tidingsAgain                       // it came to nothing: read once more
	tidingsParallel                    // not shareable: run the handler at once, like everybody else
	tidingsLeave                       // somebody computes, and you do not wait
	tidingsFailing                     // the key is left alone for a while
	tidingsTooMany                     // no seat: too many requests wait
	tidingsTimeout                     // the wait is over, or the client gone
)

// board takes a seat for s in the flight to f.place, which becomes f if there is none.
// An impatient seat boards only a flight that it starts; board returns nil otherwise. s may be nil
// if f can compute without a seat.
func (g *Gate) board(f *flight, s *seat) *flight {
	loc := f.place.loc()
	for {
		g.mu.Lock()
		there, ok := g.flights[loc]
		if !ok {
			f.wake, f.news = make(chan struct{}, 1), make(chan result, 1)
			if s != nil {
				s.at = f.seats.PushBack(s)
			}
			if !g.goOwnedLocked(f.run) {
				g.mu.Unlock()
				return nil
			}
			g.flights[loc] = f
		}
		g.mu.Unlock()
		switch {
		case !ok:
			return f
		case s == nil || !s.patient:
			return nil
		case there.take(s):
			return there
		}
		// It shut between the look and the seat: it is off the map by now.
	}
}

func (f *flight) take(s *seat) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return false
	}
	s.at = f.seats.PushBack(s)
	if front := f.seats.Front().Value.(*seat); front == s || s.deadline.Before(front.deadline) {
		f.nudge()
	}
	return true
}

// taken is how many requests have a seat.
func (f *flight) taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seats.Len()
}

// leave gives a seat up. If the flight had just told it something, leave returns that: whoever was
// elected must compute or hand the grant back.
func (f *flight) leave(s *seat) (last tidings, told bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.at == nil {
		return <-s.tidings, true
	}
	f.seats.Remove(s.at)
	s.at = nil
	if f.seats.Len() == 0 {
		f.nudge()
	}
	return tidings{}, false
}

// hear takes an announcement. One that the flight has not looked at yet is as good.
func (f *flight) hear(why result) {
	select {
	case f.news <- why:
	default:
	}
}

func (f *flight) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// wave is how many seats are told at a time. In between, those who were told run: the first of a herd do not wait until
// the last has been told.
const wave = 64

// tell tells every seat that which selects, or all if it is nil.
func (f *flight) tell(t tidings, which func(*seat) bool) {
	var told []*seat
	f.mu.Lock()
	for at := f.seats.Front(); at != nil; {
		s, next := at.Value.(*seat), at.Next()
		if which == nil || which(s) {
			f.seats.Remove(at)
			s.at = nil
			told = append(told, s)
		}
		at = next
	}
	f.mu.Unlock()
	for i, s := range told {
		if i > 0 && i%wave == 0 {
			runtime.Gosched()
		}
		s.tidings <- t
	}
}

// shutDown takes the flight off the map: later requests look for themselves.
func (f *flight) shutDown() { f.shutDownIf(func() bool { return true }) }

// shutDownIfEmpty shuts the flight down if nobody has a seat, and reports whether.
func (f *flight) shutDownIfEmpty() bool {
	return f.shutDownIf(func() bool { return f.seats.Len() == 0 })
}

// shutDownIf shuts the flight down if it may, which is asked with both locks held: nobody boards in between.
func (f *flight) shutDownIf(may func() bool) bool {
	g, loc := f.m.gate, f.place.loc()
	g.mu.Lock()
	defer g.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !may() {
		return false
	}
	if g.flights[loc] == f {
		delete(g.flights, loc)
	}
	f.shut = true
	return true
}

// close shuts the flight down and tells the seats that are left.
func (f *flight) close(t tidings) {
	f.shutDown()
	f.tell(t, nil)
}

// elect hands the grant to the seat that has waited longest, the patient ones first, or to the refresh. It returns
// false if there is neither. With which it looks only at seats that this selects.
func (f *flight) elect(gr *grant, which func(*seat) bool) bool {
	f.mu.Lock()
	var chosen *seat
	for at := f.seats.Front(); at != nil; at = at.Next() {
		s := at.Value.(*seat)
		if which != nil && !which(s) {
			continue
		}
		if chosen == nil || s.patient {
			chosen = s
			if s.patient {
				break
			}
		}
	}
	if chosen != nil {
		f.seats.Remove(chosen.at)
		chosen.at = nil
		gr.class = chosen.class
		chosen.tidings <- tidings{kind: tidingsElected, grant: gr}
	}
	f.mu.Unlock()
	if chosen != nil {
		return true
	}
	r := f.refresh
	f.refresh = nil // it runs once
	return r != nil && r.start(gr)
}

// needed reports whether anybody waits for the flight, and returns what acquire has to
// know about them: the class of the one who would be elected, whether anybody waits
// while another computes, and whether all have a stale copy to fall back on.
func (f *flight) needed() (class class, patient, hasStale, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seats.Len() == 0 {
		return anonymous, false, true, f.refresh != nil
	}
	class, hasStale = f.seats.Front().Value.(*seat).class, true
	for at := f.seats.Front(); at != nil; at = at.Next() {
		s := at.Value.(*seat)
		if s.patient && !patient {
			class, patient = s.class, true
		}
		hasStale = hasStale && s.hasStale
	}
	return class, patient, hasStale, true
}

// run is the way of a flight.
func (f *flight) run() {
	defer f.close(tidings{kind: tidingsAgain})
	waited, poll := false, time.Duration(0)
	why := causeMiss
	holder := "" // whose lock's end has not been announced yet
	for {
		class, patient, hasStale, needed := f.needed()
		if !needed {
			return
		}
		gr, found, err := f.acquire(class, patient, hasStale)
		if holder != "" && err == nil && found.holder != holder {
			poll, f.entered = 0, time.Time{} // it has ended, and this is another
			f.m.gate.backend.missed()
		}
		holder = ""
		// No fleet lock, or what somebody stored cannot be read.
		noLock := err != nil || found.state == stateNoLock || found.state == stateChanged && !f.reread()
		if old := f.unproven; old != nil {
			// What was stored since may be newer than an invalidation, though it cannot be read.
			if noLock && (found.state != stateChanged || found.head == f.beneath && found.head != "") {
				f.close(*old)
				return
			}
			f.unproven, why = nil, causeNoRedis
			if found.state != stateChanged {
				f.reopen()
			}
		}
		switch {
		case noLock: // One request of this process computes; nothing can be stored.
			gr.fleet, gr.cause, gr.proven, gr.seen = false, causeNoRedis, time.Now(), found.head
			f.m.gate.count(causeNoRedis)
			f.m.gate.backend.noLock(found, err)
			if !f.attend(gr) {
				return
			}
		case found.state == stateWon:
			gr.cause = why
			if !f.attend(gr) {
				return
			}
			why = causeAfterFailure
		case found.state == stateChanged:
			return
		case found.state == stateUncacheable:
			// This is known of one class of requests; the others ask for themselves.
			f.parallel(gr, found.claimed, func(s *seat) bool { return s.class == class })
		case found.state == stateFailing:
			// Those who come to a failing key are told so; those who were waiting when it failed sit it out. The flight shuts
			// meanwhile, or whoever comes next would sit with them.
			f.shutDown()
			f.tell(tidings{kind: tidingsFailing, after: found.remains}, func(s *seat) bool {
				return s.class == class && (!waited || s.hasStale || !s.patient)
			})
			f.refresh = nil
			if !waited {
				return // the failures are those of one class of requests: the others ask for themselves
			}
			f.await(found.remains)
			f.reopen()
			why = causeAfterFailure
		default: // held
			f.tell(tidings{kind: tidingsLeave}, func(s *seat) bool { return !s.patient })
			poll = f.m.nextPoll(poll)
			if f.refresh != nil { // somebody else refreshes
				f.refresh = nil
				f.linger(min(poll, found.remains))
				continue
			}
			if patient {
				holder = found.holder
			}
			ended := f.await(min(poll, found.remains+time.Millisecond))
			if ended != "" {
				holder, poll = "", 0
			}
			switch ended {
			case resultStored:
				if f.reread() {
					return
				}
			case resultUncacheable:
				f.parallel(nil, false, func(s *seat) bool { return s.class == anonymous })
			case "":
				why = causeTakeover
			default:
			}
		}
		waited = true
	}
}

// acquire looks again and tries to take the lock. An outcome that is unknown is not a win; it is
// cleaned up off the request.
func (f *flight) acquire(class class, patient, hasStale bool) (*grant, answer, error) {
	g, cfg := f.m.gate, f.m.cfg
	select {
	case <-f.news: // about a lock that this answer will know more of
		f.entered = time.Time{}
	default:
	}
	waits := patient && time.Since(f.entered) > cfg.LockFor // it is forgotten after twice that
	gr := &grant{
		proven:  time.Now(),
		seen:    f.seen,
		lease:   lease{place: f.place, token: newToken(), class: class, lock: cfg.LockFor, hold: cfg.HoldFor},
		reports: make(chan completion, 1),
		settled: make(chan verdict, 1),
	}
	ctx, cancel := context.WithTimeout(g.ctx, f.budget)
	defer cancel()
	f.budget = lookBudget
	found, err := g.backend.acquire(ctx, query{lease: gr.lease, seen: f.seen, waits: waits, hasStale: hasStale})
	switch {
	case err != nil || found.state != stateHeld:
		f.entered = time.Time{}
	case waits:
		f.entered = gr.proven
	}
	if err != nil && !errors.Is(err, errNotAsked) {
		// It may have been executed, or still be under way: give back until there was something to give back.
		unknown := gr.lease // gr goes on to whoever is elected
		g.owned.Go(func() { // while closing too: this flight is among those that Close waits for
			g.untilDone(unknown.lock, func(ctx context.Context) bool {
				had, err := g.backend.release(ctx, unknown)
				return had && err == nil
			})
		})
	}
	gr.fleet = err == nil && found.state == stateWon
	gr.locked, gr.grant, gr.generation = gr.fleet, found.grant, found.generation
	if gr.grant == 0 { // nobody granted it: this process's own time orders it among those who wait here
		gr.grant = g.backend.now()
	}
	return gr, found, err
}

// reread reads what somebody else stored and tells the seats. The flight shuts first: a request that
// comes after the GET was sent must not get what it brings. It returns false if that cannot be read: the flight goes on.
func (f *flight) reread() bool {
	f.shutDown()
	g := f.m.gate
	g.tier.drop(f.place.base) // what is there is newer than any copy
	ctx, cancel := context.WithTimeout(g.ctx, readBudget)
	defer cancel()
	if f.place.variant != "" {
		base, err := g.backend.read(ctx, f.place.base)
		if r := base.record; err == nil && r != nil && !slices.Equal(r.Names, f.place.names) {
			g.varies.Set(f.place.hash, r.Names) // the key varies on more than we knew: it is another place
			f.tell(tidings{kind: tidingsAgain}, nil)
			return true
		}
	}
	s, err := g.backend.read(ctx, f.place.loc())
	if err != nil {
		f.reopen()
		return false
	}
	f.tell(tidings{kind: tidingsAnswered, stored: s, remote: true}, nil)
	return true
}

// reopen takes seats again, unless another flight has come meanwhile.
func (f *flight) reopen() {
	g, loc := f.m.gate, f.place.loc()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flights[loc] != nil {
		return
	}
	g.flights[loc] = f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut = false
}

// parallel lets seats run the handler at once. If acquire granted the claim, one of them may store
// what it gets: the response may have become cacheable.
func (f *flight) parallel(gr *grant, claimed bool, which func(*seat) bool) {
	if claimed {
		gr.fleet, gr.cause = true, causeUncacheable
		if f.elect(gr, which) {
			f.m.gate.owned.Go(func() { f.oversee(gr) }) // from this flight, so Close waits already
		} else {
			f.m.gate.settle(gr, completion{result: resultGaveUp})
		}
	}
	f.tell(tidings{kind: tidingsParallel}, which)
}

// await sleeps until an announcement comes in, pause has passed, a seat's deadline is
// near, or nobody is left. It returns what was announced, or "".
func (f *flight) await(pause time.Duration) result {
	end := time.Now().Add(pause)
	for {
		first, waiting := f.firstDeadline()
		if !waiting {
			return ""
		}
		until := end
		if near := first.Add(-lastPoll); near.Before(end) && time.Until(near) > 0 {
			until = near
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case why := <-f.news:
			f.entered = time.Time{}
			timer.Stop()
			return why
		case <-timer.C:
			return ""
		case <-f.wake:
			timer.Stop()
		}
	}
}

// linger keeps a flight on the map that nobody waits for, so that not every request with a stale copy asks whether
// the refresh is over. Whoever takes a seat ends it.
func (f *flight) linger(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	case <-f.news:
		f.entered = time.Time{}
	}
}

func (f *flight) firstDeadline() (first time.Time, waiting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := f.seats.Front(); at != nil; at = at.Next() {
		if s := at.Value.(*seat); !waiting || s.deadline.Before(first) {
			first, waiting = s.deadline, true
		}
	}
	return first, waiting
}

// nextPoll draws the pause before the next poll: the first between the route's bounds, then growing.
func (m *middleware) nextPoll(last time.Duration) time.Duration {
	low, high := m.cfg.PollMin, m.cfg.PollMax
	if last == 0 {
		return low + time.Duration(rand.Int64N(int64(high-low)+1))
	}
	return min(pollGrowth*last, max(pollCeiling, high))
}
