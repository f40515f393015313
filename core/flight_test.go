package core

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herdgate/herdgate/internal/host"
)

// bubble runs a test on fake time: waits, polls, back-off and watchdog take as long as they say, exactly.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		own  time.Duration // the request's own deadline
		want time.Duration
	}{
		"WaitFor":                    {want: 500 * time.Millisecond},
		"the request's own deadline": {own: 200 * time.Millisecond, want: 200 * time.Millisecond},
		"a later deadline":           {own: time.Second, want: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				g := gateOn(t, Memory(8<<20))
				serve := g.Mount(FreshFor(time.Minute), WaitFor(500*time.Millisecond))
				winner := get("/", o.answers(2*time.Second, "body"))
				done := winner.start(serve)
				synctest.Wait()

				loser := get("/", o.answers(0, "never"))
				if c.own > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), c.own)
					defer cancel()
					loser.ctx = ctx
				}
				loser.send(serve).wantDegraded(t, "wait")
				if loser.took != c.want || loser.out.Waited != c.want {
					t.Errorf("waited %v (%v in its outcome), want %v", loser.took, loser.out.Waited, c.want)
				}
				<-done
				winner.want(t, RoleWinner, "body")
				get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "body")
				if o.runs() != 1 {
					t.Errorf("%d computations, want 1", o.runs())
				}
			})
		})
	}
}

func TestWaitersClientLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		winner := get("/", o.answers(time.Second, "body"))
		done := winner.start(serve)
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		loser := get("/", o.answers(0, "never"), on(ctx))
		left := loser.start(serve)
		stays := get("/", o.answers(0, "never"))
		answered := stays.start(serve)
		time.Sleep(100 * time.Millisecond)
		leave()
		<-left
		if loser.took != 100*time.Millisecond {
			t.Errorf("gone after %v, want at once", loser.took)
		}
		<-done
		<-answered
		stays.want(t, RoleLocalWaiter, "body")
		if o.runs() != 1 {
			t.Errorf("%d computations, want 1", o.runs())
		}
	})
}

func TestWinnersClientLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		ctx, leave := context.WithCancel(t.Context())
		winner := get("/", o.handles(func(ctx context.Context, p *page) {
			select {
			case <-ctx.Done():
				p.write(500, "canceled")
			case <-time.After(time.Second):
				p.write(200, "body")
			}
		}), on(ctx))
		done := winner.start(serve)
		synctest.Wait()
		loser := get("/", o.answers(0, "never"))
		answered := loser.start(serve)
		time.Sleep(100 * time.Millisecond)
		leave()
		<-done
		<-answered
		loser.want(t, RoleLocalWaiter, "body")
		get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "body")
	})
}

func TestWaiterCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		g.maxWaiters = 3
		serve := g.Mount(FreshFor(time.Minute))
		winner := get("/", o.answers(time.Second, "body"))
		done := winner.start(serve)
		synctest.Wait()
		var waiting []*visit
		var answered []<-chan struct{}
		for range 3 {
			v := get("/", o.answers(0, "never"))
			waiting, answered = append(waiting, v), append(answered, v.start(serve))
		}
		synctest.Wait()
		if n := g.Stats().Waiting; n != 3 {
			t.Errorf("%d wait, want 3", n)
		}
		over := get("/", o.answers(0, "never")).send(serve)
		over.wantDegraded(t, "too-many-waiters")
		if over.took != 0 {
			t.Errorf("above the cap: degraded after %v, want at once", over.took)
		}
		get("/other", o.answers(0, "other")).send(serve).want(t, RoleWinner, "other") // the cap is on waiting, not on work
		<-done
		for i, v := range waiting {
			<-answered[i]
			v.want(t, RoleLocalWaiter, "body")
		}
		if n := g.Stats().Waiting; n != 0 {
			t.Errorf("%d wait at the end, want 0", n)
		}
	})
}

func TestHungHandlerIsCapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		g := gateOn(t, opens{m})
		serve := g.Mount(FreshFor(time.Minute), LockFor(300*time.Millisecond), HoldFor(time.Second))
		release := make(chan struct{})
		hung := get("/", o.handles(func(ctx context.Context, p *page) {
			<-release
			if ctx.Err() != nil {
				t.Error("the hold cap cancelled a handler that did not ask for it")
			}
			p.write(200, "late")
		}))
		done := hung.start(serve)
		synctest.Wait()

		losers := herd(5, serve, func(int) *visit { return get("/", o.answers(100*time.Millisecond, "next")) })
		winners := 0
		for _, v := range losers {
			if v.took != 1100*time.Millisecond {
				t.Errorf("answered after %v, want the hold cap and the work of the next", v.took)
			}
			if v.out.Role == RoleWinner {
				winners++
				v.want(t, RoleWinner, "next")
			} else {
				v.want(t, RoleLocalWaiter, "next")
			}
		}
		if winners != 1 || o.runs() != 2 || g.Stats().Events["hold-cap"] != 1 {
			t.Errorf("%d elected, %d computations, events %v; want 1, 2, one hold-cap", winners, o.runs(), g.Stats().Events)
		}
		close(release)
		<-done
		hung.want(t, RoleWinner, "late") // its own client gets it
		if hung.out.Stored {
			t.Error("the late response says that it was stored")
		}
		get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "next")
		if n := m.locked(); n != 0 {
			t.Errorf("%d locks are left", n)
		}
	})
}

// A handler that never returns must not keep its key for ever: neither while it hangs nor after.
func TestHoldCapEndsTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute), LockFor(300*time.Millisecond), HoldFor(time.Second))
		release := make(chan struct{})
		hung := get("/", o.handles(func(_ context.Context, p *page) { <-release; p.write(200, "late") }))
		done := hung.start(serve)
		time.Sleep(1500 * time.Millisecond) // past the cap, and nobody waited
		close(release)
		<-done
		get("/", o.answers(0, "new")).send(serve).want(t, RoleWinner, "new")
	})
}

func TestHoldCancels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute), HoldFor(3*time.Second), HoldCancels())
		v := get("/", o.handles(func(ctx context.Context, p *page) {
			<-ctx.Done()
			p.write(200, "half")
		})).send(serve)
		if v.took != 3*time.Second || v.out.Stored {
			t.Errorf("took %v, stored %v; want 3 s and not stored", v.took, v.out.Stored)
		}
		get("/", o.answers(0, "whole")).send(serve).want(t, RoleWinner, "whole")
	})
}

// twoProcesses are two gates on one memory: a fleet on fake time. The first sees it through the spy.
func twoProcesses(t *testing.T, opts ...RouteOption) (a, b host.Middleware, s *spy, gates [2]*Gate) {
	t.Helper()
	m := memoryFor(t)
	s = &spy{backend: m}
	gates = [2]*Gate{gateOn(t, opens{s}), gateOn(t, opens{m})}
	return gates[0].Mount(opts...), gates[1].Mount(opts...), s, gates
}

func TestWatchdogKeepsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		a, b, s, _ := twoProcesses(t, FreshFor(time.Minute), LockFor(300*time.Millisecond))
		winner := get("/", o.answers(3*time.Second, "body")) // ten lock lifetimes
		done := winner.start(a)
		synctest.Wait()
		loser := get("/", o.answers(0, "never"))
		answered := loser.start(b)
		<-done
		<-answered
		winner.want(t, RoleWinner, "body")
		loser.want(t, RoleRemoteWaiter, "body")
		if o.runs() != 1 {
			t.Errorf("%d computations, want 1", o.runs())
		}
		renewals := s.extends.Load()
		if renewals < 28 || renewals > 32 { // every third of the lifetime
			t.Errorf("%d renewals in 3 s, want about 30", renewals)
		}
		time.Sleep(10 * time.Second)
		if more := s.extends.Load(); more != renewals {
			t.Errorf("%d renewals after the work had ended", more-renewals)
		}
	})
}

func TestWatchdogTriesAFailedRenewalAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		a, b, s, _ := twoProcesses(t, FreshFor(time.Minute), LockFor(300*time.Millisecond))
		s.onExtend = func(ctx context.Context, l lease) (tenure, error) {
			if s.extends.Load()%5 != 0 {
				return 0, errors.New("no answer")
			}
			return s.backend.extend(ctx, l)
		}
		winner := get("/", o.answers(3*time.Second, "body"))
		done := winner.start(a)
		synctest.Wait()
		loser := get("/", o.answers(0, "never")).send(b)
		<-done
		loser.want(t, RoleRemoteWaiter, "body")
		if o.runs() != 1 {
			t.Errorf("%d computations, want 1: four failed renewals in a row fit into one lock", o.runs())
		}
	})
}

