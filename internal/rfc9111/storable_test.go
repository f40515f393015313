package rfc9111

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
)

// strict is the policy of a route without options.
var strict = Policy{StaleFor: -1, StaleIfError: -1}

func freshFor(d time.Duration) Policy {
	return Policy{FreshFor: map[int]time.Duration{200: d}, StaleFor: -1, StaleIfError: -1}
}

func TestJudgeReason(t *testing.T) {
	fresh := func(fields ...string) http.Header {
		return header(append([]string{"Cache-Control", "max-age=60"}, fields...)...)
	}
	says := func(cacheControl string) http.Header { return header("Cache-Control", "max-age=60, "+cacheControl) }
	covers := func(names ...string) Policy {
		p := strict
		p.Covered = func(name string) bool { return slices.Contains(names, name) }
		return p
	}
	for _, tt := range []struct {
		name   string
		r      Response
		p      Policy
		reason string
	}{
		{"3: explicit freshness", Response{Status: 200, After: fresh()}, strict, ""},
		{"3: the route's freshness", Response{Status: 200}, freshFor(time.Minute), ""},
		{"3: any status with explicit freshness", Response{Status: 404, After: fresh()}, strict, ""},
		{"3: a redirect with explicit freshness", Response{Status: 302, After: fresh()}, strict, ""},
		{"3: an unknown status with explicit freshness", Response{Status: 599, After: fresh()}, strict, ""},
		{"3: the largest status", Response{Status: 999, After: fresh()}, strict, ""},
		{"3: no freshness", Response{Status: 200}, strict, "no-freshness"},
		{"4.2.2: Last-Modified is no freshness", Response{Status: 200, After: header("Last-Modified", at(-1e6))}, strict, "no-freshness"},
		{"FreshFor is for its status only", Response{Status: 404}, freshFor(time.Minute), "no-freshness"},
		{"FreshForStatus", Response{Status: 404}, Policy{FreshFor: map[int]time.Duration{404: 1}}, ""},
		{"the handler wins over FreshFor", Response{Status: 200, After: header("Cache-Control", "max-age=0")}, freshFor(time.Minute), "no-freshness"},
		{"the handler's Expires wins over FreshFor", Response{Status: 200, After: header("Expires", "0")}, freshFor(time.Minute), "no-freshness"},
		{"other directives leave FreshFor", Response{Status: 200, After: header("Cache-Control", "public")}, freshFor(time.Minute), ""},
		{"4.2: older than its lifetime", Response{Status: 200, After: fresh("Age", "60")}, strict, "no-freshness"},
		{"4.2: not quite", Response{Status: 200, After: fresh("Age", "59")}, strict, ""},
		{"4.2: apparently older than its lifetime", Response{Status: 200, After: fresh("Date", at(-7200))}, strict, "no-freshness"},
		{"4.2.4: older than its lifetime, within its stale window", Response{Status: 200, After: header("Age", "90")}, freshFor(time.Minute), ""},
		{"4.2.4: older than both", Response{Status: 200, After: header("Age", "120")}, freshFor(time.Minute), "no-freshness"},
		{"RFC 5861 3: a window makes it useful", Response{Status: 200, After: header("Cache-Control", "max-age=0, stale-while-revalidate=9")}, strict, ""},
		{"RFC 5861 4: a window makes it useful", Response{Status: 200, After: header("Cache-Control", "max-age=0, stale-if-error=9")}, strict, ""},
		{"RFC 5861 3: a window is no freshness", Response{Status: 200, After: header("Cache-Control", "stale-while-revalidate=9")}, strict, "no-freshness"},

		{"3: no status", Response{Status: 0, After: fresh()}, strict, "status"},
		{"3: no such status", Response{Status: 1000, After: fresh()}, strict, "status"},
		{"3: interim", Response{Status: 103, After: fresh()}, strict, "informational"},
		{"3.4: 206", Response{Status: 206, After: fresh()}, strict, "partial"},
		{"4.3.4: 304", Response{Status: 304, After: fresh()}, strict, "not-modified"},
		{"RFC 9110 14.4: Content-Range means nothing in a 200", Response{Status: 200, After: fresh("Content-Range", "bytes 0-1/2")}, strict, ""},

		{"5.2.2.5: no-store", Response{Status: 200, After: says("no-store")}, strict, "no-store"},
		{"5.2.2.5: no-store without freshness", Response{Status: 200, After: header("Cache-Control", "no-store")}, strict, "no-store"},
		{"5.2.2.5: no-store over FreshFor", Response{Status: 200, After: header("Cache-Control", "no-store")}, freshFor(time.Minute), "no-store"},
		{"5.2.2.5: no-store of outer middleware", Response{Status: 200, Before: header("Cache-Control", "no-store"), After: header("Cache-Control", "no-store")}, freshFor(time.Minute), "no-store"},
		{"5.2.2.5: no-store of outer middleware, replaced", Response{Status: 200, Before: header("Cache-Control", "no-store"), After: fresh()}, strict, ""},
		{"5.2.2.5: no-store in a name spelled otherwise", Response{Status: 200, After: http.Header{"cache-control": {"no-store"}}}, freshFor(time.Minute), "no-store"},
		{"5.2.2.7: private", Response{Status: 200, After: says("private")}, strict, "private"},
		{"5.2.2.7: private with fields", Response{Status: 200, After: says(`private="set-cookie"`)}, strict, ""},
		{"5.2.2.7: private with a cookie among the fields", Response{Status: 200, After: header("Cache-Control", `max-age=60, private="set-cookie"`, "Set-Cookie", "a=b")}, strict, ""},
		{"5.2.2.7: private with other fields than the cookie", Response{Status: 200, After: header("Cache-Control", `max-age=60, private="x-a"`, "Set-Cookie", "a=b")}, strict, "set-cookie"},
		{"5.2.2.7: private with and without fields", Response{Status: 200, After: says(`private="x-a", private`)}, strict, "private"},
		{"5.2.2.7: private with fields that make the response", Response{Status: 200, After: says(`private="x-a, content-type"`)}, strict, "private"},
		{"5.2.2.7: private with no fields", Response{Status: 200, After: says(`private=""`)}, strict, "private"},
		{"5.2.2.7: private with what is no field", Response{Status: 200, After: says(`private="a b"`)}, strict, "private"},
		{"5.2.2.4: no-cache", Response{Status: 200, After: says("no-cache")}, strict, "no-cache"},
		{"5.2.2.4: no-cache with fields", Response{Status: 200, After: says(`no-cache="x-a"`)}, strict, ""},
		{"5.2.2.4: no-cache with fields that make the response", Response{Status: 200, After: says(`no-cache="etag"`)}, strict, "no-cache"},
		{"5.2.2.4: no-cache with a validator", Response{Status: 200, After: header("Cache-Control", "no-cache", "Etag", `"a"`)}, strict, ""},
		{"5.2.2.4: no-cache with Last-Modified", Response{Status: 200, After: header("Cache-Control", "no-cache", "Last-Modified", at(-60))}, strict, ""},
		{"4.3.1: no-cache with what is no validator", Response{Status: 200, After: header("Cache-Control", "no-cache", "Etag", "a", "Last-Modified", "0")}, strict, "no-cache"},
		{"4.3.1: max-age=0 with a validator", Response{Status: 200, After: header("Cache-Control", "max-age=0", "Etag", `W/"a"`)}, strict, ""},
		{"4.3.1: older than its lifetime, with a validator", Response{Status: 200, After: fresh("Age", "90", "Etag", `"a"`)}, strict, ""},
		{"4.3.1: a validator is no freshness", Response{Status: 200, After: header("Etag", `"a"`)}, strict, "no-freshness"},
		{"RFC 9110 13.2.1: only a 200 is validated", Response{Status: 404, After: header("Cache-Control", "max-age=0", "Etag", `"a"`)}, strict, "no-freshness"},
		{"RFC 9110 8.8.3: of two tags neither counts", Response{Status: 200, After: header("Cache-Control", "max-age=0", "Etag", `"a"`, "Etag", `"b"`)}, strict, "no-freshness"},
		{"5.4: Pragma is ignored", Response{Status: 200, After: fresh("Pragma", "no-cache")}, strict, ""},
		{"5.2.2.3: must-understand with a known status", Response{Status: 200, After: says("must-understand")}, strict, ""},
		{"5.2.2.3: must-understand with an unknown status", Response{Status: 599, After: says("must-understand")}, strict, "status"},
		{"5.2.2.3: must-understand lifts no-store", Response{Status: 200, After: says("no-store, must-understand")}, strict, ""},
		{"5.2.2.3: but not in a malformed list", Response{Status: 200, After: says("no-store; must-understand")}, strict, "no-store"},
		{"5.2.2.3: but not with an unknown status", Response{Status: 599, After: says("no-store, must-understand")}, strict, "status"},
		{"5.2.2.3: and not the no-store of outer middleware",
			Response{Status: 200, Before: header("Cache-Control", "no-store"), After: header("Cache-Control", "no-store", "Cache-Control", "max-age=60, must-understand")}, strict, "no-store"},

		{"7.3: Set-Cookie", Response{Status: 200, After: fresh("Set-Cookie", "a=b")}, strict, "set-cookie"},
		{"7.3: Set-Cookie of outer middleware", Response{Status: 200, Before: header("Set-Cookie", "a=b"), After: fresh("Set-Cookie", "a=b")}, strict, "set-cookie"},
		{"7.3: Set-Cookie in a name spelled otherwise", Response{Status: 200, After: http.Header{"Cache-Control": {"max-age=60"}, "set-cookie": {"a=b"}}}, strict, "set-cookie"},
		{"7.3: Set-Cookie with public", Response{Status: 200, After: header("Cache-Control", "max-age=60, public", "Set-Cookie", "a=b")}, strict, "set-cookie"},

		{"4.1: Vary", Response{Status: 200, After: fresh("Vary", "Accept-Language")}, strict, ""},
		{"4.1: Vary: *", Response{Status: 200, After: fresh("Vary", "Accept, *")}, strict, "vary-star"},
		{"4.1: Vary: * of outer middleware", Response{Status: 200, Before: header("Vary", "*"), After: fresh("Vary", "*")}, strict, "vary-star"},
		{"4.1: Vary: Cookie", Response{Status: 200, After: fresh("Vary", "Accept, cookie")}, strict, "vary-credentials"},
		{"4.1: Vary: Authorization", Response{Status: 200, After: fresh("Vary", "authorization")}, strict, "vary-credentials"},
		{"4.1: Vary: Proxy-Authorization", Response{Status: 200, After: fresh("Vary", "Proxy-Authorization")}, strict, "vary-credentials"},
		{"4.1: Vary: Cookie of outer middleware", Response{Status: 200, Before: header("Vary", "Cookie"), After: fresh("Vary", "Cookie")}, strict, "vary-credentials"},
		{"4.1: Vary: Cookie, covered", Response{Status: 200, After: fresh("Vary", "Cookie")}, covers("Cookie"), ""},
		{"4.1: Vary: Cookie and Authorization, one of them covered", Response{Status: 200, After: fresh("Vary", "Cookie, Authorization")}, covers("Cookie"), "vary-credentials"},
		{"RFC 9110 12.5.3: a coding that was refused", Response{Status: 200, After: fresh("Content-Encoding", "gzip"), AcceptEncoding: []string{"gzip;q=0"}}, strict, "content-encoding"},

		{"500", Response{Status: 500}, freshFor(time.Minute), "error"},
		{"503 without freshness, no-store", Response{Status: 503, After: header("Cache-Control", "no-store")}, strict, "error"},
		{"501 is no failure", Response{Status: 501}, strict, "no-freshness"},
		{"504 with explicit freshness", Response{Status: 504, After: fresh()}, strict, ""},
		{"504 with a lifetime of the route", Response{Status: 504}, Policy{FreshFor: map[int]time.Duration{504: time.Second}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := tt.r.Before.Clone(), tt.r.After.Clone()
			v := Judge(tt.r, tt.p, testNow)
			if v.Reason != tt.reason {
				t.Errorf("Reason = %q, want %q", v.Reason, tt.reason)
			}
			if v.Failure != (tt.reason == "error") {
				t.Errorf("Failure = %v", v.Failure)
			}
			if v.Personal {
				t.Error("personal although the request had no credentials")
			}
			if !reflect.DeepEqual(tt.r.Before, before) || !reflect.DeepEqual(tt.r.After, after) {
				t.Error("a header was modified")
			}
		})
	}
}

