package core

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What was computed without a lock may be older than an invalidation elsewhere, of which this process could not hear. Who came when
// it had begun gets it only if there is still no lock to be had.
func TestInvalidateElsewhereDuringAComputationWithoutALock(t *testing.T) {
	for name, c := range map[string]struct {
		recovers bool
		body     string
		role     Role
		took     time.Duration
		runs     int64
	}{
		"Redis answers again":    {true, "new", RoleWinner, 790 * time.Millisecond, 2},
		"it does not answer yet": {false, "old", RoleLocalWaiter, 690*time.Millisecond + finishBudget, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o origin
				a, _, s, gates := twoProcesses(t, FreshFor(time.Minute))
				var up atomic.Bool
				s.onAcquire = func(ctx context.Context, q query) (answer, error) {
					if !up.Load() {
						<-ctx.Done()
						return answer{}, ctx.Err()
					}
					return s.backend.acquire(ctx, q)
				}
				first := get("/", o.answers(time.Second, "old"))
				done := first.start(a)
				time.Sleep(5 * time.Millisecond)
				before := get("/", o.answers(0, "never")) // there is nothing that it could be older than
				answered := before.start(a)
				time.Sleep(505 * time.Millisecond)

				up.Store(c.recovers)
				if c.recovers {
					if err := gates[1].Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
						t.Fatal(err)
					}
				}
				later := get("/", o.answers(100*time.Millisecond, "new"))
				laterDone := later.start(a)
				<-done
				pause(75 * time.Millisecond)
				next := get("/", o.answers(0, "next")).send(a) // while it computes
				<-laterDone
				if later.body != c.body || later.out.Role != c.role || later.took != c.took {
					t.Errorf("who came later got %q as %s after %v, want %q as %s after %v", later.body, later.out.Role, later.took, c.body, c.role, c.took)
				}
				<-answered
				first.want(t, RoleWinner, "old")
				if c.recovers {
					next.want(t, RoleLocalWaiter, "new")
				} else {
					next.want(t, RoleWinner, "next")
				}
				before.want(t, RoleLocalWaiter, "old")
				if before.took != lookBudget+995*time.Millisecond {
					t.Errorf("who came before it began waited %v, want until it ended", before.took)
				}
				synctest.Wait()
				if o.runs() != c.runs || gates[0].Stats().Flights != 0 {
					t.Errorf("%d computations, %d flights left; want %d and none", o.runs(), gates[0].Stats().Flights, c.runs)
				}
			})
		})
	}
}

// The lock is to be had again, and what somebody stored since cannot be read: that is no reason to give what may be older than it to
// who came meanwhile.
func TestUnreadableAfterAComputationWithoutALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		a, b, s, gates := twoProcesses(t, FreshFor(time.Minute))
		var locks atomic.Bool
		s.onAcquire = func(ctx context.Context, q query) (answer, error) {
			if !locks.Load() {
				return answer{}, errNotAsked
			}
			return s.backend.acquire(ctx, q)
		}
		s.onRead = func(context.Context, string) (stored, error) { return stored{}, errNotAsked }
		first := get("/", o.answers(time.Second, "old"))
		done := first.start(a)
		pause(500 * time.Millisecond)

		locks.Store(true)
		if err := gates[1].Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
			t.Fatal(err)
		}
		get("/", o.answers(0, "new")).send(b).want(t, RoleWinner, "new")
		get("/", o.answers(0, "new")).send(a).want(t, RoleWinner, "new")
		<-done
		first.want(t, RoleWinner, "old")
	})
}
