package core

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/redistest"
)

// Two thousand hot keys, Redis away and back again, empty: from the moment that all breakers are closed and what was computed
// without a lock has ended, each key costs one computation in the whole fleet, and the origin has no more to do at a time than
// there are clients.
func TestRecoveryWithoutAHerd(t *testing.T) {
	const keys, clients = 2000, 64
	server := redistest.Start(t)
	ns := unique("recovery")
	procs := []process{processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)}
	var (
		counting  atomic.Bool
		now, most atomic.Int64
		runs      [keys]atomic.Int64
	)
	handler := func(key int) func(context.Context, *page) {
		return func(_ context.Context, p *page) {
			counted := counting.Load()
			if n := now.Add(1); counted {
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
			}
			defer now.Add(-1)
			if counted {
				runs[key].Add(1)
			}
			pause(2 * time.Millisecond)
			p.write(200, fmt.Sprintf("body %d", key))
		}
	}
	round := func() {
		var next atomic.Int64
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				for {
					n := int(next.Add(1)) - 1
					if n >= keys*len(procs) {
						return
					}
					key := n / len(procs)
					v := get(fmt.Sprintf("/%d", key), handler(key)).send(procs[(n+i)%len(procs)].serve)
					if v.status != 200 || v.body != fmt.Sprintf("body %d", key) {
						t.Errorf("key %d: %d %q as %s %s", key, v.status, v.body, v.out.Role, v.out.Detail)
					}
				}
			})
		}
		wg.Wait()
	}
	round()
	server.Kill()
	round()
	server.Restart()
	closed := func() bool {
		for i, p := range procs {
			get(fmt.Sprintf("/probe-%d", i), handler(0)).send(p.serve)
			if p.state("reads") != "closed" || p.state("locks") != "closed" || p.state("stores") == "open" {
				return false
			}
		}
		return true
	}
	eventually(t, closed)
	late := untimely(procs...)
	counting.Store(true)
	round()
	round()
	extra := 0
	for key := range runs {
		if n := runs[key].Load(); n == 0 {
			t.Errorf("key %d was not computed: Redis was not empty", key)
		} else {
			extra += int(n) - 1
		}
	}
	late = untimely(procs...) - late
	if extra > 2*int(late) {
		t.Errorf("%d computations too many, Redis was too slow %d times", extra, late)
	}
	if n := most.Load(); n > clients {
		t.Errorf("%d computations at a time, of %d clients", n, clients)
	}
	t.Logf("%d keys, %d computations too many (Redis too slow %d times), at most %d at a time", keys, extra, late, most.Load())
}
