package rfc9111

import (
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
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
		stored           string
		accepts, content bool
	}{
		{"5.2.1: nothing", "", time.Minute, "", true, false},
		{"5.2.1.4: no-cache", "no-cache", time.Minute, "", false, false},
		{"5.2.1.1: max-age", "max-age=10", time.Minute, "", true, false},
		{"5.2.1.1: max-age, too old", "max-age=9", time.Minute, "", false, false},
		{"5.2.1.3: min-fresh", "min-fresh=50", time.Minute, "", true, false},
		{"5.2.1.3: min-fresh, not fresh enough", "min-fresh=51", time.Minute, "", false, false},
		{"5.2.1.2: max-stale", "max-stale=5", 5 * time.Second, "max-age=5", true, true},
		{"5.2.1.2: max-stale, too stale", "max-stale=4", 5 * time.Second, "", true, false},
		{"5.2.2.2: must-revalidate", "max-stale", 5 * time.Second, "must-revalidate", true, false},
		{"5.2.1.2: max-stale and max-age", "max-stale, max-age=9", 5 * time.Second, "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ParseRequest([]string{tt.says}, nil)
			e := &entry.Entry{Fresh: tt.fresh, Header: []headers.Field{{Op: headers.Set, Name: "cache-control", Value: tt.stored}}}
			if got := r.Accepts(e, age10); got != tt.accepts {
				t.Errorf("Accepts: %v", got)
			}
			if got := r.Tolerates(e, nil, age10); got != tt.content {
				t.Errorf("Tolerates: %v", got)
			}
			if r.MaxStale.Present && r.Tolerates(&entry.Entry{Fresh: tt.fresh, Header: []headers.Field{{Op: headers.Set, Name: "Cdn-Cache-Control", Value: "no-cache"}}}, []string{"CDN-Cache-Control"}, age10) {
				t.Error("a targeted field does not forbid it")
			}
		})
	}
}
