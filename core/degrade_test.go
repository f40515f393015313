package core

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herdgate/herdgate/internal/route"
)

// Clients that were turned away at one moment do not come back at one moment, and none sooner than makes sense.
func TestRetryAfterIsJittered(t *testing.T) {
	for after, soonest := range map[time.Duration]int{0: 1, 300 * time.Millisecond: 1, time.Second: 1, 4200 * time.Millisecond: 5} {
		told := map[int]bool{}
		for range 200 {
			var retry string
			for _, f := range degraded(&route.Config{}, after, "").Header {
				if f.Name == "Retry-After" {
					retry = f.Value
				}
			}
			seconds, err := strconv.Atoi(retry)
			if err != nil || seconds < soonest || seconds > soonest+2 {
				t.Fatalf("Retry-After: %q when it makes no sense for %v", retry, after)
			}
			told[seconds] = true
		}
		if len(told) < 2 {
			t.Errorf("all are told to come back after the same time: %v", told)
		}
	}
}

// A loser that hears nothing asks again after 20 to 50 ms, at random, and then less and less often, up to 250 ms apart.
func TestPollsGrow(t *testing.T) {
	firsts := map[time.Duration]bool{}
	for range 20 {
		bubble(t, func(t *testing.T) {
			var o origin
			m := memoryFor(t)
			s := &spy{backend: m}
			var asked []time.Time
			s.onAcquire = func(ctx context.Context, q query) (answer, error) {
				asked = append(asked, time.Now())
				return s.backend.acquire(ctx, q)
			}
			a, b := gateOn(t, opens{m}).Mount(FreshFor(time.Minute)), gateOn(t, opens{s}).Mount(FreshFor(time.Minute))
			done := get("/", o.answers(2*time.Second, "body")).start(a)
			synctest.Wait()
			get("/", o.answers(0, "never")).send(b).want(t, RoleRemoteWaiter, "body")
			<-done
			var pauses []time.Duration
			for i := 1; i < len(asked); i++ {
				pauses = append(pauses, asked[i].Sub(asked[i-1]))
			}
			if len(pauses) < 6 {
				t.Fatalf("asked again after %v", pauses)
			}
			firsts[pauses[0]] = true
			// The last may be cut short by the lock that ends.
			if whole := pauses[:len(pauses)-1]; pauses[0] < 20*time.Millisecond || pauses[0] > 50*time.Millisecond || !slices.IsSorted(whole) || slices.Max(whole) != pollCeiling {
				t.Errorf("asked again after %v", pauses)
			}
		})
	}
	if len(firsts) < 10 {
		t.Errorf("losers ask in step: %v", firsts)
	}
}
