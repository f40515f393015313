package core

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/herdgate/herdgate/internal/entry"
)

// Memory keeps responses and locks in this process: the embedded default for development,
// tests and single-instance services. bytes bounds the stored responses together, headers and
// bookkeeping included, at least 64 KiB; the least valuable go first (W-TinyLFU).
func Memory(bytes int64) Backend { return memoryOption{bytes} }

type memoryOption struct{ bytes int64 }

func (o memoryOption) open() (backend, error) {
	if o.bytes < 64<<10 {
		return nil, fmt.Errorf("herdgate: core.Memory(%d): give it at least 64 KiB (64<<20 is a good start)", o.bytes)
	}
	m := &memory{start: time.Now(), keys: make(map[string]*memoryKey)}
	m.entries = otter.Must(&otter.Options[string, memoryValue]{
		MaximumWeight: uint64(o.bytes),
		Executor:      inline,
		Weigher: func(loc string, v memoryValue) uint32 {
			return uint32(min(v.size+len(loc)+entryOverhead, math.MaxUint32))
		},
	})
	return m, nil
}

// entryOverhead is about what the cache itself needs for an entry, in bytes.
const entryOverhead = 256

// memory is the backend of one process. Entries are in a cache bounded by bytes; locks,
// claims and marks in a map, under one mutex that is never held while anything waits. They have lifetimes as in Redis.
type memory struct {
	start   time.Time
	entries *otter.Cache[string, memoryValue]

	mu      sync.Mutex
	keys    map[string]*memoryKey // by base
	granted int64                 // µs: the last grant
	deliver func(loc string, why result)
}

type memoryValue struct {
	stored
	expires int64 // µs
}

// memoryKey is all about one key but its entries.
type memoryKey struct {
	variants map[string]*memoryLoc // by location
}

type memoryLoc struct {
	lock, claim memoryToken
	marks       [2]memoryCount // by class
	fails       [2]memoryCount
	stored      int64 // an entry is here until then, in µs
}

type memoryToken struct {
	token   token
	expires int64 // µs; 0: none
}

func (t memoryToken) is(l lease, now int64) bool { return t.expires > now && t.token == l.token }

type memoryCount struct {
	n           int
	until, bare int64 // µs: with and without a stale copy
	forgotten   int64 // µs
}

func (m *memory) admit(int64) {} // only we write here

func (m *memory) announcements(deliver func(loc string, why result)) { m.deliver = deliver }

func (m *memory) report(*slog.Logger, func(cause)) {}

func (m *memory) missed() {}

func (m *memory) noLock(answer, error) {}

func (m *memory) breakers() []Breaker { return nil }

func (m *memory) close(context.Context) error { return nil }

func (m *memory) now() int64 { return m.micros() }

// micros is monotonic, so that a clock that is set changes nothing.
func (m *memory) micros() int64 { return m.start.UnixMicro() + time.Since(m.start).Microseconds() }

func (m *memory) read(_ context.Context, loc string) (stored, error) {
	v, ok := m.entries.GetIfPresent(loc)
	if !ok || v.expires <= m.micros() {
		return stored{}, nil
	}
	return v.stored, nil
}

// at returns what is known about a location, making it if needed.
func (m *memory) at(base, loc string) *memoryLoc {
	k, ok := m.keys[base]
	if !ok {
		k = &memoryKey{variants: make(map[string]*memoryLoc)}
		m.keys[base] = k
	}
	l, ok := k.variants[loc]
	if !ok {
		l = &memoryLoc{}
		k.variants[loc] = l
	}
	return l
}

func (m *memory) acquire(_ context.Context, q query) (answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, loc := max(m.micros(), m.granted+1), q.loc() // no two grants at the same time: they are compared
	m.granted = now
	m.sweep(now)
	at := m.at(q.base, loc)
	grant := func() {
		at.claim = memoryToken{q.token, now + (q.hold + q.lock).Microseconds()}
	}
	if at.lock.is(q.lease, now) && at.claim.is(q.lease, now) {
		return answer{state: stateWon, grant: now}, nil
	}
	if left := at.marks[q.class].until - now; left > 0 {
		claimed := at.claim.expires <= now || at.claim.token == q.token
		if claimed {
			grant()
		}
		return answer{state: stateUncacheable, remains: micros(left), claimed: claimed, grant: now}, nil
	}
	if at.lock.expires > now && at.claim.expires > now && at.claim.token == at.lock.token {
		return answer{state: stateHeld, remains: micros(at.lock.expires - now), holder: string(at.lock.token[:])}, nil
	}
	if v, _ := m.read(context.Background(), loc); v.head() != q.seen {
		return answer{state: stateChanged, head: v.head()}, nil
	}
	if q.variant != "" {
		if v, _ := m.read(context.Background(), q.base); v.record != nil && namesPart(v.record.Names) != namesPart(q.names) {
			return answer{state: stateChanged}, nil
		}
	}
	until := at.fails[q.class].bare
	if q.hasStale {
		until = at.fails[q.class].until
	}
	if left := until - now; left > 0 {
		return answer{state: stateFailing, remains: micros(left)}, nil
	}
	if q.variant != "" && !m.room(q.base, loc, now) {
		return answer{state: stateUncacheable, remains: time.Second, grant: now}, nil
	}
	at.lock = memoryToken{q.token, now + q.lock.Microseconds()}
	grant()
	return answer{state: stateWon, grant: now}, nil
}

// room reports whether a key may have the variant at loc besides those that it has. It forgets
// variants that are neither stored nor being computed.
func (m *memory) room(base, loc string, now int64) bool {
	variants, others := m.keys[base].variants, 0
	for there := range variants {
		if there != loc && there != base {
			others++
		}
	}
	if others < variantsPerKey {
		return true
	}
	for there, l := range variants {
		if there != loc && there != base && l.stored <= now && l.claim.expires <= now {
			delete(variants, there)
			others--
		}
	}
	if others < variantsPerKey {
		return true
	}
	delete(variants, loc)
	return false
}

