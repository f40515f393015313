package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// writes is a bubble with a gate whose backend confirms no invalidation while fails returns an error, and two pages that are stored.
func writes(t *testing.T, fails func(ctx context.Context, call int) error, test func(t *testing.T, g *Gate, w writing)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		s := &spy{backend: memoryFor(t)}
		var calls atomic.Int64
		s.onInvalidate = func(ctx context.Context, _ string) error { return fails(ctx, int(calls.Add(1))) }
		g := gateOn(t, opens{s})
		serve := g.Mount(FreshFor(time.Hour))
		var o origin
		w := writing{
			calls: func() int { return int(calls.Load()) },
			post: func(location string) *visit {
				v := get("/a", func(_ context.Context, p *page) {
					p.header.Set("Location", location)
					p.write(http.StatusCreated, "done")
				})
				v.method = "POST"
				return v.send(serve)
			},
			gone: func(target string) bool { return get(target, o.answers(0, "body")).send(serve).out.Role != RoleHit },
		}
		w.gone("/a")
		w.gone("/b")
		test(t, g, w)
	})
}

type writing struct {
	calls func() int                    // invalidations that the backend was asked for
	post  func(location string) *visit  // a write to /a that names another page
	gone  func(target string) (is bool) // the page is computed anew
}

var errNotNow = errors.New("not now")

// unconfirmed is how often it was counted.
func unconfirmed(g *Gate) uint64 { return g.Stats().Events[string(causeUnconfirmed)] }

func TestWriteWaitsForItsInvalidationForABoundedTime(t *testing.T) {
	silent := func(ctx context.Context, call int) error {
		if call > 2 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	writes(t, silent, func(t *testing.T, g *Gate, w writing) {
		if v := w.post("/a"); v.took != readBudget || unconfirmed(g) != 1 {
			t.Errorf("the client waited %v, want %v; counted %d times", v.took, readBudget, unconfirmed(g))
		}
		// The second call, in the background, hears nothing either. It is not waited for for ever.
		pause(time.Second + 100*time.Millisecond)
		if w.calls() != 3 || !w.gone("/a") {
			t.Errorf("after %d calls /a is still there", w.calls())
		}
	})
}

func TestWriteIsInvalidatedInTheEnd(t *testing.T) {
	fourth := func(_ context.Context, call int) error {
		if call < 4 {
			return errNotNow
		}
		return nil
	}
	writes(t, fourth, func(t *testing.T, _ *Gate, w writing) {
		if w.post("/a"); w.gone("/a") {
			t.Fatal("gone, though no invalidation was confirmed: this test tests nothing")
		}
		pause(time.Second)
		if w.calls() != 4 || !w.gone("/a") {
			t.Errorf("after %d calls /a is still there", w.calls())
		}
		if pause(time.Minute); w.calls() != 4 || w.gone("/a") {
			t.Errorf("%d calls, want no more once it is done", w.calls())
		}
	})
}

func TestOneUnconfirmedInvalidationKeepsNoOther(t *testing.T) {
	second := func(_ context.Context, call int) error {
		if call == 2 {
			return nil
		}
		return errNotNow
	}
	writes(t, second, func(t *testing.T, _ *Gate, w writing) {
		w.post("/b")
		if a, b := w.gone("/a"), w.gone("/b"); a == b {
			t.Errorf("gone: /a %v, /b %v, want the second of the two only", a, b)
		}
	})
}

func TestUnconfirmedInvalidationGivesUp(t *testing.T) {
	never := func(context.Context, int) error { return errNotNow }
	writes(t, never, func(t *testing.T, _ *Gate, w writing) {
		w.post("/a")
		pause(retryInvalidations + time.Second)
		was := w.calls()
		if pause(time.Minute); w.calls() != was || was < 100 {
			t.Errorf("%d calls in %v, %d later; want more than 100, and then none", was, retryInvalidations, w.calls())
		}
	})
}

func TestCloseDoesNotWaitForAnUnconfirmedInvalidation(t *testing.T) {
	never := func(context.Context, int) error { return errNotNow }
	writes(t, never, func(t *testing.T, g *Gate, w writing) {
		w.post("/a")
		pause(time.Second)
		began := time.Now()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}