func TestWatchdogStopsAtNotMine(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(t *testing.T, m *memory, g *Gate)
		event string
		keeps bool // the claim: what was computed is stored
	}{
		"lock lost": {func(_ *testing.T, m *memory, _ *Gate) { m.dropLocks() }, "lock-lost", true},
		"invalidated": {func(t *testing.T, _ *memory, g *Gate) {
			if err := g.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
				t.Error(err)
			}
		}, "invalidated", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				m := memoryFor(t)
				s := &spy{backend: m}
				g, other := gateOn(t, opens{s}), gateOn(t, opens{m})
				serve := g.Mount(FreshFor(time.Minute), LockFor(300*time.Millisecond))
				other.Mount() // knows the recipe
				v := get("/", o.answers(3*time.Second, "body"))
				done := v.start(serve)
				time.Sleep(350 * time.Millisecond)
				c.lose(t, m, other)
				was := s.extends.Load()
				time.Sleep(2 * time.Second)
				if n := s.extends.Load() - was; n != 1 {
					t.Errorf("%d renewals after the lock had gone, want the one that found out", n)
				}
				if n := m.locked(); n != 0 {
					t.Errorf("%d locks: the watchdog has made one", n)
				}
				if g.Stats().Events[c.event] != 1 {
					t.Errorf("events %v, want one %s", g.Stats().Events, c.event)
				}
				<-done
				if v.want(t, RoleWinner, "body"); v.out.Stored != c.keeps {
					t.Errorf("stored %v, want %v", v.out.Stored, c.keeps)
				}
			})
		})
	}
}

func TestWatchdogStopsAtTheHoldCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		a, b, s, gates := twoProcesses(t, FreshFor(time.Minute), LockFor(300*time.Millisecond), HoldFor(time.Second))
		release := make(chan struct{})
		hung := get("/", o.handles(func(_ context.Context, p *page) { <-release; p.write(200, "late") }))
		done := hung.start(a)
		synctest.Wait()
		v := get("/", o.answers(0, "next")).send(b)
		v.want(t, RoleWinner, "next")
		if v.took < time.Second || v.took > 1250*time.Millisecond {
			t.Errorf("elected after %v, want the hold cap and a poll", v.took)
		}
		was := s.extends.Load()
		time.Sleep(5 * time.Second)
		if n := s.extends.Load() - was; n != 0 {
			t.Errorf("%d renewals after the hold cap", n)
		}
		if gates[0].Stats().Events["hold-cap"] != 1 {
			t.Errorf("events %v, want one hold-cap", gates[0].Stats().Events)
		}
		close(release)
		<-done
		get("/", o.answers(0, "never")).send(b).want(t, RoleHit, "next")
	})
}

// A holder whose process died: another one takes over when the lock has run out.
func TestTakeover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		a, b, s, gates := twoProcesses(t, FreshFor(time.Minute), LockFor(500*time.Millisecond))
		s.onExtend = func(context.Context, lease) (tenure, error) { return 0, errors.New("dead") }
		dead := get("/", o.answers(4*time.Second, "old"))
		done := dead.start(a)
		synctest.Wait()
		v := get("/", o.answers(100*time.Millisecond, "new")).send(b)
		v.want(t, RoleWinner, "new")
		if v.out.Cause != "takeover" || v.took > 900*time.Millisecond {
			t.Errorf("cause %s after %v, want takeover within the lock's 500 ms + 300 ms + the work", v.out.Cause, v.took)
		}
		<-done
		synctest.Wait()
		dead.want(t, RoleWinner, "old") // its client gets it; nobody else
		if dead.out.Stored || gates[0].Stats().Events["dropped"] != 1 {
			t.Errorf("stored %v, events %v; want not stored, one dropped", dead.out.Stored, gates[0].Stats().Events)
		}
		get("/", o.answers(0, "never")).send(a).want(t, RoleHit, "new")
	})
}

func TestFailingSourceWithoutCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		fails := o.handles(func(_ context.Context, p *page) { p.write(500, "broken") })
		for i := range 3 { // no back-off before the third failure in a row
			if v := get("/", fails).send(serve); v.status != 500 || v.out.Role != RoleWinner {
				t.Fatalf("failure %d: %d as %s, want the handler's own 500", i+1, v.status, v.out.Role)
			}
		}
		v := get("/", fails).send(serve)
		v.wantDegraded(t, "failing")
		if v.took != 0 {
			t.Errorf("a request to a failing key waited %v", v.took)
		}
		time.Sleep(time.Second) // the pause is at most that
		get("/", o.answers(0, "well")).send(serve).want(t, RoleWinner, "well")
		if o.runs() != 4 {
			t.Errorf("%d computations, want 4", o.runs())
		}
	})
}

