package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/redistest"
)

// backends runs a test of the contract on every backend: memory, one Redis, a cluster of three.
func backends(t *testing.T, test func(t *testing.T, b backend)) {
	t.Run("memory", func(t *testing.T) { test(t, opened(t, Memory(8<<20))) })
	t.Run("redis", func(t *testing.T) {
		c := redistest.Shared(t).Client()
		test(t, opened(t, Redis(c, unique("redis"))))
		redistest.CheckTTLs(t, c)
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.SharedCluster(t).Client()
		test(t, opened(t, Redis(c, unique("cluster"))))
		redistest.CheckTTLs(t, c)
	})
}

func opened(t *testing.T, o Backend) backend {
	t.Helper()
	b, err := o.open()
	if err != nil {
		t.Fatal(err)
	}
	b.announcements(func(string, result) {})
	t.Cleanup(func() {
		if err := b.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

var uniqueMu sync.Mutex
var uniqueN int

// unique returns a namespace that no other test has.
func unique(what string) string {
	uniqueMu.Lock()
	defer uniqueMu.Unlock()
	uniqueN++
	return fmt.Sprintf("t%d.%s", uniqueN, what)
}

// testPlace is a place that no other test has, nor another run of the same.
func testPlace(name string) place { return place{base: unique("ns") + ":v1:{" + name + "}", key: name} }

func testLease(p place) lease {
	return lease{place: p, token: newToken(), lock: time.Second, hold: 2 * time.Second}
}

func testEntry(l lease, body string) *entry.Entry {
	return &entry.Entry{Grant: l.grant, Token: l.token, Key: l.key, Fresh: time.Minute, Status: 200, Body: []byte(body)}
}

func keep(l lease, body string) completion { return keepAt(l, l.place, body) }

// keepAt is of a winner that found out that its response is a variant.
func keepAt(l lease, at place, body string) completion {
	e := testEntry(l, body)
	if at.variant != "" {
		e.Generation = l.generation
	}
	return completion{result: resultStored, entry: e, at: at, ttl: time.Minute}
}

// win acquires and fails the test if that does not give the lock.
func win(t *testing.T, b backend, l lease, seen string) lease {
	t.Helper()
	a := ask(t, b, query{lease: l, seen: seen})
	if a.state != stateWon {
		t.Fatalf("acquire: %+v, want won", a)
	}
	l.grant, l.generation = a.grant, a.generation
	return l
}

func ask(t *testing.T, b backend, q query) answer {
	t.Helper()
	return answered(t, func() (answer, error) { return b.acquire(t.Context(), q) })
}

func end(t *testing.T, b backend, l lease, c completion) verdict {
	t.Helper()
	return answered(t, func() (verdict, error) { return b.finish(t.Context(), l, c) })
}

func renew(t *testing.T, b backend, l lease) tenure {
	t.Helper()
	return answered(t, func() (tenure, error) { return b.extend(t.Context(), l) })
}

func look(t *testing.T, b backend, loc string) stored {
	t.Helper()
	return answered(t, func() (stored, error) { return b.read(t.Context(), loc) })
}

// answered makes a call until Redis answers: on a busy machine that may take longer than the call's budget, and the contract is that
// a call that is made again does no harm.
func answered[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	for tries := 1; ; tries++ {
		v, err := call()
		switch {
		case err == nil:
			return v
		case !timedOut(err) && !errors.Is(err, errNotAsked), tries == 20:
			t.Fatal(err)
		}
		pause(100 * time.Millisecond)
	}
}

func wantBody(t *testing.T, b backend, loc, body string) {
	t.Helper()
	e := look(t, b, loc).entry
	switch {
	case e == nil && body != "":
		t.Fatalf("nothing at %s, want %q", loc, body)
	case e != nil && string(e.Body) != body:
		t.Fatalf("%q at %s, want %q", e.Body, loc, body)
	}
}

func TestOneHolder(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		first := win(t, b, testLease(p), "")
		if a := ask(t, b, query{lease: testLease(p)}); a.state != stateHeld || a.remains <= 0 || a.remains > time.Second {
			t.Fatalf("second acquire: %+v, want held with the remaining time", a)
		}
		if v := end(t, b, first, keep(first, "one")); v != verdictDone {
			t.Fatalf("finish: %v", v)
		}
		wantBody(t, b, p.loc(), "one")
		if a := ask(t, b, query{lease: testLease(p)}); a.state != stateChanged {
			t.Fatalf("acquire after a store that the caller has not seen: %+v, want changed", a)
		}
		win(t, b, testLease(p), look(t, b, p.loc()).head())
	})
}

func TestSentAgain(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		l := win(t, b, testLease(p), "")
		l = win(t, b, l, "") // the reply was lost
		for range 2 {
			if v := end(t, b, l, keep(l, "one")); v != verdictDone {
				t.Fatalf("finish: %v, want done", v)
			}
		}
		wantBody(t, b, p.loc(), "one")
		if had, err := b.release(t.Context(), l); had || err != nil {
			t.Fatalf("release after finish: %v %v", had, err)
		}
	})
}