func TestJudgeCredentials(t *testing.T) {
	const a, o = OnlyAuthorization, OtherCredentials
	for _, tt := range []struct {
		name         string
		status       int
		cacheControl string
		cookie       bool
		credentials  Credentials
		reason       string
		personal     bool
		scope        entry.Scope
	}{
		{"3.5: no credentials", 200, "max-age=60", false, NoCredentials, "", false, entry.Anonymous},
		{"3.5: no credentials, private", 200, "max-age=60, private", false, NoCredentials, "private", false, entry.Anonymous},
		{"3.5: Authorization", 200, "max-age=60", false, a, "credentials", true, entry.Anonymous},
		{"3.5: Authorization, public", 200, "max-age=60, public", false, a, "", false, entry.Everyone},
		{"3.5: Authorization, s-maxage", 200, "s-maxage=60", false, a, "", false, entry.Everyone},
		{"3.5: Authorization, must-revalidate", 200, "max-age=60, must-revalidate", false, a, "", false, entry.Authorization},
		{"3.5: Authorization, proxy-revalidate", 200, "max-age=60, proxy-revalidate", false, a, "credentials", true, entry.Anonymous},
		{"3.5: Authorization, invalid s-maxage", 200, "s-maxage=x", false, a, "credentials", true, entry.Anonymous},
		{"3.5: Authorization, malformed public", 200, "max-age=60, public;", false, a, "credentials", true, entry.Anonymous},
		{"3.5: others", 200, "max-age=60", false, o, "credentials", true, entry.Anonymous},
		{"3.5: others, public", 200, "max-age=60, public", false, o, "", false, entry.Everyone},
		{"3.5: others, s-maxage", 200, "s-maxage=60", false, o, "", false, entry.Everyone},
		{"3.5: others, must-revalidate", 200, "max-age=60, must-revalidate", false, o, "credentials", true, entry.Authorization},
		{"3.5: no freshness says nothing about others", 200, "", false, o, "credentials", true, entry.Anonymous},
		{"3.5: no-store says nothing about others", 200, "no-store", false, o, "no-store", true, entry.Anonymous},
		{"3.5: no-store for everybody", 200, "no-store, public", false, o, "no-store", false, entry.Everyone},
		{"5.2.2.7: private and public", 200, "max-age=60, private, public", false, o, "private", true, entry.Everyone},
		{"7.3: Set-Cookie and public", 200, "max-age=60, public", true, o, "set-cookie", true, entry.Everyone},
		{"a failure may be personal", 500, "", false, o, "error", true, entry.Anonymous},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Response{Status: tt.status, After: header("Cache-Control", tt.cacheControl)}
			if tt.cookie {
				r.After.Set("Set-Cookie", "a=b")
			}
			p := strict
			p.Credentials = tt.credentials
			v := Judge(r, p, testNow)
			if v.Reason != tt.reason || v.Personal != tt.personal || v.Scope != tt.scope {
				t.Errorf("Reason %q, Personal %v, Scope %v, want %q, %v, %v", v.Reason, v.Personal, v.Scope, tt.reason, tt.personal, tt.scope)
			}
		})
	}
}

