package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/redistest"
)

// tiered is a process with a memory tier whose copies live for ever, unless something ends them.
func tiered(t *testing.T, client redis.UniversalClient, ns string) process {
	t.Helper()
	g := gateOn(t, Redis(client, ns), MemoryTier(1<<20, time.Hour))
	return process{g, g.Mount(FreshFor(time.Minute), LockFor(faultLock))}
}

// filled waits until a process answers from its tier: from then on it hears of invalidations.
func (p process) filled(t *testing.T, server *redistest.Server, handler func(context.Context, *page), body string) {
	t.Helper()
	reads := func() int {
		stats := redistest.CommandStats(t, server.Client())
		return stats["getrange"]
	}
	eventually(t, func() bool {
		was := reads()
		get("/", handler).send(p.serve).want(t, RoleHit, body)
		return reads() == was
	})
	was := reads()
	for range 100 {
		get("/", handler).send(p.serve).want(t, RoleHit, body)
	}
	if n := reads() - was; n != 0 {
		t.Errorf("%d reads for 100 hits, want none", n)
	}
}

// A hit from the tier costs no round trip, and an invalidation ends it, in this process and in others, also if its
// announcement was lost with the connection.
func TestTier(t *testing.T) {
	server := redistest.Start(t)
	for name, vary := range map[string]bool{"plain": false, "varied": true} {
		t.Run(name, func(t *testing.T) {
			ns := unique("tier")
			proxy := redistest.StartProxy(t, server.Addr)
			far := redis.NewClient(&redis.Options{Addr: proxy.Addr})
			t.Cleanup(func() { _ = far.Close() })
			p, other := tiered(t, far, ns), tiered(t, server.Client(), ns)
			key := Key{Host: "shop.example", Target: "/"}
			var o origin
			handler := func(body string) func(context.Context, *page) {
				if vary {
					return o.varied(0, body)
				}
				return o.answers(0, body)
			}
			get("/", handler("first")).send(p.serve).want(t, RoleWinner, "first")
			p.filled(t, server, handler("never"), "first")
			other.filled(t, server, handler("never"), "first")

			// By itself.
			if err := p.gate.Invalidate(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			get("/", handler("second")).send(p.serve).want(t, RoleWinner, "second")
			p.filled(t, server, handler("never"), "second")
			eventually(t, func() bool { return get("/", handler("never")).send(other.serve).body == "second" })

			// By another.
			if err := other.gate.Invalidate(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return get("/", handler("third")).send(p.serve).body == "third" })
			p.filled(t, server, handler("never"), "third")

			// By another while this process cannot hear it.
			proxy.Refuse()
			if err := other.gate.Invalidate(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			get("/", handler("never")).send(p.serve).want(t, RoleHit, "third") // that is what maxAge is for
			proxy.Pass()
			eventually(t, func() bool { return get("/", handler("fourth")).send(p.serve).body == "fourth" })
			unlocked(t, server.Client(), ns)
		})
	}
}

// source is a backend that only answers reads.
type source struct {
	backend
	during func()
}

func (s *source) now() int64 { return time.Now().UnixMicro() }

func (s *source) read(context.Context, string) (stored, error) {
	if s.during != nil {
		s.during()
	}
	e := &entry.Entry{Received: s.now(), Fresh: 10 * time.Second, Status: 200, Body: make([]byte, 1000)}
	return stored{entry: e, size: 1100}, nil
}

func TestTierCopies(t *testing.T) {
	at := func(i int) place { return place{base: fmt.Sprintf("ns:v1:{%d}", i)} }
	read := func(t *testing.T, tier *tier, s *source, p place) bool {
		t.Helper()
		got, ok := tier.copyAt(p, s.now)
		if !ok {
			var err error
			g, rq := &Gate{backend: s, tier: tier}, &request{x: &asked{capture.Request{HTTP: new(http.Request)}}}
			if got, err = g.read(rq, p); err != nil {
				t.Fatal(err)
			}
		}
		if got.entry == nil {
			t.Fatalf("%+v", got)
		}
		return !ok
	}
	for name, test := range map[string]func(t *testing.T, tier *tier, s *source){
		"live for maxAge": func(t *testing.T, tier *tier, s *source) {
			read(t, tier, s, at(1))
			pause(900 * time.Millisecond)
			if read(t, tier, s, at(1)) {
				t.Error("read again within maxAge")
			}
			pause(200 * time.Millisecond)
			if !read(t, tier, s, at(1)) {
				t.Error("older than maxAge")
			}
		},
		"begin with their read": func(t *testing.T, tier *tier, s *source) {
			s.during = func() { pause(900 * time.Millisecond) }
			read(t, tier, s, at(1))
			pause(200 * time.Millisecond)
			if !read(t, tier, s, at(1)) {
				t.Error("its age was counted from the answer")
			}
		},
		"are not stale": func(t *testing.T, tier *tier, s *source) {
			tier.maxAge = time.Hour
			read(t, tier, s, at(1))
			pause(10 * time.Second)
			if !read(t, tier, s, at(1)) {
				t.Error("a stale copy")
			}
		},
		"end with an invalidation during their read": func(t *testing.T, tier *tier, s *source) {
			s.during = func() { pause(time.Millisecond); tier.drop(at(1).base) }
			read(t, tier, s, at(1))
			pause(time.Millisecond)
			if s.during = nil; !read(t, tier, s, at(1)) {
				t.Error("what was read before the invalidation was kept")
			}
			if read(t, tier, s, at(1)) {
				t.Error("what was read after it was not")
			}
		},
		"are not replaced by an older one": func(t *testing.T, tier *tier, s *source) {
			e := &entry.Entry{Received: s.now(), Fresh: 10 * time.Second, Status: 200, Body: make([]byte, 1000)}
			older := time.Now()
			pause(time.Millisecond)
			tier.drop(at(1).base)
			pause(time.Millisecond)
			read(t, tier, s, at(1))
			tier.keep(at(1).loc(), stored{entry: e, size: 1100}, older, s.now)
			if read(t, tier, s, at(1)) {
				t.Error("what came later had begun before it, and before an invalidation")
			}
		},
		"survive a scan": func(t *testing.T, tier *tier, s *source) {
			tier.maxAge = time.Hour
			again := 0
			for i := range 10_000 { // 58 find room: the least recently used would be gone each time
				if i%100 == 0 && read(t, tier, s, at(0)) {
					again++
				}
				read(t, tier, s, at(i+1))
			}
			if again > 10 {
				t.Errorf("what is asked for again and again was pushed out %d times by what is asked for once", again)
			}
			if n := tier.copies.WeightedSize(); n > 64<<10 {
				t.Errorf("%d bytes, want at most 64 KiB", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pause(time.Second) // a tier begins with nothing
				tier := newTier(64<<10, time.Second)
				pause(time.Millisecond)
				test(t, tier, &source{})
			})
		})
	}
}

func TestTierOptions(t *testing.T) {
	if _, err := New(Memory(1<<20), MemoryTier(1<<20, 0)); !errors.Is(err, errTierOfMemory) {
		t.Errorf("in front of memory: %v", err)
	}
	for _, opt := range []GateOption{MemoryTier(1, 0), MemoryTier(1<<20, -1)} {
		if _, err := New(Off(), opt); err == nil {
			t.Error("an invalid tier was taken")
		}
	}
	g := gateOn(t, Off(), MemoryTier(1<<20, 0))
	if g.tier.maxAge != time.Second {
		t.Errorf("maxAge %v, want 1 s", g.tier.maxAge)
	}
}