func (m *memory) extend(_ context.Context, l lease) (tenure, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.micros()
	at := m.at(l.base, l.loc())
	switch {
	case !at.claim.is(l, now):
		return tenureRevoked, nil
	case !at.lock.is(l, now):
		return tenureLost, nil
	}
	at.lock.expires = now + l.lock.Microseconds()
	return tenureHeld, nil
}

func (m *memory) finish(_ context.Context, l lease, c completion) (verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.micros()
	at := m.at(l.base, l.loc())
	if at.lock.is(l, now) {
		at.lock = memoryToken{}
	}
	if !at.claim.is(l, now) {
		if c.result == resultStored {
			if v, _ := m.read(context.Background(), c.at.loc()); v.entry != nil && v.entry.Token == l.token {
				return verdictDone, nil // sent again
			}
		}
		if at.claim.expires > now {
			return verdictReplaced, nil
		}
		return verdictInvalidated, nil
	}
	at.claim = memoryToken{}
	switch c.result {
	case resultStored:
		return m.store(l, c, at, now), nil
	case resultUncacheable, resultPersonal: // the mark is that of the request's class
		mark := &at.marks[l.class]
		mark.count(now, 0)
		mark.until = now + markFor(mark.n).Microseconds()
		mark.forgotten = mark.until + time.Minute.Microseconds()
	case resultFailed:
		fail := &at.fails[l.class]
		fail.count(now, now+failMemory.Microseconds())
		fail.until = now + jitter(backoff(fail.n, true)).Microseconds()
		fail.bare = now + jitter(backoff(fail.n, false)).Microseconds()
	case resultGaveUp:
	}
	return verdictDone, nil
}

func (m *memory) store(l lease, c completion, at *memoryLoc, now int64) verdict {
	there := m.at(l.base, c.at.loc())
	if c.at.variant != "" {
		if v, _ := m.read(context.Background(), c.at.loc()); v.entry != nil && v.entry.Grant > l.grant {
			return verdictReplaced
		}
		if v, _ := m.read(context.Background(), l.base); v.record != nil &&
			namesPart(v.record.Names) != namesPart(l.names) && namesPart(v.record.Names) != namesPart(c.at.names) {
			return verdictReplaced
		}
	}
	at.marks[l.class], at.fails[l.class] = memoryCount{}, memoryCount{}
	expires := now + max(c.ttl, time.Millisecond).Microseconds()
	there.stored = expires
	m.put(c.at.loc(), stored{entry: c.entry, seen: head(c.entry.Token, c.entry.Grant), size: weight(c.entry)}, expires)
	// A response that did not vary and was granted later stays: the record must not send its readers to an older one.
	if v, _ := m.read(context.Background(), l.base); len(c.at.names) > 0 && (v.entry == nil || v.entry.Grant <= l.grant) {
		r := &entry.Record{Grant: l.grant, Token: l.token, Names: c.at.names}
		m.put(l.base, stored{record: r, seen: head(r.Token, r.Grant), size: len(namesPart(r.Names))}, expires)
	}
	return verdictDone
}

// put replaces what is at a location. A value heavier than the whole cache is not kept, which costs a
// computation and nothing else.
func (m *memory) put(loc string, s stored, expires int64) {
	m.entries.Set(loc, memoryValue{stored: s, expires: expires})
}

func (m *memory) release(_ context.Context, l lease) (had bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.micros()
	at := m.at(l.base, l.loc())
	if at.lock.is(l, now) {
		at.lock, had = memoryToken{}, true
	}
	if at.claim.is(l, now) {
		at.claim, had = memoryToken{}, true
	}
	return had, nil
}

func (m *memory) invalidate(_ context.Context, base string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries.Invalidate(base)
	k := m.keys[base]
	if k == nil {
		return nil
	}
	for loc, l := range k.variants {
		m.entries.Invalidate(loc)
		l.lock, l.claim, l.stored = memoryToken{}, memoryToken{}, 0
	}
	return nil
}

// sweep forgets what has ended, of a few keys at a time: ranging over a map begins anywhere, so all get their turn. What the
// cache has evicted is forgotten as well, which bounds the bookkeeping by the bytes too.
func (m *memory) sweep(now int64) {
	left := 4
	for base, k := range m.keys {
		for loc, l := range k.variants {
			if _, there := m.entries.GetEntryQuietly(loc); !there {
				l.stored = 0
			}
			if l.ended(now) {
				delete(k.variants, loc)
			}
		}
		if len(k.variants) == 0 {
			delete(m.keys, base)
		}
		if left--; left == 0 {
			return
		}
	}
}

func (l *memoryLoc) ended(now int64) bool {
	for _, until := range []int64{l.lock.expires, l.claim.expires, l.stored,
		l.marks[0].forgotten, l.marks[1].forgotten, l.fails[0].forgotten, l.fails[1].forgotten} {
		if until > now {
			return false
		}
	}
	return true
}

// count counts one more in a row.
func (c *memoryCount) count(now, forgotten int64) {
	if c.forgotten <= now {
		*c = memoryCount{}
	}
	c.n++
	c.forgotten = forgotten
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/4))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func head(t token, grant int64) []byte { return fmt.Appendf(nil, "%d %x", grant, t) }

func weight(e *entry.Entry) int {
	n := len(e.Key) + len(e.Body)
	for _, f := range e.Header {
		n += len(f.Name) + len(f.Value) + 48
	}
	return n
}

// inline runs the upkeep of a cache on the goroutine that caused it: no goroutine is without an owner.
func inline(f func()) { f() }
