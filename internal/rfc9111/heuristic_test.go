package rfc9111

import (
	"net/http"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
)

// guesses is the policy of a route that guesses up to an hour, and has windows of its own.
var guesses = Policy{Heuristic: time.Hour, StaleFor: time.Hour, StaleIfError: time.Hour, Targeted: []string{"CDN-Cache-Control"}}

func TestHeuristic(t *testing.T) {
	const day = 24 * 3600
	modified := func(ago int, more ...string) http.Header {
		return header(append([]string{"Last-Modified", at(-ago), "Date", at(0)}, more...)...)
	}
	for _, tt := range []struct {
		name  string
		h     http.Header
		fresh time.Duration // 0: nothing is guessed
	}{
		{"4.2.2: a tenth", modified(600), time.Minute},
		{"4.2.2: of a short time", modified(5), 500 * time.Millisecond},
		{"4.2.2: at most the limit", modified(day), time.Hour},
		{"4.2.2: up to the Date, by the origin's clock", header("Last-Modified", at(-3600-600), "Date", at(-3600)), time.Minute},
		{"RFC 9110 6.6.1: without Date up to now", header("Last-Modified", at(-600)), time.Minute},
		{"RFC 9110 6.6.1: an invalid Date", header("Last-Modified", at(-600), "Date", "x"), time.Minute},
		{"a Date that lies ahead does not lengthen it", header("Last-Modified", at(-600), "Date", at(day)), time.Minute},
		{"nothing to go by", header("Date", at(0)), 0},
		{"an ETag is nothing to go by", header("Date", at(0), "Etag", `"a"`), 0},
		{"an invalid Last-Modified", header("Last-Modified", "0", "Date", at(0)), 0},
		{"two of them", modified(600, "Last-Modified", at(-700)), 0},
		{"modified just now", modified(0), 0},
		{"modified after it was made", modified(-60), 0},
		{"4.2.2: max-age=0", modified(600, "Cache-Control", "max-age=0"), 0},
		{"4.2.2: an invalid lifetime is one", modified(600, "Cache-Control", "max-age=x"), 0},
		{"4.2.2: s-maxage=0", modified(600, "Cache-Control", "s-maxage=0"), 0},
		{"4.2.2: an Expires that is none", modified(600, "Expires", "0"), 0},
		{"RFC 9213: a lifetime in a targeted field", modified(600, "Cdn-Cache-Control", "max-age=0"), 0},
		{"RFC 9213: in one that does not parse", modified(600, "Cdn-Cache-Control", "max-age=0, &"), 0},
		{"RFC 9213: in a field that it displaces", modified(600, "Cdn-Cache-Control", "public", "Cache-Control", "max-age=0"), 0},
		{"RFC 9213: no-store in a field that it displaces", modified(600, "Cdn-Cache-Control", "public", "Cache-Control", "no-store"), 0},
		{"RFC 9213: private in a field that it displaces", modified(600, "Cdn-Cache-Control", "public", "Cache-Control", "private"), 0},
		{"RFC 9213: Expires, which it displaces", modified(600, "Cdn-Cache-Control", "public", "Expires", "0"), 0},
		{"RFC 9213: a targeted field for somebody else", modified(600, "Other-Cache-Control", "max-age=0"), time.Minute},
		{"5.2.2.5: no-store", modified(600, "Cache-Control", "no-store"), 0},
		{"5.2.2.3: nor where must-understand lifts it", modified(600, "Cache-Control", "no-store, must-understand"), 0},
		{"5.2.2.7: private", modified(600, "Cache-Control", "private"), 0},
		{"5.2.2.7: private with fields is about them", modified(600, "Cache-Control", `private="x-a"`), time.Minute},
		{"5.2.2.4: no-cache", modified(600, "Cache-Control", "no-cache"), 0},
		{"5.4: Pragma", modified(600, "Pragma", "No-Cache"), 0},
		{"other directives", modified(600, "Cache-Control", "public, must-revalidate, foo"), time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(Response{Status: 200, After: tt.h}, guesses, testNow)
			if v.Fresh != tt.fresh || tt.fresh > 0 && v.Reason != "" {
				t.Errorf("fresh for %v, %q, want %v", v.Fresh, v.Reason, tt.fresh)
			}
			if tt.fresh > 0 && (v.Stale != 0 || v.StaleIfError != 0 || !v.MustNotStale) {
				t.Errorf("a guess has windows: %+v", v)
			}
			if off := Judge(Response{Status: 200, After: tt.h}, Policy{StaleFor: -1, StaleIfError: -1}, testNow); off.Fresh != 0 {
				t.Errorf("without the option: fresh for %v", off.Fresh)
			}
		})
	}
}

