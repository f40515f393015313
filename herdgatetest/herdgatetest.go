// Package herdgatetest breaks the backend of a gate on purpose, so that you can prove what your own service does when
// Redis is in trouble:
//
//	backend, faults := herdgatetest.Wrap(core.Memory(64 << 20)) // or core.Redis(...)
//	gate, err := core.New(backend)
//	...
//	faults.Fail(true) // from here on there is no Redis
//
// What must hold under every fault: each response is one that your handler made for that URL, whole; no request waits without
// a bound (WaitFor, and 250 ms for the backend); no error but your handler's own and the documented 503, which has Retry-After; and all is
// well again after faults.Calm(). ExampleFaults is a test of that, to be copied. How often your handler runs is another matter: a lock
// that is lost costs computations, never correctness. Gate.Stats counts them by cause.
//
// With core.Memory tests need no Redis. What goes wrong with locks (LoseLocks, GrantEveryone, DropAnnouncements) shows between processes
// only, because within one the requests for a key share one computation in any case. Two gates are two processes of your fleet: each on a
// core.Redis that is wrapped by itself, on one Redis and with the same namespace.
//
// The faults are made between the gate and the backend. No breaker opens for them, as it would for a Redis that fails or stalls, so each
// request pays what in production only the first few pay.
//
// The package is for tests, and imports no testing package.
package herdgatetest

import (
	"time"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/fault"
)

// Faults are what goes wrong with a backend: nothing at first. Several may be on at a time. It is safe for concurrent use.
type Faults struct{ s fault.Switches }

// Wrap returns the backend with its faults, none of which is on. The backend that it returns is for one gate: call Wrap once for each.
func Wrap(b core.Backend) (core.Backend, *Faults) {
	f := &Faults{}
	return core.Faulty(b, &f.s), f
}

// Fail makes every call fail at once, as when Redis refuses connections. Nothing is read and nothing is stored: each request is computed, requests
// that come at the same time for one key by one of them for all.
func (f *Faults) Fail(on bool) { f.s.Fail.Store(on) }

// Stall makes every call take so much longer; 0 ends it. A call that is late for its budget fails: a request waits 200 ms at most for reading
// and locking together.
func (f *Faults) Stall(d time.Duration) { f.s.Stall.Store(int64(max(0, d))) }

// LoseLocks lets no lock be renewed, as when the process is paused or Redis fails over. A handler that takes longer than LockFor is
// then no longer alone: other processes compute as well. One that is faster notices nothing.
func (f *Faults) LoseLocks(on bool) { f.s.LoseLocks.Store(on) }

// GrantEveryone gives this process the lock whenever it asks, whoever else has it, as if locks excluded nobody; the last one may store.
func (f *Faults) GrantEveryone(on bool) { f.s.GrantEveryone.Store(on) }

// DropAnnouncements loses the news that a lock has ended, as a lost connection does: losers in other processes find out by polling, up to 250 ms late.
func (f *Faults) DropAnnouncements(on bool) { f.s.DropAnnouncements.Store(on) }

// Duplicate makes every call twice, as a client does whose reply was lost. Nothing may change by it.
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