// Those who waited when a computation failed sit the back-off out inside their own wait.
func TestWaitersSitTheBackoffOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		visits := herd(40, serve, func(int) *visit {
			return get("/", o.handles(func(_ context.Context, p *page) {
				pause(100 * time.Millisecond)
				p.write(500, "broken")
			}))
		})
		failed := 0
		for _, v := range visits {
			switch {
			case v.took > 5*time.Second+100*time.Millisecond:
				t.Errorf("a visit took %v, want at most WaitFor and the work", v.took)
			case v.out.Role == RoleWinner:
				failed++
			default:
				v.wantDegraded(t, "wait")
			}
		}
		// At 0, 100, 200, then after pauses of at least 3/4 of 250, 500, 1000, 1000, ... ms.
		if failed < 5 || failed > 10 || int64(failed) != o.runs() {
			t.Errorf("%d of 40 computed (%d runs) in 5 s, want 5 to 10: a few, with pauses in between", failed, o.runs())
		}
	})
}

func TestFailingSourceWithCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Second), StaleFor(0), StaleIfError(time.Hour))
		get("/", o.answers(0, "good")).send(serve).want(t, RoleWinner, "good")
		time.Sleep(time.Second)
		for range 1000 { // ten seconds
			v := get("/", o.handles(func(_ context.Context, p *page) { p.write(500, "broken") })).send(serve)
			v.want(t, RoleStale, "good")
			if v.took != 0 {
				t.Fatalf("a stale copy after %v, want at once", v.took)
			}
			time.Sleep(10 * time.Millisecond)
		}
		// Pauses of 250 ms doubling, each jittered down by up to a quarter: 7 of them reach beyond 10 s.
		if n := o.runs() - 1; n < 4 || n > 7 {
			t.Errorf("%d computations of a failing key in 10 s, want 4 to 7", n)
		}
		time.Sleep(30 * time.Second)
		get("/", o.answers(0, "well")).send(serve).want(t, RoleWinner, "well")
		time.Sleep(time.Second)
		was := o.runs()
		for range 2 { // the success has reset the count: 250 ms again
			get("/", o.handles(func(_ context.Context, p *page) { p.write(502, "broken") })).send(serve).want(t, RoleStale, "well")
			time.Sleep(250 * time.Millisecond)
		}
		if n := o.runs() - was; n != 2 {
			t.Errorf("%d computations, want 2", n)
		}
	})
}

func TestUncacheableIsNotOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		one := func(i int) *visit {
			body := fmt.Sprint("for ", i)
			return get("/", o.handles(func(_ context.Context, p *page) {
				pause(100 * time.Millisecond)
				p.header.Set("Cache-Control", "no-store")
				p.write(200, body)
			}))
		}
		for round, want := range []time.Duration{200 * time.Millisecond, 100 * time.Millisecond} { // then the mark is known
			was := o.runs()
			for i, v := range herd(61, serve, one) {
				if v.took > want {
					t.Errorf("round %d: a visit took %v, want at most %v", round, v.took, want)
				}
				if v.status != 200 || v.body != fmt.Sprint("for ", i) {
					t.Errorf("visit %d got %d %q", i, v.status, v.body)
				}
			}
			if n := o.runs() - was; n != 61 {
				t.Errorf("round %d: %d computations, want one each", round, n)
			}
		}
	})
}

// A key that has become cacheable is stored by one of those who run in parallel.
func TestUncacheableHeals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		get("/", o.handles(func(_ context.Context, p *page) {
			p.header.Set("Cache-Control", "no-store")
			p.write(200, "no")
		})).send(serve).want(t, RoleWinner, "no")
		herd(5, serve, func(int) *visit { return get("/", o.answers(10*time.Millisecond, "yes")) })
		get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "yes")
	})
}

