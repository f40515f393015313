package core

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
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

// Whatever a response names, what goes is on the host of the request, and something that a client can ask for.
func FuzzRelated(f *testing.F) {
	f.Add("shop.example", "/a/b?c", "/d?e#f")
	f.Add("shop.example", "//a/b", "../../c")
	f.Add("Shop.example:80", "/a", "http://SHOP.example/x")
	f.Add("shop.example", "/a", "https://other.example/x")
	f.Add("shop.example", "/a", "//other.example:443/x")
	f.Add("shop.example", "/a", "http://shop.example@other.example/x")
	f.Add("shop.example", "/a", "http://other.example#@shop.example/x")
	f.Add("shop.example", "/a", "http://evilshop.example/x")
	f.Add("shop.example:8080", "/a", "http://shop.example/x")
	f.Add("Kitty.example", "/a", "http://\u212aitty.example/x")
	f.Add("shop.example", "http://other.example/a", "x")
	f.Add("shop.example", "other.example:443", "x")
	f.Add("", "/a", "http:///x")
	f.Add("shop.example", "*", "//")
	f.Fuzz(func(t *testing.T, host, target, location string) {
		to, ok := authority(location)
		if !ok && !strings.HasPrefix(target, "/") {
			to, ok = authority(target)
		}
		if !ok {
			to = host
		}
		for _, name := range []string{"Location", "content-location"} {
			for _, got := range related(Key{Host: host, Target: target}, http.Header{name: {location}}) {
				if !sameAuthority(to, host) {
					t.Errorf("%q at %q names %q: %q goes", target, host, location, got)
				}
				if strings.ContainsFunc(got, func(c rune) bool { return c < ' ' || c == 0x7f || c == '#' }) {
					t.Errorf("%q at %q names %q: %q goes, for which no client can ask", target, host, location, got)
				}
			}
		}
	})
}

// authority is that of an absolute http URL, or of one that lacks the scheme only (RFC 3986 3.2), if it is not empty.
func authority(ref string) (string, bool) {
	scheme, rest, ok := strings.Cut(strings.Trim(ref, " \t"), "//")
	if !ok || scheme != "" && !strings.EqualFold(scheme, "http:") && !strings.EqualFold(scheme, "https:") {
		return "", false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if decoded, err := url.PathUnescape(rest); err == nil {
		rest = decoded
	}
	return rest, rest != ""
}

// sameAuthority reports whether two are the same letter by letter, but for the case of ASCII and a default port.
func sameAuthority(a, b string) bool {
	bare := func(s string) string {
		if rest, ok := strings.CutSuffix(s, ":80"); ok {
			return rest
		}
		return strings.TrimSuffix(s, ":443")
	}
	a, b = bare(a), bare(b)
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (a[i]^0x20 != b[i] || a[i]|0x20 < 'a' || a[i]|0x20 > 'z') {
			return false
		}
	}
	return true
}
