package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// never is a response header for which a response is never stored, and the reason that is given.
type never struct{ header, detail string }

func (n never) String() string { return n.header }

// ruleCases are about what is stored, and for how long: DESIGN 9, RFC 9111 3 and 4.2.
func ruleCases() []Case {
	cases := forEach([]never{
		{"Cache-Control: no-store", "no-store"},
		{"Cache-Control: NO-STORE", "no-store"},
		{"Cache-Control: max-age=60, no-store", "no-store"},
		{"Cache-Control: private", "private"},
		{"Cache-Control: private=\"content-type\"", "private"},
		{"Cache-Control: no-cache", "no-cache"},
		{"Set-Cookie: session={n}", "set-cookie"},
		{"Vary: *", "vary-star"},
		{"Vary: Accept-Encoding, *", "vary-star"},
		{"Vary: Cookie", "vary-credentials"},
		{"Vary: authorization", "vary-credentials"},
		{"Cache-Control: max-age=0", "no-freshness"},
		{"Expires: 0", "no-freshness"},
		{"Expires: Thu, 01 Jan 1970 00:00:00 GMT", "no-freshness"},
	}, func(n never) Case {
		return Case{
			ID: "never", What: "DESIGN 9, RFC 9111 3: never stored and never shared; darkweak/souin#805 replayed Set-Cookie", Lists: []int{2},
			Route: fresh(), Origin: Script{Header: []string{n.header}},
			Steps: []Step{
				alone(get("/a"), 1, n.detail),
				Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2},
				Send{Request: get("/a"), Want: Want{Run: 3, Cache: "!hit !stored"}, Runs: 3},
				// It becomes cacheable.
				Does{}, Send{Request: get("/a"), Want: Want{Run: 4, Cache: "stored"}, Runs: 4}, hit(get("/a"), 4),
			},
		}
	})
	cases = append(cases, forEach([]int{500, 502, 503, 504}, func(status int) Case {
		return Case{
			ID: "status/failure", What: "gofiber/fiber#1116: a 500 was cached", Lists: []int{26},
			Route: fresh(), Origin: Script{Status: status, Body: "sorry {n}"},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Cache: "!stored"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: status, Run: 2, Cache: "!stored"}, Runs: 2},
				Does{}, miss(get("/b"), 3), hit(get("/b"), 3),
			},
		}
	})...)
	cases = append(cases, forEach([]int{201, 202, 203, 301, 302, 308, 400, 403, 404, 410, 451, 501, 599}, func(status int) Case {
		return Case{
			ID: "status/kept", What: "gin-contrib/cache#35: the status was lost on a hit", Lists: []int{25},
			Route:  []core.RouteOption{core.FreshForStatus(status, time.Hour)},
			Origin: Script{Status: status, Header: []string{"Location: /elsewhere"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Cache: "stored"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Role: core.RoleHit, Header: []string{"Location: /elsewhere"}}},
			},
		}
	})...)
	cases = append(cases, forEach([]int{404, 301, 503}, func(status int) Case {
		return Case{
			ID: "status/own-freshness", What: "DESIGN 9: other statuses are stored by their own explicit freshness; a 5xx that has it is no failure", Lists: []int{25},
			Route: fresh(), Origin: Script{Status: status, Header: []string{"Cache-Control: max-age=60"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Cache: "stored"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Role: core.RoleHit}},
			},
		}
	})...)
	cases = append(cases, forEach([]int{404, 301, 201}, func(status int) Case {
		return Case{
			ID: "status/only-200", What: "DESIGN 9: FreshFor applies to 200 only",
			Route: fresh(), Origin: Script{Status: status},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Cache: "!stored detail=no-freshness"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: status, Run: 2, Cache: "!stored"}, Runs: 2},
			},
		}
	})...)
	cases = append(cases, forEach([]string{"max-age=3600", "s-maxage=3600, max-age=0", "public, max-age=3600", "MAX-AGE=3600"}, func(cc string) Case {
		return Case{
			ID: "fresh/says", What: "RFC 9111 4.2.1: explicit freshness needs no option; s-maxage wins over max-age",
			Origin: Script{Header: []string{"Cache-Control: " + cc}},
			Steps:  []Step{miss(get("/a"), 1), hit(get("/a"), 1, "Cache-Control: "+cc)},
		}
	})...)
	cases = append(cases, forEach([]time.Duration{500 * time.Millisecond, time.Second}, func(d time.Duration) Case {
		return Case{
			ID: "fresh/exact", What: "gofiber/fiber#1229, #1310, #1881: a coarse clock; 500 ms and 1 s are exact", Lists: []int{32},
			Route: []core.RouteOption{core.FreshFor(d), core.StaleFor(0), core.StaleIfError(0)},
			Steps: []Step{Lifetime{get("/a"), d}},
		}
	})...)
	return append(cases,
		Case{
			ID: "fresh/exact-max-age", What: "gofiber/fiber#1229 with max-age=1", Lists: []int{32},
			Origin: Script{Header: []string{"Cache-Control: max-age=1"}},
			Steps:  []Step{Lifetime{get("/a"), time.Second}},
		},
		Case{
			ID: "fresh/none", What: "DESIGN 9: no heuristics by default",
			Origin: Script{Header: []string{"Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"}},
			Steps:  []Step{alone(get("/a"), 1, "no-freshness"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!stored"}, Runs: 2}},
		},
		Case{
			ID: "fresh/handler-wins", What: "DESIGN 9: the handler's own Cache-Control wins over FreshFor",
			Route: []core.RouteOption{core.FreshFor(30 * time.Millisecond), core.StaleFor(0), core.StaleIfError(0)}, Origin: Script{Header: []string{"Cache-Control: max-age=3600"}},
			Steps: []Step{miss(get("/a"), 1), Pass(60 * time.Millisecond), hit(get("/a"), 1)},
		},
		Case{
			ID: "fresh/nothing-added", What: "DESIGN 9: herdgate never adds Cache-Control for clients downstream",
			Route: fresh(),
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Header: []string{"!Cache-Control", "!Expires"}}}, hit(get("/a"), 1, "!Cache-Control", "!Expires"),
			},
		},
		Case{
			ID: "fresh/upstream-age", What: "moonrhythm/parapet#186: the Age of an upstream cache was ignored; RFC 9111 4.2.3", Lists: []int{31},
			Origin: Script{Header: []string{"Cache-Control: max-age=3600", "Age: 3000"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "stored", Header: []string{"Age"}}},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleHit, Header: []string{"Age"}, Cache: "ttl<600"}},
			},
		},
		Case{
			ID: "fresh/upstream-age-over", What: "moonrhythm/parapet#186: the response arrives stale", Lists: []int{31},
			Origin: Script{Header: []string{"Cache-Control: max-age=60", "Age: 100"}},
			Steps:  []Step{alone(get("/a"), 1, "no-freshness"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		},
		Case{
			ID: "fresh/set-fresh", What: "DESIGN 13: SetFresh from inside the handler",
			Origin: Script{Fresh: time.Hour},
			Steps:  []Step{miss(get("/a"), 1), hit(get("/a"), 1, "!Cache-Control")},
		},
		Case{
			ID: "fresh/set-fresh-wins", What: "DESIGN 9: SetFresh wins over FreshFor, and Cache-Control over both",
			Route: []core.RouteOption{core.FreshFor(30 * time.Millisecond), core.StaleFor(0), core.StaleIfError(0)}, Origin: Script{Fresh: time.Hour},
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), hit(get("/a"), 1),
				Does{Then: Script{Fresh: time.Hour, Header: []string{"Cache-Control: max-age=0"}}}, alone(get("/b"), 2, "no-freshness"),
			},
		},
		Case{
			ID: "fresh/no-store", What: "DESIGN 13: NoStore from inside the handler, without a word to the client",
			Route: fresh(), Origin: Script{NoStore: true},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "!stored detail=no-store", Header: []string{"!Cache-Control"}}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!stored"}, Runs: 2},
			},
		},
		Case{
			ID: "fresh/request-directives", What: "DESIGN 9: request directives are ignored by default",
			Route: fresh(),
			Steps: []Step{
				miss(get("/a"), 1), hit(get("/a", "Cache-Control: no-cache"), 1), hit(get("/a", "Cache-Control: no-store"), 1), hit(get("/a", "Pragma: no-cache"), 1),
				hit(get("/a", "Cache-Control: max-age=0"), 1), miss(get("/b", "Cache-Control: no-store"), 2), hit(get("/b"), 2),
			},
		},
		Case{
			ID: "vary/cookie-keyed", What: "DESIGN 9: Vary: Cookie of the handler, on a route that has said what cookies mean",
			Route: fresh(core.KeyCookie("lang")), Origin: Script{Header: []string{"Vary: Cookie"}, Body: "{n} {Cookie}"},
			Steps: []Step{
				miss(get("/a", "Cookie: lang=de; x=1"), 1), hit(get("/a", "Cookie: x=2; lang=de"), 1), miss(get("/a", "Cookie: lang=fr"), 2), miss(get("/a"), 3),
			},
		},
		Case{
			ID: "vary/cookie-public", What: "DESIGN 9: Vary: Cookie of the handler, on a Public route",
			Route: fresh(core.Public()), Origin: Script{Header: []string{"Vary: Cookie"}},
			Steps: []Step{miss(get("/a", "Cookie: a=1"), 1), hit(get("/a", "Cookie: b=1"), 1), hit(get("/a"), 1)},
		},
	)
}
