package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// saysCases are about who says what counts: requests (RFC 9111 5.2.1), targeted fields (RFC 9213), and the route.
func saysCases() []Case {
	honour := func(more ...core.RouteOption) []core.RouteOption { return append(more, core.HonourRequestDirectives()) }
	maxAge := Script{Header: []string{"Cache-Control: max-age=60", `ETag: "v1"`}, Confirm: []string{}}
	again := func(run, body int, header string) Step {
		return Send{Request: get("/a", header), Want: Want{Run: body, Role: core.RoleWinner, Cache: "fwd=request stored"}, Runs: run}
	}
	targeted := []core.RouteOption{core.Targeted("CDN-Cache-Control", "Own-Cache-Control")}

	cases := forEach([]string{"Cache-Control: no-cache", "Cache-Control: max-age=0", "Cache-Control: no-store", "Cache-Control: min-fresh=100", "Pragma: no-cache", "Cache-Control: only-if-cached"},
		func(header string) Case {
			return Case{
				ID: "says/ignored", What: "DESIGN 9: no client can force a computation, or keep a response from being shared",
				Origin: maxAge, Steps: []Step{miss(get("/a", header), 1), hit(get("/a", header), 1), hit(get("/a"), 1)},
			}
		})
	cases = append(cases, forEach([]string{"Cache-Control: no-cache", "Cache-Control: max-age=0", "Cache-Control: max-age=x", "Cache-Control: min-fresh=100", "Pragma: no-cache"},
		func(header string) Case {
			return Case{
				ID: "says/honoured", What: "RFC 9111 5.2.1.1, 5.2.1.3, 5.2.1.4, 5.4: by option; a validator spares the computation",
				Route: honour(), Origin: maxAge, Steps: []Step{
					miss(get("/a"), 1), again(2, 1, header), Saw{2, []string{`If-None-Match: "v1"`}}, hit(get("/a"), 1, "X-Confirmed: 2"), again(3, 1, header),
					hit(get("/a", "Cache-Control: max-age=59"), 1), hit(get("/a", "Cache-Control: nothing-to-see-here", "Pragma: foo"), 1),
				},
			}
		})...)
	cases = append(cases, forEach([]string{"max-age=60, &&&&", "", "Max-Age=60"}, func(value string) Case {
		return Case{
			ID: "says/targeted-ignored", What: "RFC 9213 2.1: a field that is no Dictionary, or empty, is as if it were not there",
			Route: targeted, Origin: Script{Header: []string{"CDN-Cache-Control: " + value, "Cache-Control: no-store"}},
			Steps: []Step{alone(get("/a"), 1, "no-store")},
		}
	})...)
	return append(cases,
		Case{
			ID: "says/no-store", What: "RFC 9111 5.2.1.5: by option, nothing of such an exchange is stored",
			Route: honour(), Origin: maxAge, Steps: []Step{
				bypass(get("/a", "Cache-Control: no-store"), 1, "request-no-store"), miss(get("/a"), 2), bypass(get("/a", "Cache-Control: no-store"), 3, "request-no-store"),
			},
		},
		Case{
			ID: "says/only-if-cached", What: "RFC 9111 5.2.1.7: by option, 504 where nothing is stored",
			Route: honour(), Origin: maxAge, Steps: []Step{
				Send{Request: get("/a", "Cache-Control: only-if-cached"), Want: Want{Status: 504, Run: -1, Role: core.RoleDegraded, Cache: "fwd=uri-miss detail=only-if-cached"}},
				miss(get("/a"), 1), hit(get("/a", "Cache-Control: only-if-cached"), 1),
			},
		},
		Case{
			ID: "says/max-stale", What: "RFC 9111 5.2.1.2: by option, a stale response to whoever is content with it, but not where it forbids that",
			Route:  honour(core.FreshFor(time.Hour), core.StaleFor(0)),
			Origin: soon(Script{Header: []string{`ETag: "v1"`}}), Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), stale(get("/a", "Cache-Control: max-stale"), 1), stale(get("/a", "Cache-Control: max-stale=60"), 1),
				Send{Request: get("/a"), Want: Want{Run: 2, Cache: "fwd=stale"}, Runs: 2},
				Does{Then: Script{Header: []string{"Cache-Control: max-age=0, must-revalidate", `ETag: "v1"`}}}, miss(get("/b"), 3),
				Send{Request: get("/b", "Cache-Control: max-stale"), Want: Want{Run: 4, Cache: "fwd=stale"}, Runs: 4},
			},
		},
		Case{
			ID: "says/max-stale-outside", What: "RFC 9111 4.2.4: nor where middleware outside forbids it",
			Route: honour(), Outer: []string{"Cache-Control: max-age=0, must-revalidate"}, Origin: Script{Header: []string{`ETag: "v1"`}}, Steps: []Step{
				miss(get("/a"), 1), Send{Request: get("/a", "Cache-Control: max-stale"), Want: Want{Run: 2, Cache: "fwd=stale"}, Runs: 2},
			},
		},
		Case{
			ID: "says/max-stale-route", What: "RFC 9111 4.2.4: nor where the route's own word does",
			Route: honour(core.UnsafeCacheControl("max-age=0, must-revalidate")), Origin: Script{Header: []string{`ETag: "v1"`}}, Steps: []Step{
				miss(get("/a"), 1), Send{Request: get("/a", "Cache-Control: max-stale"), Want: Want{Run: 2, Cache: "fwd=stale"}, Runs: 2},
			},
		},
		Case{
			ID: "says/herd", What: "RFC 9111 5.2.1.4: by option, one computation for all who want a new one at the same time",
			Route: honour(), Origin: maxAge, Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Hold: true, Header: []string{"Cache-Control: max-age=60"}}}, Then: Script{Header: []string{"Cache-Control: max-age=60"}}},
				Start{Name: "first", Request: get("/a", "Cache-Control: no-cache")}, Until{Running: 1},
				Start{Name: "second", Request: get("/a", "Cache-Control: no-cache"), N: 5}, Until{Waiting: 5}, hit(get("/a"), 1), Release{},
				Expect{Name: "first", Want: Want{Run: 2}}, Expect{Name: "second", Want: Want{Run: 3, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 3},
			},
		},
		Case{
			ID: "says/targeted", What: "RFC 9213 2.2: by option; the first valid one counts, alone",
			Route: targeted, Origin: Script{Header: []string{"CDN-Cache-Control: max-age=60", "Own-Cache-Control: no-store", "Cache-Control: no-store", "Expires: 0"}},
			Steps: []Step{
				miss(get("/a"), 1), hit(get("/a"), 1, "CDN-Cache-Control: max-age=60", "Cache-Control: no-store"),
				Does{Then: Script{Header: []string{"Own-Cache-Control: private", "Cache-Control: max-age=60"}}}, alone(get("/b"), 2, "private"),
			},
		},
		Case{
			ID: "says/targeted-off", What: "RFC 9213: not for this cache without the option",
			Origin: Script{Header: []string{"CDN-Cache-Control: max-age=60"}}, Steps: []Step{alone(get("/a"), 1, "no-freshness")},
		},
		Case{
			ID: "says/unsafe-cache-control", What: "DESIGN 9: an override, for responses that one cannot change",
			Route:  []core.RouteOption{core.UnsafeCacheControl("max-age=60")},
			Origin: Script{Header: []string{"Cache-Control: private, no-store", "Expires: 0"}},
			Steps:  []Step{miss(get("/a"), 1), hit(get("/a"), 1, "Cache-Control: private, no-store")},
		},
		Case{
			ID: "says/unsafe-cache-control-limits", What: "DESIGN 9: but not over cookies, credentials, or middleware outside",
			Route: []core.RouteOption{core.UnsafeCacheControl("max-age=60")}, Origin: Script{Header: []string{"Set-Cookie: a=b"}},
			Steps: []Step{alone(get("/a"), 1, "set-cookie"), Does{Then: Script{Header: []string{"Vary: Cookie"}}}, alone(get("/b"), 2, "vary-credentials")},
		},
		Case{
			ID: "says/unsafe-set-cookie", What: "darkweak/souin#805: Set-Cookie was replayed; here the response without it, by option", Lists: []int{2},
			Route: fresh(core.UnsafeOmitSetCookie()), Origin: Script{Header: []string{"Set-Cookie: id={n}"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "stored", Header: []string{"Set-Cookie: id=1"}}, Runs: 1}, hit(get("/a"), 1, "!Set-Cookie"),
			},
		},
	)
}