func TestPersonalReelectsOneAnonymous(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		mine := get("/", o.answers(100*time.Millisecond, "for alice"), with("Cookie", "user=alice"))
		done := mine.start(serve)
		synctest.Wait()
		other := get("/", o.answers(100*time.Millisecond, "for bob"), with("Cookie", "user=bob")).start(serve)
		visits := herd(20, serve, func(int) *visit { return get("/", o.answers(100*time.Millisecond, "for everybody")) })
		<-done
		<-other
		if mine.body != "for alice" || mine.out.Stored {
			t.Errorf("the request with credentials got %q, stored %v", mine.body, mine.out.Stored)
		}
		winners := 0
		for _, v := range visits {
			if v.body != "for everybody" {
				t.Errorf("an anonymous request got %q", v.body)
			}
			if v.out.Role == RoleWinner {
				winners++
			}
		}
		if winners != 1 || o.runs() != 3 {
			t.Errorf("%d anonymous winners, %d computations; want 1 and 3", winners, o.runs())
		}
		get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "for everybody")
		v := get("/", o.answers(0, "for carol"), with("Cookie", "user=carol")).send(serve)
		if v.body != "for carol" {
			t.Errorf("a request with credentials got %q", v.body)
		}
	})
}

// The client of the seat that is elected leaves at that very moment: the next one must get the grant.
func TestElectedSeatLeaves(t *testing.T) {
	for round := range 200 {
		bubble(t, func(t *testing.T) {
			var o origin
			m := memoryFor(t)
			s := &spy{backend: m}
			g := gateOn(t, opens{s})
			serve := g.Mount(FreshFor(time.Minute))
			ctx, leave := context.WithCancel(t.Context())
			gate := make(chan struct{})
			s.onAcquire = func(ctx context.Context, q query) (answer, error) {
				<-gate
				a, err := m.acquire(ctx, q)
				leave()
				return a, err
			}
			first := get("/", o.answers(10*time.Millisecond, "body"), on(ctx)).start(serve)
			synctest.Wait()
			second := get("/", o.answers(10*time.Millisecond, "body"))
			answered := second.start(serve)
			synctest.Wait()
			close(gate)
			<-first
			<-answered
			if second.body != "body" || second.took > 20*time.Millisecond {
				t.Fatalf("round %d: the next in line got %d %q after %v as %s", round, second.status, second.body, second.took, second.out.Role)
			}
			if n := m.locked(); n != 0 {
				t.Fatalf("round %d: %d locks are left", round, n)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// The same without chance: the seat has been told that it is elected when it leaves.
func TestLeavingSeatLearnsThatItWasElected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memoryFor(t)
		g := gateOn(t, opens{m})
		cfg, err := configure([]RouteOption{FreshFor(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		mw := &middleware{gate: g, cfg: cfg}
		seats := []*seat{}
		var f *flight
		for range 2 {
			s := &seat{patient: true, deadline: time.Now().Add(time.Minute), tidings: make(chan tidings, 1)}
			seats = append(seats, s)
			f = g.board(&flight{m: mw, place: testPlace("x")}, s)
		}
		synctest.Wait()
		told, ok := f.leave(seats[0])
		if !ok || told.kind != tidingsElected {
			t.Fatalf("the elected seat was told %+v %v when it left", told, ok)
		}
		told.grant.report(completion{result: resultGaveUp})
		synctest.Wait()
		next, ok := f.leave(seats[1])
		if !ok || next.kind != tidingsElected || next.grant.token == told.grant.token {
			t.Fatalf("the next seat was told %+v %v, want a grant of its own", next, ok)
		}
		next.grant.report(completion{result: resultGaveUp})
		synctest.Wait()
		if n := m.locked(); n != 0 || g.Stats().Flights != 0 {
			t.Errorf("%d locks and %d flights are left", n, g.Stats().Flights)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Minute))
		release := make(chan struct{})
		v := get("/", o.handles(func(_ context.Context, p *page) { <-release; p.write(200, "body") }))
		done := v.start(serve)
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Close with work in progress: %v after %v, want a deadline error after 1 s", err, time.Since(start))
		}
		other := get("/", o.answers(0, "straight")).send(serve)
		if other.body != "straight" || other.out.Detail != "closed" {
			t.Errorf("after Close: %q, %s %s", other.body, other.out.Role, other.out.Detail)
		}
		close(release)
		<-done
		if v.body != "body" {
			t.Errorf("the client of the work in progress got %d %q", v.status, v.body)
		}
	})
}

// Who comes while the gate closes is passed through, and not for its credentials: it has none.
func TestCloseDuringTheLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &spy{backend: memoryFor(t)}
		g := gateOn(t, opens{s})
		serve := g.Mount(FreshFor(time.Minute))
		s.onRead = func(ctx context.Context, loc string) (stored, error) {
			if err := g.Close(ctx); err != nil {
				t.Error(err)
			}
			return s.backend.read(ctx, loc)
		}
		var o origin
		if v := get("/", o.answers(0, "body")).send(serve); v.body != "body" || v.out.Role != RoleBypass || v.out.Detail != "closed" {
			t.Errorf("%q as %s %s, want a bypass because the gate is closed", v.body, v.out.Role, v.out.Detail)
		}
	})
}

func TestCloseFinishesWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		a, b := gateOn(t, opens{m}), gateOn(t, opens{m})
		serve := a.Mount(FreshFor(time.Minute))
		v := get("/", o.answers(time.Second, "body"))
		done := v.start(serve)
		synctest.Wait()
		waits := get("/", o.answers(0, "never"))
		answered := waits.start(serve)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := a.Close(ctx); err != nil || time.Since(start) != time.Second {
			t.Errorf("Close: %v after %v, want nil when the work has ended", err, time.Since(start))
		}
		<-done
		<-answered
		waits.want(t, RoleLocalWaiter, "body")
		if n := m.locked(); n != 0 {
			t.Errorf("%d locks are left", n)
		}
		get("/", o.answers(0, "never")).send(b.Mount(FreshFor(time.Minute))).want(t, RoleHit, "body")
	})
}

// Close waits for a refresh in the background that is under way, which is stored, and no longer than it is told to.
func TestCloseWithARefresh(t *testing.T) {
	for name, patience := range map[string]time.Duration{"that ends": time.Minute, "that does not": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				m := memoryFor(t)
				a, b := gateOn(t, opens{m}), gateOn(t, opens{m})
				serve := a.Mount(FreshFor(time.Second), StaleFor(time.Minute))
				get("/", o.answers(0, "old")).send(serve)
				time.Sleep(2 * time.Second)
				get("/", o.answers(time.Second, "new"), func(v *visit) { v.app = serve }).send(serve).want(t, RoleStale, "old")
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				start := time.Now()
				err := a.Close(ctx)
				if took, ends := time.Since(start), patience > time.Second; took != min(patience, time.Second) || (err == nil) != ends {
					t.Errorf("Close: %v after %v", err, took)
				}
				time.Sleep(time.Second - min(patience, time.Second)) // now it ends
				synctest.Wait()
				if n := m.locked(); n != 0 {
					t.Errorf("%d locks are left", n)
				}
				get("/", o.answers(0, "never")).send(b.Mount(FreshFor(time.Second), StaleFor(time.Minute))).want(t, RoleHit, "new")
			})
		})
	}
}

// An unanswered finish is tried again although the gate is being closed: the lock must go.
func TestCloseGivesLocksBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		s := &spy{backend: m}
		s.onFinish = func(ctx context.Context, l lease, c completion) (verdict, error) {
			if s.finishes.Load() == 1 {
				return 0, errors.New("no answer")
			}
			return m.finish(ctx, l, c)
		}
		g := gateOn(t, opens{s})
		done := get("/", o.answers(time.Second, "body")).start(g.Mount(FreshFor(time.Minute)))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
		<-done
		if n := m.locked(); n != 0 {
			t.Errorf("%d locks are left after Close", n)
		}
	})
}

func TestStaleIsRefreshedOnceInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		g := gateOn(t, Memory(8<<20))
		serve := g.Mount(FreshFor(time.Second))
		refreshable := func(v *visit) { v.app = serve }
		get("/", o.answers(0, "old")).send(serve)
		time.Sleep(1200 * time.Millisecond)
		for _, v := range herd(50, serve, func(int) *visit { return get("/", o.answers(100*time.Millisecond, "new"), refreshable) }) {
			v.want(t, RoleStale, "old")
			if v.took != 0 {
				t.Errorf("a stale copy after %v, want at once", v.took)
			}
		}
		time.Sleep(200 * time.Millisecond)
		get("/", o.answers(0, "never"), refreshable).send(serve).want(t, RoleHit, "new")
		if o.runs() != 2 {
			t.Errorf("%d computations, want 2", o.runs())
		}
	})
}

