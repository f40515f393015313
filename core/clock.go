package core

import (
	"sync/atomic"
	"time"
)

// fleetClock tells Redis time without asking Redis: it keeps the offset between
// Redis time and this process's monotonic clock. A host whose wall clock is wrong
// therefore neither serves too long nor recomputes every hit.
type fleetClock struct {
	start  time.Time // carries a monotonic reading
	offset atomic.Int64
	known  atomic.Bool
}

func newFleetClock() *fleetClock { return &fleetClock{start: time.Now()} }

// observe takes a time in µs that a reply carried, at the moment the reply came in. What the reply took to come makes
// the offset too small, so of those that differ by no more than that the largest is the best. A larger difference is a
// clock that was set, or another server.
func (c *fleetClock) observe(micros int64) {
	offset := micros - time.Since(c.start).Microseconds()
	if old := c.offset.Load(); c.known.Load() && offset < old && old-offset < readBudget.Microseconds() {
		return
	}
	c.offset.Store(offset)
	c.known.Store(true)
}

// now returns the fleet time in µs, and false if none has been observed yet.
func (c *fleetClock) now() (int64, bool) {
	return c.offset.Load() + time.Since(c.start).Microseconds(), c.known.Load()
}