func TestOverrunStoresIfNobodyCame(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		l := testLease(p)
		l.lock = 30 * time.Millisecond
		l = win(t, b, l, "")
		eventually(t, func() bool {
			found, err := b.extend(t.Context(), lease{place: p, token: l.token, lock: 0})
			return err == nil && found == tenureLost
		})
		if v := end(t, b, l, keep(l, "late")); v != verdictDone {
			t.Fatalf("finish after the lock ran out: %v, want done", v)
		}
		wantBody(t, b, p.loc(), "late")
	})
}

func TestReplacedNeverStores(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		old := testLease(p)
		old.lock = 30 * time.Millisecond
		old = win(t, b, old, "")
		var next lease
		eventually(t, func() bool {
			next = testLease(p)
			a := ask(t, b, query{lease: next})
			next.grant, next.generation = a.grant, a.generation
			return a.state == stateWon
		})
		if found := renew(t, b, old); found != tenureRevoked {
			t.Fatalf("extend by the replaced holder: %v, want revoked", found)
		}
		if v := end(t, b, old, keep(old, "old")); v != verdictReplaced {
			t.Fatalf("finish by the replaced holder: %v, want replaced", v)
		}
		wantBody(t, b, p.loc(), "")
		if found := renew(t, b, next); found != tenureHeld {
			t.Fatalf("the new lock is gone: %v", found)
		}
		end(t, b, next, keep(next, "new"))
		if v := end(t, b, old, keep(old, "old")); v != verdictReplaced && v != verdictInvalidated {
			t.Fatalf("late finish: %v", v)
		}
		wantBody(t, b, p.loc(), "new")
	})
}

func TestInvalidatedNeverStores(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		l := win(t, b, testLease(p), "")
		if err := b.invalidate(t.Context(), p.base); err != nil {
			t.Fatal(err)
		}
		if found, err := b.extend(t.Context(), l); err != nil || found != tenureRevoked {
			t.Fatalf("extend: %v %v, want revoked", found, err)
		}
		next := win(t, b, testLease(p), "") // the lock of the old computation is void
		if v := end(t, b, l, keep(l, "old")); v != verdictReplaced {
			t.Fatalf("finish: %v, want replaced", v)
		}
		wantBody(t, b, p.loc(), "")
		if v := end(t, b, next, keep(next, "new")); v != verdictDone {
			t.Fatalf("finish: %v, want done", v)
		}
		wantBody(t, b, p.loc(), "new")
	})
}

func TestInvalidateReachesEveryVariant(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		base := testPlace(t.Name())
		var places []place
		for i := range 5 {
			p := base
			p.variant, p.vary, p.names = fmt.Sprintf("%016x", i), fmt.Sprint(i), []string{"Accept"}
			l := win(t, b, testLease(p), "")
			if v := end(t, b, l, keep(l, fmt.Sprint("body ", i))); v != verdictDone {
				t.Fatalf("finish: %v", v)
			}
			places = append(places, p)
		}
		if r := look(t, b, base.loc()).record; r == nil || !slices.Equal(r.Names, []string{"Accept"}) {
			t.Fatalf("record: %+v", r)
		}
		if err := b.invalidate(t.Context(), base.base); err != nil {
			t.Fatal(err)
		}
		for _, p := range places {
			wantBody(t, b, p.loc(), "")
		}
	})
}

func TestVariantsAreCapped(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		base := testPlace(t.Name())
		at := func(i int) place {
			p := base
			p.variant, p.names = fmt.Sprintf("%016x", i), []string{"Accept"}
			return p
		}
		for i := range variantsPerKey {
			l := win(t, b, testLease(at(i)), "")
			end(t, b, l, keep(l, "x"))
		}
		if a := ask(t, b, query{lease: testLease(at(1000))}); a.state != stateUncacheable || a.claimed {
			t.Fatalf("variant above the cap: %+v, want uncacheable", a)
		}
	})
}

func TestColdKeyThatVaries(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		base := testPlace(t.Name())
		gzip := base
		gzip.variant, gzip.vary, gzip.names = "00000000000000aa", "gzip", []string{"Accept-Encoding"}

		l := win(t, b, testLease(base), "")
		c := keepAt(l, gzip, "zipped")
		if v := end(t, b, l, c); v != verdictDone {
			t.Fatalf("finish: %v", v)
		}
		wantBody(t, b, gzip.loc(), "zipped")
		if look(t, b, base.loc()).record == nil {
			t.Fatal("no record of what the key varies on")
		}

		// A process that does not know learns it from acquire, at the base and at a variant.
		if a := ask(t, b, query{lease: testLease(base)}); a.state != stateChanged {
			t.Fatalf("acquire at the base: %+v, want changed", a)
		}
		other := base
		other.variant, other.names = "00000000000000bb", []string{"Accept"}
		if a := ask(t, b, query{lease: testLease(other)}); a.state != stateChanged {
			t.Fatalf("acquire with other names: %+v, want changed", a)
		}
	})
}