// While another process refreshes, this one asks now and then, not for each request.
func TestRefreshElsewhereIsAskedForRarely(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		asks, refreshes, s, _ := twoProcesses(t, FreshFor(time.Second), StaleFor(time.Minute))
		get("/", o.answers(0, "old")).send(asks)
		time.Sleep(1200 * time.Millisecond)
		get("/", o.answers(time.Second, "new"), func(v *visit) { v.app = refreshes }).send(refreshes).want(t, RoleStale, "old")
		synctest.Wait()
		s.acquires.Store(0)
		for range 450 {
			get("/", o.answers(0, "never"), func(v *visit) { v.app = asks }).send(asks).want(t, RoleStale, "old")
			time.Sleep(2 * time.Millisecond)
		}
		if n := s.acquires.Load(); n < 2 || n > 50 {
			t.Errorf("the lock was asked for %d times in 900 ms, want once per 20 to 50 ms", n)
		}
		time.Sleep(time.Second)
		get("/", o.answers(0, "never")).send(asks).want(t, RoleHit, "new")
		if o.runs() != 2 {
			t.Errorf("%d computations, want 2", o.runs())
		}
	})
}

func TestRefreshPoolFullDrops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		g := gateOn(t, opens{m})
		g.refreshes = make(chan struct{}, 1)
		serve := g.Mount(FreshFor(time.Second), StaleFor(time.Minute))
		refreshable := func(v *visit) { v.app = serve }
		for _, target := range []string{"/a", "/b"} {
			get(target, o.answers(0, "old")).send(serve)
		}
		time.Sleep(2 * time.Second)
		get("/a", o.answers(time.Second, "new"), refreshable).send(serve).want(t, RoleStale, "old")
		synctest.Wait()
		get("/b", o.answers(time.Second, "new"), refreshable).send(serve).want(t, RoleStale, "old")
		synctest.Wait()
		if n := g.Stats().Events["refresh-dropped"]; n != 1 || m.locked() != 1 {
			t.Errorf("%d dropped, %d locks; want 1 and 1 (that of the refresh that runs)", n, m.locked())
		}
		time.Sleep(1500 * time.Millisecond)
		get("/a", o.answers(0, "never")).send(serve).want(t, RoleHit, "new")
		get("/b", o.answers(0, "newer"), refreshable).send(serve).want(t, RoleStale, "old") // tries again
		synctest.Wait()
		get("/b", o.answers(0, "never")).send(serve).want(t, RoleHit, "newer")
	})
}

func TestRefreshThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		g := gateOn(t, opens{m})
		serve := g.Mount(FreshFor(time.Second), StaleFor(time.Minute))
		get("/", o.answers(0, "old")).send(serve)
		time.Sleep(2 * time.Second)
		get("/", o.handles(func(context.Context, *page) { panic("oops") }), func(v *visit) { v.app = serve }).send(serve).want(t, RoleStale, "old")
		synctest.Wait()
		if g.Stats().Events["refresh-panic"] != 1 || m.locked() != 0 {
			t.Errorf("events %v, %d locks; want one refresh-panic and no lock", g.Stats().Events, m.locked())
		}
	})
}

// A frozen request that outer middleware keeps from us: the next refreshes are in the foreground.
func TestRefreshThatDoesNotArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		m := memoryFor(t)
		g := gateOn(t, opens{m})
		serve := g.Mount(FreshFor(time.Second), StaleFor(time.Minute))
		swallowed := func(v *visit) { v.app = func(host.Exchange) {} }
		get("/", o.answers(0, "old")).send(serve)
		time.Sleep(2 * time.Second)
		get("/", o.answers(0, "new"), swallowed).send(serve).want(t, RoleStale, "old")
		synctest.Wait()
		if g.Stats().Events["refresh-lost"] != 1 || m.locked() != 0 {
			t.Errorf("events %v, %d locks; want one refresh-lost and no lock", g.Stats().Events, m.locked())
		}
		get("/", o.answers(0, "new"), swallowed).send(serve).want(t, RoleWinner, "new")
		get("/", o.answers(0, "never")).send(serve).want(t, RoleHit, "new")
	})
}