// What the route or the handler says itself is no guess.
func TestHeuristicGivesWay(t *testing.T) {
	h := header("Last-Modified", at(-600), "Date", at(0))
	p := guesses
	p.FreshFor = map[int]time.Duration{200: 7 * time.Second}
	if v := Judge(Response{Status: 200, After: h}, p, testNow); v.Fresh != 7*time.Second || v.MustNotStale || v.Stale != time.Hour {
		t.Errorf("with FreshFor: %+v", v)
	}
	if v := Judge(Response{Status: 404, After: h}, p, testNow); v.Fresh != time.Minute || !v.MustNotStale {
		t.Errorf("FreshFor of another status: %+v", v)
	}
	h.Set("Cache-Control", "max-age=9")
	if v := Judge(Response{Status: 200, After: h}, guesses, testNow); v.Fresh != 9*time.Second || v.MustNotStale || v.Stale != time.Hour {
		t.Errorf("with max-age: %+v", v)
	}
}

func TestHeuristicStatuses(t *testing.T) {
	byDefault := map[int]bool{200: true, 203: true, 204: true, 300: true, 301: true, 308: true, 404: true, 405: true, 410: true, 414: true, 501: true}
	never := map[int]bool{206: true, 304: true, 500: true, 502: true, 503: true, 504: true}
	for status := 100; status <= 999; status++ {
		h := header("Last-Modified", at(-600), "Date", at(0))
		if v := Judge(Response{Status: status, After: h}, guesses, testNow); (v.Reason == "") != byDefault[status] {
			t.Errorf("RFC 9110 15.1: %d: %q", status, v.Reason)
		}
		h.Set("Cache-Control", "public")
		if v := Judge(Response{Status: status, After: h}, guesses, testNow); (v.Reason == "") != (status >= 200 && !never[status]) {
			t.Errorf("4.2.2: %d with public: %q", status, v.Reason)
		}
		h.Set("Cache-Control", "public, must-understand")
		if v := Judge(Response{Status: status, After: h}, guesses, testNow); v.Reason == "" && !understood(status) {
			t.Errorf("5.2.2.3: %d, which is not understood, is stored", status)
		}
	}
}

// A guess makes nothing shareable in spite of credentials (3.5).
func TestHeuristicCredentials(t *testing.T) {
	for _, tt := range []struct {
		cacheControl string
		credentials  Credentials
		reason       string
		scope        entry.Scope
	}{
		{"", NoCredentials, "", entry.Anonymous},
		{"", OnlyAuthorization, "credentials", entry.Anonymous},
		{"", OtherCredentials, "credentials", entry.Anonymous},
		{"must-revalidate", NoCredentials, "", entry.Anonymous},
		{"must-revalidate", OnlyAuthorization, "credentials", entry.Anonymous},
		{"proxy-revalidate", OnlyAuthorization, "credentials", entry.Anonymous},
		{"public", OnlyAuthorization, "", entry.Everyone},
		{"public", OtherCredentials, "", entry.Everyone},
	} {
		h := header("Last-Modified", at(-600), "Date", at(0), "Cache-Control", tt.cacheControl)
		p := guesses
		p.Credentials = tt.credentials
		if v := Judge(Response{Status: 200, After: h}, p, testNow); v.Reason != tt.reason || v.Scope != tt.scope || v.Personal != (tt.reason != "") {
			t.Errorf("%q for credentials %v: %q, scope %v, personal %v", tt.cacheControl, tt.credentials, v.Reason, v.Scope, v.Personal)
		}
	}
}

// Whatever a response says: a guess is short enough, gives way to every lifetime, has no windows, and lifts nothing but by public.
func FuzzHeuristic(f *testing.F) {
	f.Add("public", "", "Sun, 06 Nov 1994 08:49:37 GMT", "", 200)
	f.Add("max-age=0", "no-store", "0", "Monday, 15-Jun-26 12:00:00 GMT", 404)
	f.Fuzz(func(t *testing.T, cacheControl, targeted, modified, made string, status int) {
		h := http.Header{"Cache-Control": {cacheControl}, "Cdn-Cache-Control": {targeted}, "Last-Modified": {modified}, "Date": {made}}
		p := guesses
		with := Judge(Response{Status: status, After: h}, p, testNow)
		p.Heuristic = 0
		without := Judge(Response{Status: status, After: h}, p, testNow)
		switch {
		case with.Fresh == without.Fresh && with.Reason == without.Reason:
			return
		case without.Reason != "no-freshness" && without.Reason != "credentials":
			t.Errorf("a guess overrules %q", without.Reason)
		case with.Fresh <= 0 || with.Fresh > guesses.Heuristic || with.Stale != 0 || with.StaleIfError != 0:
			t.Errorf("%+v", with)
		case with.Scope > without.Scope || with.Scope == entry.Authorization:
			t.Errorf("scope %v, without a guess %v", with.Scope, without.Scope)
		}
		if modifiedAt, ok := ParseDate(modified, testNow); !ok || with.Fresh > testNow.Sub(modifiedAt)/10 {
			t.Errorf("%v from %q", with.Fresh, modified)
		}
	})
}
