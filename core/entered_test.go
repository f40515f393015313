package core

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// elsewhere is a backend whose locks are always somebody else's. It notes when it was asked to announce their end.
type elsewhere struct {
	*memory
	mu      sync.Mutex
	polls   int
	entered int
	missing int // announcements that did not come
	holder  string
	loc     string
}

func (e *elsewhere) open() (backend, error) { return e, nil }

func (e *elsewhere) acquire(_ context.Context, q query) (answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.polls++
	if e.loc = q.loc(); q.waits {
		e.entered++
	}
	return answer{state: stateHeld, remains: time.Second, holder: e.holder}, nil
}

func (e *elsewhere) missed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing++
}

func (e *elsewhere) passTo(holder string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder = holder
}

// A process enters its inbox once for each lock: again when another has it, after an announcement, and before the others could have
// forgotten it.
func TestInboxIsEnteredOnceForEachLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opened, err := Memory(1 << 20).open()
		if err != nil {
			t.Fatal(err)
		}
		e := &elsewhere{memory: opened.(*memory), holder: "first"}
		var o origin
		g := gateOn(t, e)
		serve := g.Mount(FreshFor(time.Minute), LockFor(3*time.Second), WaitFor(10*time.Second))
		loser := get("/", o.answers(0, "never"))
		done := loser.start(serve)
		want := func(entered int, when string) {
			t.Helper()
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.entered != entered || e.polls < 2*entered-1 {
				t.Errorf("%s: entered %d times in %d polls, want %d", when, e.entered, e.polls, entered)
			}
		}
		want(1, "at first")
		time.Sleep(2 * time.Second)
		want(1, "while the lock is the same")
		e.deliver(e.loc, resultFailed)
		want(2, "after it was announced that the lock ended")
		if e.missing != 0 {
			t.Errorf("%d announcements were missed", e.missing)
		}
		e.passTo("second")
		time.Sleep(pollCeiling + 50*time.Millisecond) // the poll that finds out, and the next
		want(3, "when another has it, and no announcement came")
		if e.missing != 1 {
			t.Errorf("%d announcements were missed, want 1", e.missing)
		}
		time.Sleep(2 * time.Second)
		want(3, "while the next lock is the same")
		time.Sleep(1500 * time.Millisecond)
		want(4, "after as long as a lock lives")
		<-done
		loser.wantDegraded(t, "wait")
	})
}
