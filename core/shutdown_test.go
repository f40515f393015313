package core

import (
	"context"
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