// A response that turns out to be another variant must not overwrite what was granted later.
func TestCrossStoreIsMonotonic(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		base := testPlace(t.Name())
		variant := base
		variant.variant, variant.vary, variant.names = "00000000000000aa", "v", []string{"Accept"}

		early := win(t, b, testLease(base), "")
		late := testLease(variant)
		eventually(t, func() bool {
			a := ask(t, b, query{lease: late})
			late.grant, late.generation = a.grant, a.generation
			return late.grant > early.grant
		})
		end(t, b, late, keep(late, "late"))
		c := keepAt(early, variant, "early")
		if v := end(t, b, early, c); v != verdictReplaced {
			t.Fatalf("finish of the earlier grant: %v, want replaced", v)
		}
		wantBody(t, b, variant.loc(), "late")

		// The other way round: the later grant stores first.
		head := look(t, b, variant.loc()).head()
		early = win(t, b, testLease(variant), head)
		record := look(t, b, base.loc()).head()
		late = win(t, b, testLease(base), record)
		c = keepAt(late, variant, "later")
		if v := end(t, b, late, c); v != verdictDone {
			t.Fatalf("finish of the later grant: %v, want done", v)
		}
		if v := end(t, b, early, keep(early, "early")); v != verdictReplaced {
			t.Fatalf("finish of the earlier grant: %v, want replaced", v)
		}
		wantBody(t, b, variant.loc(), "later")
	})
}

func TestUncacheableMark(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		l := win(t, b, testLease(p), "")
		end(t, b, l, completion{result: resultUncacheable})

		claimer := testLease(p)
		a := ask(t, b, query{lease: claimer})
		if a.state != stateUncacheable || !a.claimed || a.remains > 6*time.Second || a.remains < 4*time.Second {
			t.Fatalf("acquire: %+v, want uncacheable for about 5 s, claimed", a)
		}
		claimer.grant, claimer.generation = a.grant, a.generation
		if a := ask(t, b, query{lease: testLease(p)}); a.state != stateUncacheable || a.claimed {
			t.Fatalf("acquire: %+v, want uncacheable, not claimed", a)
		}
		other := testLease(p)
		other.class = credentialed
		if a := ask(t, b, query{lease: other}); a.state != stateWon {
			t.Fatalf("acquire with credentials: %+v, want won: the mark is not theirs", a)
		}
		if had, err := b.release(t.Context(), other); !had || err != nil {
			t.Fatalf("release: %v %v", had, err)
		}
		if a := ask(t, b, query{lease: claimer}); !a.claimed {
			t.Fatalf("the claim is free again: %+v", a)
		}
		if v := end(t, b, claimer, keep(claimer, "cacheable now")); v != verdictDone {
			t.Fatalf("finish: %v", v)
		}
		wantBody(t, b, p.loc(), "cacheable now")
		win(t, b, testLease(p), look(t, b, p.loc()).head()) // the mark is cleared
	})
}

func TestFailureBackoff(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		p := testPlace(t.Name())
		for range 2 {
			l := win(t, b, testLease(p), "")
			end(t, b, l, completion{result: resultFailed})
		}
		if a := ask(t, b, query{lease: testLease(p), hasStale: true}); a.state != stateFailing || a.remains > 500*time.Millisecond {
			t.Fatalf("acquire with a stale copy: %+v, want failing for up to 500 ms", a)
		}
		l := win(t, b, testLease(p), "") // without a copy there is no back-off yet
		end(t, b, l, completion{result: resultFailed})
		if a := ask(t, b, query{lease: testLease(p)}); a.state != stateFailing || a.remains > time.Second {
			t.Fatalf("acquire after the third failure: %+v, want failing for at most 1 s", a)
		}
	})
}

func TestEndedLockIsGone(t *testing.T) {
	for _, r := range []result{resultUncacheable, resultPersonal, resultFailed, resultGaveUp} {
		t.Run(string(r), func(t *testing.T) {
			backends(t, func(t *testing.T, b backend) {
				l := win(t, b, testLease(testPlace(t.Name())), "")
				if v := end(t, b, l, completion{result: r}); v != verdictDone {
					t.Fatalf("finish: %v", v)
				}
				if found, err := b.extend(t.Context(), l); err != nil || found != tenureRevoked {
					t.Fatalf("extend: %v %v, want revoked", found, err)
				}
			})
		})
	}
}

// eventually waits for something that happens with time, such as a lock running out.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !ok() {
		if !sleep(ctx, 2*time.Millisecond) {
			t.Fatal("did not happen within 10 s")
		}
	}
}
