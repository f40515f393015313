package core

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gone is a process with a memory tier on a Redis that can be gone, and another that does not notice.
func gone(t *testing.T) (p, other process, down *atomic.Bool) {
	t.Helper()
	_, _, s, gates := twoProcesses(t)
	down = new(atomic.Bool)
	s.onRead = func(ctx context.Context, loc string) (stored, error) {
		if down.Load() {
			return stored{}, errNotAsked
		}
		return s.backend.read(ctx, loc)
	}
	s.onAcquire = func(ctx context.Context, q query) (answer, error) {
		if down.Load() {
			return answer{}, errNotAsked
		}
		return s.backend.acquire(ctx, q)
	}
	s.onInvalidate = func(ctx context.Context, base string) error {
		if down.Load() {
			return errNotAsked
		}
		return s.backend.invalidate(ctx, base)
	}
	pause(time.Second)
	gates[0].tier = newTier(1<<20, time.Second)
	pause(time.Second)
	route := []RouteOption{FreshFor(10 * time.Second), StaleFor(time.Minute)}
	return process{gates[0], gates[0].Mount(route...)}, process{gates[1], gates[1].Mount(route...)}, down
}

// While Redis is gone the memory tier stands in for it: fresh copies are hits whatever their age, stale ones are answered while one request
// computes, and what that brings is kept.
func TestMemoryStandsInForRedis(t *testing.T) {
	for name, vary := range map[string]bool{"plain": false, "varied": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, _, down := gone(t)
				var o origin
				handler := func(work time.Duration, body string) func(context.Context, *page) {
					if vary {
						return o.varied(work, body)
					}
					return o.answers(work, body)
				}
				visits := func(body string) *visit {
					return get("/", handler(time.Second, body), func(v *visit) { v.app = p.serve })
				}
				get("/", handler(0, "first")).send(p.serve).want(t, RoleWinner, "first")
				pause(time.Millisecond)
				get("/", handler(0, "never")).send(p.serve).want(t, RoleHit, "first")

				down.Store(true)
				pause(5 * time.Second) // older than maxAge, and fresh
				visits("never").send(p.serve).want(t, RoleHit, "first")

				pause(6 * time.Second) // stale
				for range 3 {
					visits("second").send(p.serve).want(t, RoleStale, "first")
				}
				if synctest.Wait(); o.runs() != 2 {
					t.Errorf("%d computations, want one more", o.runs()-1)
				}
				pause(1100 * time.Millisecond)
				for range 3 {
					visits("never").send(p.serve).want(t, RoleHit, "second")
					pause(3 * time.Second)
				}

				pause(2 * time.Second) // stale again
				for range 3 {
					visits("third").send(p.serve).want(t, RoleStale, "second")
				}
				get("/cold", handler(0, "cold")).send(p.serve).want(t, RoleWinner, "cold")
				get("/cold", handler(0, "never")).send(p.serve).want(t, RoleHit, "cold")

				pause(time.Minute + 20*time.Second) // what is beyond its window is gone
				get("/", handler(0, "fourth")).send(p.serve).want(t, RoleWinner, "fourth")
				get("/", handler(0, "never")).send(p.serve).want(t, RoleHit, "fourth")
				if o.runs() != 5 {
					t.Errorf("%d computations, want 5", o.runs())
				}

				down.Store(false)
				pause(1100 * time.Millisecond) // from here on it is asked again
				get("/", handler(0, "fifth")).send(p.serve).want(t, RoleWinner, "fifth")
			})
		})
	}
}

// Memory stands in for a Redis that is not asked only, and never with what was invalidated.
func TestMemoryStandsInForNothingElse(t *testing.T) {
	key := Key{Host: "shop.example", Target: "/"}
	for name, test := range map[string]func(t *testing.T, p, other process, down *atomic.Bool) (served string){
		"invalidated elsewhere while Redis answers": func(t *testing.T, _, other process, _ *atomic.Bool) string {
			if err := other.gate.Invalidate(t.Context(), key); err != nil {
				t.Error(err)
			}
			pause(1100 * time.Millisecond)
			return "new"
		},
		"invalidated here in vain": func(t *testing.T, p, _ process, down *atomic.Bool) string {
			down.Store(true)
			if err := p.gate.Invalidate(t.Context(), key); !errors.Is(err, errNotAsked) {
				t.Error(err)
			}
			return "new"
		},
		"heard of invalidations after a gap": func(_ *testing.T, p, _ process, down *atomic.Bool) string {
			down.Store(true)
			p.gate.tier.flush()
			return "new"
		},
		"neither": func(_ *testing.T, _, _ process, down *atomic.Bool) string {
			down.Store(true)
			pause(1100 * time.Millisecond)
			return "old"
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, other, down := gone(t)
				var o origin
				get("/", o.answers(0, "old")).send(p.serve).want(t, RoleWinner, "old")
				pause(time.Millisecond)
				get("/", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "old")
				pause(time.Millisecond)
				want := test(t, p, other, down)
				pause(time.Millisecond)
				if got := get("/", o.answers(0, "new")).send(p.serve); got.body != want {
					t.Errorf("got %q, want %q", got.body, want)
				}
			})
		})
	}
}

// A write while Redis is gone ends what this process has of the page, once: what is computed after it is kept, though Redis is told of
// the write again and again.
func TestWriteWhileRedisIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, _, down := gone(t)
		var o origin
		get("/", o.answers(0, "old")).send(p.serve).want(t, RoleWinner, "old")
		down.Store(true)
		pause(time.Minute + 20*time.Second)
		before := get("/", o.answers(time.Second, "old"))
		done := before.start(p.serve)
		pause(100 * time.Millisecond)
		write := get("/", func(_ context.Context, p *page) { p.write(200, "done") })
		write.method = "POST"
		if write.send(p.serve); write.body != "done" || unconfirmed(p.gate) != 1 {
			t.Errorf("%q, %d unconfirmed invalidations", write.body, unconfirmed(p.gate))
		}
		pause(time.Millisecond)
		get("/", o.answers(0, "new")).send(p.serve).want(t, RoleWinner, "new")
		for range 5 {
			pause(time.Second)
			get("/", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "new")
		}
		<-done
		before.want(t, RoleWinner, "old")
	})
}