func TestWinnerThatDoesNotReturn(t *testing.T) {
	abort := any("the value that the framework's recovery must see")
	for name, end := range map[string]func(p *page){
		"panic before writing": func(*page) { panic(abort) },
		"panic after writing":  func(p *page) { p.write(200, "half"); panic(abort) },
		"panic after a flush":  func(p *page) { p.write(200, "half"); p.flush(); panic(abort) },
		"Goexit":               func(p *page) { p.write(200, "half"); runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				m := memoryFor(t)
				g := gateOn(t, opens{m})
				serve := g.Mount(FreshFor(time.Minute))
				first := get("/", o.handles(func(_ context.Context, p *page) {
					pause(100 * time.Millisecond)
					end(p)
				}))
				done := first.start(serve)
				synctest.Wait()
				second := get("/", o.answers(100*time.Millisecond, "body"))
				answered := second.start(serve)
				<-done
				<-answered
				if panics := strings.HasPrefix(name, "panic"); panics && first.panics != abort || !panics && !first.gone {
					t.Errorf("the framework saw panic %v, Goexit %v", first.panics, first.gone)
				}
				if first.out.Role != RoleWinner || first.out.Detail != "panic" {
					t.Errorf("outcome %s %q, want winner panic", first.out.Role, first.out.Detail)
				}
				if second.body != "body" || second.took != 200*time.Millisecond {
					t.Errorf("who waited got %q after %v, want to be elected at once", second.body, second.took)
				}
				if n := m.locked(); n != 0 {
					t.Errorf("%d locks are left", n)
				}
			})
		})
	}
}

func TestInvalidateDuringTheComputation(t *testing.T) {
	for _, where := range []string{"by this process", "by another process"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var version atomic.Value
				version.Store("old")
				reads := func(_ context.Context, p *page) {
					v := version.Load().(string) // the source is read first, the work comes after
					pause(time.Second)
					p.write(200, v)
				}
				var o origin
				a, b, _, gates := twoProcesses(t, FreshFor(time.Minute))
				first := get("/", o.handles(reads))
				done := first.start(a)
				synctest.Wait()
				before := get("/", o.handles(reads))
				beforeDone := before.start(a)
				remote := get("/", o.handles(reads))
				remoteDone := remote.start(b)
				time.Sleep(500 * time.Millisecond)

				version.Store("new")
				by := gates[0]
				if where == "by another process" {
					by = gates[1]
				}
				if err := by.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
					t.Fatal(err)
				}
				later := herd(10, a, func(int) *visit { return get("/", o.handles(reads)) })
				later = append(later, herd(10, b, func(int) *visit { return get("/", o.handles(reads)) })...)
				for _, v := range later {
					if v.body != "new" {
						t.Errorf("who came after Invalidate got %q as %s", v.body, v.out.Role)
					}
				}
				<-done
				<-beforeDone
				<-remoteDone
				if first.body != "old" || first.out.Stored {
					t.Errorf("the winner's own client got %q, stored %v; want its own response, not stored", first.body, first.out.Stored)
				}
				for _, v := range []*visit{before, remote} {
					if v.status != 200 {
						t.Errorf("who waited got %d as %s", v.status, v.out.Role)
					}
				}
				get("/", o.handles(reads)).send(a).want(t, RoleHit, "new")
				if o.runs() != 2 {
					t.Errorf("%d computations, want 2", o.runs())
				}
			})
		})
	}
}

// While the backend takes its time over finish, those who came after an invalidation elsewhere must not be
// given what began before it.
func TestInvalidateWhileFinishIsSlow(t *testing.T) {
	for name, slow := range map[string]struct {
		before bool // it is slow to be executed, not to be answered
		by     time.Duration
		lost   bool
	}{
		"request under way for 70 ms": {true, 70 * time.Millisecond, false},
		"no answer within 2 s":        {true, 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				a, _, s, gates := twoProcesses(t, FreshFor(time.Minute), LockFor(10*time.Second))
				s.onFinish = func(ctx context.Context, l lease, c completion) (verdict, error) {
					if !sleep(ctx, slow.by) {
						return 0, ctx.Err()
					}
					return s.backend.finish(ctx, l, c)
				}
				first := get("/", o.answers(time.Second, "old")).start(a)
				time.Sleep(500 * time.Millisecond)
				if err := gates[1].Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
					t.Fatal(err)
				}
				later := get("/", o.answers(0, "new")).send(a)
				if later.body == "old" {
					t.Errorf("who came after Invalidate got %q as %s after %v", later.body, later.out.Role, later.took)
				}
				<-first
			})
		})
	}
}
