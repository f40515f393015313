package rfc9111

import (
	"net/http"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

func TestLifetime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		h     http.Header
		want  time.Duration
		known bool
	}{
		{"4.2.2: no heuristics", header("Last-Modified", at(-1e6), "Date", at(0)), 0, false},
		{"4.2.1: max-age", header("Cache-Control", "max-age=60"), time.Minute, true},
		{"4.2.1: s-maxage over a longer max-age", header("Cache-Control", "max-age=3600, s-maxage=1"), time.Second, true},
		{"4.2.1: s-maxage over a shorter max-age", header("Cache-Control", "max-age=1", "Cache-Control", "s-maxage=3600"), time.Hour, true},
		{"4.2.1: an invalid s-maxage is stale", header("Cache-Control", "max-age=60, s-maxage=x"), 0, true},
		{"5.3: max-age over a past Expires", header("Cache-Control", "max-age=60", "Expires", at(-60), "Date", at(0)), time.Minute, true},
		{"5.3: max-age=0 over a future Expires", header("Cache-Control", "max-age=0", "Expires", at(60), "Date", at(0)), 0, true},
		{"5.3: Expires", header("Expires", at(60), "Date", at(0)), time.Minute, true},
		{"5.3: by the origin's clock", header("Expires", at(-3540), "Date", at(-3600)), time.Minute, true},
		{"5.3: Expires at Date", header("Expires", at(0), "Date", at(0)), 0, true},
		{"5.3: Expires before Date", header("Expires", at(300), "Date", at(400)), 0, true},
		{"5.3: zero", header("Expires", "0", "Date", at(0)), 0, true},
		{"5.3: empty", header("Expires", "", "Date", at(0)), 0, true},
		{"5.3: far in the future", header("Expires", "Fri, 31 Dec 9999 23:59:59 GMT", "Date", at(0)), MaxDelta, true},
		{"5.3: RFC 850", header("Expires", "Thursday, 18-Aug-50 02:01:18 GMT", "Date", "Thursday, 18-Aug-50 02:01:08 GMT"), 10 * time.Second, true},
		{"4.2.1: the earliest of several", header("Expires", at(60), "Expires", at(30), "Date", at(0)), 30 * time.Second, true},
		{"4.2.1: an invalid one among several", header("Expires", at(60), "Expires", "x", "Date", at(0)), 0, true},
		{"RFC 9110 6.6.1: no Date", header("Expires", at(60)), time.Minute, true},
		{"RFC 9110 6.6.1: invalid Date", header("Expires", at(60), "Date", "foo"), time.Minute, true},
		{"RFC 9110 5.1: a name spelled otherwise", http.Header{"cache-control": {"max-age=60"}}, time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Response{Status: 200, After: tt.h}
			cc := ParseCacheControl(headers.Lines(tt.h, "Cache-Control"))
			got, known := lifetime(r, cc, headers.Lines(tt.h, "Expires"), Policy{}, testNow)
			if got != tt.want || known != tt.known {
				t.Errorf("lifetime = %v, %v, want %v, %v", got, known, tt.want, tt.known)
			}
			// What the route says counts only where the response says nothing.
			withRoute, _ := lifetime(r, cc, headers.Lines(tt.h, "Expires"), Policy{FreshFor: map[int]time.Duration{200: 7 * time.Second}}, testNow)
			if tt.known && withRoute != tt.want || !tt.known && withRoute != 7*time.Second {
				t.Errorf("with FreshFor 7 s: %v", withRoute)
			}
		})
	}
}

func TestWindows(t *testing.T) {
	const absent = -1
	route := map[int]time.Duration{200: 5 * time.Minute}
	for _, tt := range []struct {
		name           string
		cacheControl   string
		freshFor       map[int]time.Duration
		staleFor       time.Duration
		staleIfError   time.Duration
		stale, ifError time.Duration
	}{
		{"default: the response says nothing, nor does the route", "max-age=60", nil, absent, absent, 0, 0},
		{"default: with FreshFor", "", route, absent, absent, 5 * time.Minute, time.Minute},
		{"default: with FreshFor, the response's own lifetime", "max-age=60", route, absent, absent, time.Minute, time.Minute},
		{"default: FreshFor of another status", "max-age=60", map[int]time.Duration{404: time.Hour}, absent, absent, 0, 0},
		{"route", "max-age=60", nil, 2 * time.Second, 3 * time.Second, 2 * time.Second, 3 * time.Second},
		{"route: off", "", route, 0, 0, 0, 0},
		{"route: one of both", "", route, absent, 0, 5 * time.Minute, 0},
		{"route: bounded", "max-age=60", nil, MaxDelta + 1, 1<<63 - 1, MaxDelta, MaxDelta},
		{"max-age=0 takes the response out of the route's windows", "max-age=0", route, time.Hour, time.Hour, 0, 0},
		{"RFC 5861: directives", "max-age=60, stale-while-revalidate=5, stale-if-error=6", nil, absent, absent, 5 * time.Second, 6 * time.Second},
		{"RFC 5861: directives win", "max-age=60, stale-while-revalidate=5, stale-if-error=0", route, time.Hour, time.Hour, 5 * time.Second, 0},
		{"RFC 5861: directives with max-age=0", "max-age=0, stale-while-revalidate=5", nil, absent, absent, 5 * time.Second, 0},
		{"RFC 5861: invalid directives", "max-age=60, stale-while-revalidate, stale-if-error=x", route, time.Hour, time.Hour, 0, 0},
		{"4.2.4: must-revalidate", "max-age=60, must-revalidate, stale-while-revalidate=5, stale-if-error=6", route, time.Hour, time.Hour, 0, 0},
		{"4.2.4: proxy-revalidate", "max-age=60, proxy-revalidate", route, time.Hour, time.Hour, 0, 0},
		{"4.2.4: s-maxage", "s-maxage=60, stale-while-revalidate=5", route, time.Hour, time.Hour, 0, 0},
		{"4.2.4: no-cache", "max-age=60, no-cache", route, time.Hour, time.Hour, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Response{Status: 200, After: header("Cache-Control", tt.cacheControl)}
			p := Policy{FreshFor: tt.freshFor, StaleFor: tt.staleFor, StaleIfError: tt.staleIfError}
			v := Judge(r, p, testNow)
			if v.Stale != tt.stale || v.StaleIfError != tt.ifError {
				t.Errorf("stale %v, if error %v, want %v, %v", v.Stale, v.StaleIfError, tt.stale, tt.ifError)
			}
			if v.MustNotStale && (v.Stale != 0 || v.StaleIfError != 0) {
				t.Error("stale in spite of MustNotStale")
			}
		})
	}
}
