package rfc9111

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
)

func TestParseRequest(t *testing.T) {
	seconds := func(n int) Delta { return Delta{Present: true, Valid: true, Value: time.Duration(n) * time.Second} }
	for _, tt := range []struct {
		name                 string
		cacheControl, pragma []string
		want                 Request
	}{
		{"5.2.1: nothing", nil, nil, Request{}},
		{"5.2.1: all", []string{"No-Cache, no-store", "only-if-cached, max-age=1, min-fresh=2, max-stale=3"}, nil,
			Request{NoStore: true, NoCache: true, OnlyIfCached: true, MaxAge: seconds(1), MinFresh: seconds(2), MaxStale: seconds(3)}},
		{"5.2.1.3: the strictest of several", []string{"min-fresh=50, min-fresh=5, min-fresh=x"}, nil, Request{MinFresh: seconds(50)}},
		{"5.2.1.2: max-stale without a limit", []string{"max-stale"}, nil, Request{MaxStale: Delta{true, true, MaxDelta}}},
		{"5.2.1.2: the strictest of two", []string{"max-stale, max-stale=3"}, nil, Request{MaxStale: seconds(3)}},
		{"5.2.3: unknown", []string{"nothing-to-see-here"}, nil, Request{}},
		{"5.4: Pragma", nil, []string{"no-cache"}, Request{NoCache: true}},
		{"5.4: Pragma has one directive", nil, []string{"max-age=0, no-store"}, Request{}},
		{"5.4: Pragma beside Cache-Control", []string{"max-age=1"}, []string{"no-cache"}, Request{MaxAge: seconds(1)}},
		{"what does not parse", []string{"max-age=x, min-fresh=x, max-stale=x"}, nil,
			Request{MaxAge: Delta{Present: true}, MinFresh: Delta{Present: true}, MaxStale: Delta{Present: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseRequest(tt.cacheControl, tt.pragma); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestRequestAccepts(t *testing.T) {
	const age10 = 10_000_000 // µs
	for _, tt := range []struct {
		name             string
		says             string
		fresh            time.Duration
		mustNotStale     bool
		accepts, content bool
	}{
		{"5.2.1: nothing", "", time.Minute, false, true, false},
		{"5.2.1.4: no-cache", "no-cache", time.Minute, false, false, false},
		{"5.2.1.1: max-age", "max-age=10", time.Minute, false, true, false},
		{"5.2.1.1: max-age, too old", "max-age=9", time.Minute, false, false, false},
		{"5.2.1.3: min-fresh", "min-fresh=50", time.Minute, false, true, false},
		{"5.2.1.3: min-fresh, not fresh enough", "min-fresh=51", time.Minute, false, false, false},
		{"5.2.1.2: max-stale", "max-stale=5", 5 * time.Second, false, true, true},
		{"5.2.1.2: max-stale, too stale", "max-stale=4", 5 * time.Second, false, true, false},
		{"5.2.2.2: must-revalidate", "max-stale", 5 * time.Second, true, true, false},
		{"5.2.1.2: max-stale and max-age", "max-stale, max-age=9", 5 * time.Second, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ParseRequest([]string{tt.says}, nil)
			e := &entry.Entry{Fresh: tt.fresh, MustNotStale: tt.mustNotStale}
			if got := r.Accepts(e, age10); got != tt.accepts {
				t.Errorf("Accepts: %v", got)
			}
			if got := r.Tolerates(e, age10); got != tt.content {
				t.Errorf("Tolerates: %v", got)
			}
		})
	}
}

// A directive more makes a stored response less usable, or changes nothing. Only max-stale makes it more usable, where there was none, and
// never one that must not be served stale.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ says, more string }{
		{"max-age=10", "min-fresh=5"}, {"max-age=5", "max-age=50"}, {"min-fresh=50", "min-fresh=5"}, {"min-fresh=50", "min-fresh=x"},
		{"max-stale=5", "max-stale"}, {"max-stale", "max-stale=x"}, {"max-stale, max-age=60", "no-cache"}, {"no-store", "only-if-cached"},
		{"MAX-AGE=\"5\"", "x=\"no-cache, y\", , community=\"UCI\""}, {"max-age=99999999999999999999", "min-fresh=-1"}, {"no-store, no-cache, only-if-cached", "x, y=1"}, {"max-stale=2", "max-age=60"},
	} {
		f.Add(seed.says, seed.more, uint32(60), uint32(30), false)
		f.Add(seed.says, seed.more, uint32(27), uint32(30), false)
		f.Add(seed.says, seed.more, uint32(27), uint32(30), true)
	}
	f.Fuzz(func(t *testing.T, says, more string, fresh, age uint32, mustNotStale bool) {
		e := &entry.Entry{Fresh: time.Duration(fresh) * time.Second, MustNotStale: mustNotStale}
		now := int64(age) * time.Second.Microseconds()
		usable := func(r Request) bool { return e.FreshAt(now) > 0 && r.Accepts(e, now) || r.Tolerates(e, now) }

		one, both := ParseRequest([]string{says}, nil), ParseRequest([]string{says, more}, nil)
		if usable(both) && !usable(one) && (one.MaxStale.Present || !both.MaxStale.Present) {
			t.Errorf("%q is not content, %q beside it makes it so", says, more)
		}
		if one.NoStore && !both.NoStore || one.NoCache && !both.NoCache || one.OnlyIfCached && !both.OnlyIfCached {
			t.Errorf("%q takes back %q", more, says)
		}
		if swapped := ParseRequest([]string{more, says}, nil); swapped != both {
			t.Errorf("%q and %q: %+v, in the other order %+v", says, more, both, swapped)
		}
		if nothing := (Request{}); ParseRequest([]string{more}, nil) == nothing && both != one {
			t.Errorf("%q says nothing, but makes %+v of %+v", more, both, one)
		}
		if e.FreshAt(now) <= 0 && mustNotStale && usable(both) {
			t.Errorf("%q, %q: stale against the word of the server", says, more)
		}
		if late := -e.FreshAt(now); late >= 0 && usable(both) && late > both.MaxStale.Value {
			t.Errorf("%q, %q: content with what has been stale for %v", says, more, late)
		}
		if r := ParseRequest([]string{says, more, "no-cache"}, nil); usable(r) {
			t.Errorf("%q, %q: content in spite of no-cache", says, more)
		}
		if r := ParseRequest(nil, []string{says}); r != (Request{NoCache: one.NoCache}) {
			t.Errorf("Pragma: %q: %+v", says, r)
		}
		if again := ParseRequest([]string{asField(both)}, nil); again != both {
			t.Errorf("%+v is %q, which is %+v", both, asField(both), again)
		}
	})
}

// asField is the Cache-Control that says r.
func asField(r Request) string {
	var directives []string
	for name, said := range map[string]bool{"no-store": r.NoStore, "no-cache": r.NoCache, "only-if-cached": r.OnlyIfCached} {
		if said {
			directives = append(directives, name)
		}
	}
	for name, d := range map[string]Delta{"max-age": r.MaxAge, "min-fresh": r.MinFresh, "max-stale": r.MaxStale} {
		switch {
		case d.Valid:
			directives = append(directives, fmt.Sprintf("%s=%d", name, d.Value/time.Second))
		case d.Present:
			directives = append(directives, name+"=x")
		}
	}
	return strings.Join(directives, ", ")
}
