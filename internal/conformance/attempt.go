package conformance

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

// attempts is how often a case is tried when the machine was too slow for it.
const attempts = 6

// attempt is one try of a case, and the redistest.TB of what it uses.
//
// A gate gives up on a Redis that does not answer within a tenth of a second, and an overloaded machine cannot
// always answer by then. What a case finds after that is right, and not what it is about. The gates
// say so themselves, so such an attempt does not count. A fault that does not come from the load is in every attempt.
type attempt struct {
	mu       sync.Mutex
	logs     []string
	failed   bool
	cleanups []func()
}

var _ redistest.TB = (*attempt)(nil)

func (a *attempt) Helper() {}

func (a *attempt) Logf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs = append(a.logs, fmt.Sprintf(format, args...))
}

func (a *attempt) Errorf(format string, args ...any) {
	a.Logf(format, args...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Fatal(args ...any) { a.Fatalf("%s", fmt.Sprint(args...)) }

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

// cleanUp does what it was told to do at the end, last things first, each even if the one before failed.
func (a *attempt) cleanUp() {
	if len(a.cleanups) == 0 {
		return
	}
	last := a.cleanups[len(a.cleanups)-1]
	a.cleanups = a.cleanups[:len(a.cleanups)-1]
	defer a.cleanUp()
	last()
}

// runCase runs a case on a backend.
func runCase(t *testing.T, h *Host, c *Case, b backend, ends *sync.WaitGroup) {
	start := time.Now()
	for try := 1; ; try++ {
		var w *world
		a, done := &attempt{}, make(chan struct{})
		go func() {
			defer close(done)
			defer a.cleanUp()
			w = newWorld(a, h, c, b, ends)
			w.run()
		}()
		<-done
		slow := ""
		if w != nil {
			slow = w.slow
		}
		switch {
		case !a.failed:
			return
		case slow != "" && try < attempts && time.Since(start) < 3*patience:
			t.Logf("attempt %d does not count: %s", try, slow)
			<-time.After(time.Duration(try) * 200 * time.Millisecond) // maybe it is quieter then
			continue
		}
		for _, line := range a.logs {
			t.Log(line)
		}
		if slow != "" {
			t.Logf("the machine was too slow in each of %d attempts, in this one: %s", try, slow)
		}
		t.FailNow()
	}
}

// tooSlow returns what the gates gave up because of time although nothing was wrong with Redis, or "".
func (w *world) tooSlow() string {
	dropped := 0
	for _, gate := range w.gates {
		events := gate.Stats().Events
		for _, event := range []string{"no-redis", "lock-lost"} {
			if events[event] > 0 && !slices.Contains(w.excused, event) {
				return event
			}
		}
		dropped += int(events["dropped"] + events["hold-cap"])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outcomes {
		if o.Role == core.RoleWinner && o.Detail == "not-stored" {
			dropped--
		}
	}
	if dropped < 0 && !slices.Contains(w.excused, "not-stored") {
		return "a store was not answered in time"
	}
	return ""
}
