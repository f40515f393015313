// Package herdgatetest breaks the backend of a gate on purpose, so that you can prove what your own service does when
// Redis is in trouble:
//
//	backend, faults := herdgatetest.Wrap(core.Memory(64 << 20)) // or core.Redis(...)
//	gate, err := core.New(backend)
//	...
//	faults.Fail(true) // from here on there is no Redis
//
// What must hold under every fault: each response is one that your handler made for that URL, whole; no request waits without
// a bound; no error but your handler's own and the documented 503; and all is well again after faults.Calm(). How often your
// handler runs is another matter: a lock that is lost costs computations, never correctness.
//
// Two gates on two wrapped backends of one Redis are two processes of your fleet. The package is for tests and imports no
// testing package. The faults are made above the Redis client, so no breaker opens for them.
package herdgatetest

import (
	"time"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/fault"
)

// Faults are what goes wrong with a backend: nothing at first. Several may be on at a time. It is safe for concurrent use.
type Faults struct{ s fault.Switches }

// Wrap returns the backend with its faults. A backend serves one gate; wrap each anew.
func Wrap(b core.Backend) (core.Backend, *Faults) {
	f := &Faults{}
	return core.Faulty(b, &f.s), f
}

// Fail makes every call fail at once, as when Redis refuses connections. Handlers run, once per key and process at a time, and
// nothing is stored.
func (f *Faults) Fail(on bool) { f.s.Fail.Store(on) }

// Stall makes every call take so much longer; 0 ends it. A call that is late for its budget fails: a request waits 200 ms at most for reading
// and locking together.
func (f *Faults) Stall(d time.Duration) { f.s.Stall.Store(int64(max(0, d))) }

// LoseLocks lets no lock be renewed, as when the process is paused or Redis fails over: it ends after LockFor, and
// others compute as well.
func (f *Faults) LoseLocks(on bool) { f.s.LoseLocks.Store(on) }

// GrantEveryone gives the lock to whoever asks: the last one may store. For a backend that is wrapped once; holders in other
// processes keep their locks.
func (f *Faults) GrantEveryone(on bool) { f.s.GrantEveryone.Store(on) }

// DropAnnouncements loses the news that a lock has ended: losers find out by polling, up to 250 ms late.
func (f *Faults) DropAnnouncements(on bool) { f.s.DropAnnouncements.Store(on) }

// Duplicate makes every call twice, as a client does whose reply was lost.
func (f *Faults) Duplicate(on bool) { f.s.Duplicate.Store(on) }

// Calm ends all faults.
func (f *Faults) Calm() {
	f.Fail(false)
	f.Stall(0)
	f.LoseLocks(false)
	f.GrantEveryone(false)
	f.DropAnnouncements(false)
	f.Duplicate(false)
}
