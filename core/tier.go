package core

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// MemoryTier keeps copies of fresh responses in this process, in front of Redis: a hit then costs no round trip. bytes bounds
// the copies together, at least 64 KiB; the least valuable go first, and what is asked for once does not
// push out what is asked for often (W-TinyLFU). Off by default.
//
// A copy is used for at most maxAge, 1 s if it is zero. So long an Invalidate in another process may go unseen if its
// announcement gets lost; otherwise copies go with it at once, as they do with an Invalidate in this process. With a Sentinel or Cluster
// as with one node. Not for Memory, which is in this process already.
//
// While Redis does not answer (the breaker of its reads is open), the copies stand in for it: whatever their age, for as long
// as they are fresh or within the route's stale windows (RFC 9111 4.2.4: disconnected). What this process computes meanwhile
// is kept here too. An Invalidate in a process that still reaches Redis is then seen when this one does.
func MemoryTier(bytes int64, maxAge time.Duration) GateOption {
	return func(g *Gate) error {
		switch {
		case bytes < 64<<10:
			return fmt.Errorf("herdgate: MemoryTier(%d): give it at least 64 KiB (64<<20 is a good start), or leave it out", bytes)
		case maxAge < 0:
			return fmt.Errorf("herdgate: MemoryTier: maxAge %v: use a positive duration, or 0 for 1 s", maxAge)
		case maxAge == 0:
			maxAge = time.Second
		}
		g.tier = newTier(bytes, maxAge)
		return nil
	}
}

var errTierOfMemory = errors.New("herdgate: MemoryTier is for core.Redis: core.Memory answers from memory already")

// tierShards is how finely invalidations are told apart. Two keys of one shard lose their copies together.
const tierShards = 1 << 12

// tier keeps copies of what was read. It deletes nothing: a copy counts if its read began after the last
// invalidation in its shard. That also holds for a read that was under way when the invalidation came. A nil tier keeps nothing.
type tier struct {
	listen  func() // makes announcements of invalidations come in
	maxAge  time.Duration
	start   time.Time
	copies  *otter.Cache[string, tierCopy] // by location
	seed    maphash.Seed
	flushed atomic.Int64             // ns since start: what was read earlier does not count
	gone    [tierShards]atomic.Int64 // likewise
}

type tierCopy struct {
	stored
	read int64 // ns since start at which its read began
}

func newTier(bytes int64, maxAge time.Duration) *tier {
	t := &tier{listen: func() {}, maxAge: maxAge, start: time.Now(), seed: maphash.MakeSeed()}
	t.copies = otter.Must(&otter.Options[string, tierCopy]{
		MaximumWeight: uint64(bytes),
		Executor:      inline,
		Weigher: func(loc string, c tierCopy) uint32 {
			return uint32(min(c.size+len(loc)+entryOverhead, math.MaxUint32))
		},
	})
	return t
}

// copyAt returns the copy of what is at a place, if there is a fresh one. now is the fleet's time.
func (t *tier) copyAt(p place, now func() int64) (stored, bool) {
	if t == nil {
		return stored{}, false
	}
	c, ok := t.copies.GetIfPresent(p.loc())
	ok = ok && t.counts(c, p.base, int64(time.Since(t.start))) && c.entry.FreshAt(now()) > 0
	return c.stored, ok
}

// lastCopy returns the copy of what is at a place, however old, unless it was invalidated. It stands in for a Redis that is not asked.
func (t *tier) lastCopy(p place) stored {
	if t == nil {
		return stored{}
	}
	if c, ok := t.copies.GetIfPresent(p.loc()); ok && t.stands(c, p.base) {
		return c.stored
	}
	return stored{}
}

// listens makes sure that invalidations are heard of. It comes before a read whose result is to be kept.
func (t *tier) listens() {
	if t != nil {
		t.listen()
	}
}

// keep takes a copy of what a read that began at a given time brought, unless there is that of a later one.
func (t *tier) keep(loc string, got stored, began time.Time, now func() int64) {
	if t == nil || got.entry == nil || got.entry.FreshAt(now()) <= 0 {
		return
	}
	c := tierCopy{stored: got, read: int64(began.Sub(t.start))}
	t.copies.Compute(loc, func(there tierCopy, is bool) (tierCopy, otter.ComputeOp) {
		if is && there.read > c.read {
			return there, otter.CancelOp
		}
		return c, otter.WriteOp
	})
}

func (t *tier) counts(c tierCopy, base string, now int64) bool {
	return now-c.read <= int64(t.maxAge) && t.stands(c, base)
}

// stands reports whether a copy was not invalidated.
func (t *tier) stands(c tierCopy, base string) bool {
	return c.read > t.shard(base).Load() && c.read > t.flushed.Load()
}

// drop ends all copies of a key, those that are being read included.
func (t *tier) drop(base string) {
	if t != nil {
		later(t.shard(base), int64(time.Since(t.start)))
	}
}

// flush ends all copies.
func (t *tier) flush() { later(&t.flushed, int64(time.Since(t.start))) }

func (t *tier) shard(base string) *atomic.Int64 {
	return &t.gone[maphash.String(t.seed, base)%tierShards]
}

// later sets a time unless it is later already.
func later(at *atomic.Int64, now int64) {
	for {
		was := at.Load()
		if was >= now || at.CompareAndSwap(was, now) {
			return
		}
	}
}
