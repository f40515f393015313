package rfc9111

import (
	"net/http"
	"testing"
	"time"
)

// Who says how long a response may be used, from the first to the last.
func TestPrecedence(t *testing.T) {
	all := header("Cdn-Cache-Control", "max-age=4", "Surrogate", "max-age=5", "Cache-Control", "s-maxage=6, max-age=7", "Expires", at(8), "Date", at(0))
	less := func(names ...string) http.Header {
		h := all.Clone()
		for _, name := range names {
			h.Del(name)
		}
		return h
	}
	with := func(name, value string) http.Header {
		h := all.Clone()
		h.Set(name, value)
		return h
	}
	route := Policy{FreshFor: map[int]time.Duration{200: 9 * time.Second}, StaleFor: -1, StaleIfError: -1, Targeted: []string{"CDN-Cache-Control", "Surrogate"}}
	override := route
	override.Override = "max-age=3"
	untargeted := route
	untargeted.Targeted = nil
	guess := Policy{Heuristic: 10 * time.Second}
	for _, tt := range []struct {
		name   string
		h      http.Header
		p      Policy
		fresh  int
		reason string
	}{
		{"the override", all, override, 3, ""},
		{"the override over no-store", with("Cache-Control", "no-store"), override, 3, ""},
		{"RFC 9213 2.2: the first targeted field", all, route, 4, ""},
		{"RFC 9213 2.2: over no-store", with("Cache-Control", "no-store"), route, 4, ""},
		{"RFC 9213 2.2: and over a lifetime", with("Cdn-Cache-Control", "no-store"), route, 9, "no-store"},
		{"RFC 9213 2.2: the second", less("Cdn-Cache-Control"), route, 5, ""},
		{"RFC 9213 2.1: one that does not parse is none", with("Cdn-Cache-Control", "max-age=4, &"), route, 5, ""},
		{"RFC 9213 2.1: an empty one is none", with("Cdn-Cache-Control", ""), route, 5, ""},
		{"RFC 9213 2.2: without a lifetime, neither Cache-Control nor Expires has one", with("Cdn-Cache-Control", "public"), route, 9, ""},
		{"RFC 9213: by option only", all, untargeted, 6, ""},
		{"5.2.2.10: s-maxage", less("Cdn-Cache-Control", "Surrogate"), route, 6, ""},
		{"5.3: Expires", less("Cdn-Cache-Control", "Surrogate", "Cache-Control"), route, 8, ""},
		{"the route", header(), route, 9, ""},
		{"4.2.2: the route before a guess", header("Last-Modified", at(-1e6)), Policy{FreshFor: route.FreshFor, Heuristic: time.Hour}, 9, ""},
		{"4.2.2: everybody before a guess", with("Last-Modified", at(-1e6)), guess, 6, ""},
		{"4.2.2: a guess", header("Last-Modified", at(-1e6)), guess, 10, ""},
		{"nobody", header(), Policy{}, 0, "no-freshness"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(Response{Status: 200, After: tt.h}, tt.p, testNow)
			if v.Fresh != time.Duration(tt.fresh)*time.Second || v.Reason != tt.reason {
				t.Errorf("fresh for %v, %q, want %d s, %q", v.Fresh, v.Reason, tt.fresh, tt.reason)
			}
		})
	}

	// What outer middleware forbids and the handler left is forbidden whatever is chosen.
	for _, directive := range []string{"no-store", "private", "no-cache"} {
		before := header("Cache-Control", directive)
		after := with("Cache-Control", directive)
		for name, p := range map[string]Policy{"targeted": route, "overridden": override} {
			if v := Judge(Response{Status: 200, Before: before, After: after}, p, testNow); v.Reason != directive {
				t.Errorf("%s of outer middleware, %s: %q", directive, name, v.Reason)
			}
		}
	}
}

func TestOmitSetCookie(t *testing.T) {
	r := Response{Status: 200, After: header("Cache-Control", "max-age=60", "Set-Cookie", "a=b")}
	v := Judge(r, Policy{OmitSetCookie: true}, testNow)
	if v.Reason != "" || len(v.Omit) != 1 || v.Omit[0] != "Set-Cookie" {
		t.Errorf("%+v", v)
	}
}