func TestJudgeFillsIn(t *testing.T) {
	r := Response{
		Status: 200,
		Before: header("Vary", "Origin"),
		After:  header("Vary", "Origin", "Vary", "accept-language, Accept", "Cache-Control", "max-age=60, must-revalidate", "Age", "7"),
	}
	want := Verdict{
		Scope: entry.Authorization, Age: 7 * time.Second, Fresh: time.Minute, MustNotStale: true, Vary: []string{"Accept", "Accept-Language"},
	}
	if got := Judge(r, freshFor(time.Hour), testNow); !reflect.DeepEqual(got, want) {
		t.Errorf("Judge =\n%+v, want\n%+v", got, want)
	}
}

// What forbids storing forbids it next to whatever else the response says, and for whatever route.
func FuzzJudgeForbids(f *testing.F) {
	f.Add("public, max-age=60", "Accept", "Etag", 200, uint8(0))
	f.Add(`x="`, "*", "Pragma", 599, uint8(3))
	f.Fuzz(func(t *testing.T, cacheControl, vary, name string, status int, bits uint8) {
		p := Policy{
			FreshFor: map[int]time.Duration{status: time.Hour}, StaleFor: time.Hour, StaleIfError: time.Hour,
			Credentials: Credentials(bits % 3), Covered: func(string) bool { return bits&4 != 0 },
		}
		if bits&16 != 0 {
			p.FreshFor, p.Heuristic = nil, time.Hour
		}
		for _, forbidden := range [][2]string{
			{"Cache-Control", "no-store"}, {"Cache-Control", "private"}, {"Cache-Control", "no-cache"}, {"Set-Cookie", "a=b"}, {"Vary", "*"},
		} {
			h := http.Header{"Cache-Control": {cacheControl}, "Vary": {vary}, name: {"x"}}
			if p.Heuristic > 0 {
				h["Last-Modified"] = []string{at(-1e6)}
			}
			var before http.Header
			if bits&8 != 0 {
				before = h.Clone()
			}
			h.Add(forbidden[0], forbidden[1])
			v := Judge(Response{Status: status, Before: before, After: h}, p, testNow)
			lifted := forbidden[1] == "no-store" && ParseCacheControl(h["Cache-Control"]).MustUnderstand ||
				forbidden[1] == "no-cache" && v.Validatable && v.Fresh == 0
			if v.Reason == "" && !lifted {
				t.Errorf("%s: %s is stored: %v", forbidden[0], forbidden[1], h)
			}
		}
		v := Judge(Response{Status: status, After: http.Header{"Cache-Control": {cacheControl}, "Vary": {vary}}}, p, testNow)
		if v.Reason == "" && !p.Credentials.Allows(v.Scope) {
			t.Errorf("stored for nobody: %+v", v)
		}
		if v.Personal && (p.Credentials == NoCredentials || v.Reason == "") {
			t.Errorf("personal: %+v", v)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	r := Response{
		Status: 200,
		Before: header("Vary", "Origin", "X-Request-Id", "1"),
		After:  header("Vary", "Origin", "Vary", "Accept-Encoding", "Cache-Control", "public, max-age=60", "Content-Type", "application/json", "Etag", `"a"`),
	}
	p := freshFor(time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		Judge(r, p, testNow)
	}
}
