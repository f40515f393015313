package core

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herdgate/herdgate/internal/route"
)

// After a failure the flight ends before its winner's client is answered, unless somebody waits: the client's next request
// must not be taken for one that was waiting when the key failed.
func TestFlightIsOverBeforeAFailureIsAnswered(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		gate := gateOn(t, opens{memoryFor(t)})
		f := &flight{m: &middleware{gate: gate}, place: place{base: "base"}, wake: make(chan struct{}, 1)}
		gate.mu.Lock()
		gate.flights["base"] = f
		gate.mu.Unlock()
		if waiting && !f.take(&seat{patient: true}) {
			t.Fatal("no seat")
		}
		gr := &grant{reports: make(chan completion, 1), settled: make(chan verdict, 1), lease: lease{place: f.place, lock: time.Second, hold: time.Minute}}
		f.m.cfg = &route.Config{LockFor: time.Second, HoldFor: time.Minute}
		gr.report(completion{result: resultFailed})
		if more := f.oversee(gr); more != waiting {
			t.Errorf("somebody waits: %v, and it goes on: %v", waiting, more)
		}
		if gate.inFlight(f.place) != waiting || f.take(&seat{}) != waiting {
			t.Errorf("somebody waits: %v, and it takes seats: %v", waiting, !waiting)
		}
		f.shutDown()
	}
}

// Who is told that the key is failing may come again at once: it must not sit with those who were waiting when the key failed.
func TestFlightIsShutBeforeItsSeatsAreToldOfAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &spy{backend: memoryFor(t)}
		s.onAcquire = func(context.Context, query) (answer, error) {
			return answer{state: stateFailing, remains: time.Second}, nil
		}
		g := gateOn(t, opens{s})
		m := &middleware{gate: g, cfg: &route.Config{LockFor: time.Second, HoldFor: time.Minute}}
		told := &seat{patient: true, deadline: time.Now().Add(time.Minute), tidings: make(chan tidings)} // unbuffered: the flight stops when it tells
		f := g.board(&flight{m: m, place: testPlace("x")}, told)
		synctest.Wait()
		if g.inFlight(f.place) || f.take(&seat{}) {
			t.Error("it takes seats when it tells that the key is failing")
		}
		if got := <-told.tidings; got.kind != tidingsFailing {
			t.Errorf("told %+v", got)
		}
	})
}

// Failures are those of one class of requests: who is of the other does not wait until they are forgotten.
func TestFailureOfOneClassHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &spy{backend: memoryFor(t)}
		s.onAcquire = func(context.Context, query) (answer, error) {
			pause(10 * time.Millisecond)
			return answer{state: stateFailing, remains: time.Second}, nil
		}
		g := gateOn(t, opens{s})
		m := &middleware{gate: g, cfg: &route.Config{LockFor: time.Second, HoldFor: time.Minute}}
		sits := func(c class) *seat {
			return &seat{class: c, patient: true, deadline: time.Now().Add(time.Minute), tidings: make(chan tidings, 1)}
		}
		first, other := sits(anonymous), sits(credentialed)
		f := g.board(&flight{m: m, place: testPlace("x")}, first)
		if !f.take(other) {
			t.Fatal("no seat")
		}
		if got := <-first.tidings; got.kind != tidingsFailing {
			t.Errorf("told %+v", got)
		}
		select {
		case got := <-other.tidings:
			if got.kind != tidingsAgain {
				t.Errorf("the other was told %+v", got)
			}
		case <-time.After(10 * time.Millisecond):
			t.Error("the other waits")
			f.leave(other)
		}
	})
}

// Who comes when those who were waiting have sat a failure out, and one of them computes again, waits with them.
func TestFlightTakesSeatsAgainAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		var wait atomic.Bool
		s := &spy{backend: memoryFor(t)}
		s.onAcquire = func(ctx context.Context, q query) (answer, error) {
			if wait.CompareAndSwap(true, false) {
				return answer{state: stateFailing, remains: time.Second}, nil
			}
			return s.backend.acquire(ctx, q)
		}
		serve := gateOn(t, opens{s}).Mount(FreshFor(time.Minute))
		fails := get("/", o.handles(func(_ context.Context, p *page) { pause(time.Second); wait.Store(true); p.write(500, "broken") }))
		failed := fails.start(serve)
		pause(time.Millisecond)
		waits := get("/", o.answers(time.Second, "body"))
		waited := waits.start(serve)
		<-failed
		pause(1500 * time.Millisecond)
		get("/", o.answers(0, "never")).send(serve).want(t, RoleLocalWaiter, "body")
		<-waited
		waits.want(t, RoleWinner, "body")
	})
}
