package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// heuristicCases are about lifetimes that are guessed, by option: RFC 9111 4.2.2.
func heuristicCases() []Case {
	const modified = "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"
	guesses := func(more ...core.RouteOption) []core.RouteOption {
		return append([]core.RouteOption{core.HeuristicFreshness(time.Hour)}, more...)
	}
	old := func(header ...string) Script { return Script{Header: append([]string{modified}, header...)} }
	cases := forEach([]int{200, 203, 404, 410, 501}, func(status int) Case {
		return Case{
			ID: "heuristic/hit", What: "RFC 9111 4.2.2, RFC 9110 15.1: by option, a response with Last-Modified is fresh for a while",
			Route: guesses(), Origin: Script{Status: status, Header: []string{modified}},
			Steps: []Step{
				Send{Request: get("/a?x=1"), Want: Want{Status: status, Run: 1, Cache: "stored !detail", Header: []string{"!Cache-Control", "!Expires"}}, Runs: 1},
				Send{Request: get("/a?x=1"), Want: Want{Status: status, Run: 1, Role: core.RoleHit, Cache: "ttl<3601", Header: []string{modified, "!Cache-Control", "!Expires"}}},
			},
		}
	})
	cases = append(cases, forEach([]int{201, 302, 403, 599}, func(status int) Case {
		return Case{
			ID: "heuristic/status", What: "RFC 9111 4.2.2: other statuses only if they say public",
			Route: guesses(), Origin: Script{Status: status, Header: []string{modified}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: status, Run: 1, Cache: "!stored detail=no-freshness"}, Runs: 1},
				Does{Then: Script{Status: status, Header: []string{modified, "Cache-Control: public"}}},
				Send{Request: get("/b"), Want: Want{Status: status, Run: 2, Cache: "stored"}, Runs: 2},
				Send{Request: get("/b"), Want: Want{Status: status, Run: 2, Role: core.RoleHit}},
			},
		}
	})...)
	cases = append(cases, forEach([]string{"no-store", "no-cache", "private", "max-age=0", "s-maxage=0", "max-age=x", "no-store, must-understand", "public, max-age=0"}, func(says string) Case {
		return Case{
			ID: "heuristic/says", What: "RFC 9111 4.2.2: nothing is guessed where the response has a word on the matter, not even in a field that another displaces",
			Route: guesses(core.Targeted("CDN-Cache-Control")), Origin: old("Cache-Control: " + says),
			Steps: steps(
				[]Step{Send{Request: get("/a"), Want: Want{Run: 1, Cache: "!hit"}, Runs: 1}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit"}, Runs: 2}},
				[]Step{Does{Then: old("CDN-Cache-Control: public", "Cache-Control: "+says)}},
				[]Step{alone(get("/b"), 3, "no-freshness"), Send{Request: get("/b"), Want: Want{Run: 4, Cache: "!hit"}, Runs: 4}},
				[]Step{Does{Then: old("CDN-Cache-Control: " + says)}},
				[]Step{Send{Request: get("/c"), Want: Want{Run: 5, Cache: "!hit"}, Runs: 5}, Send{Request: get("/c"), Want: Want{Run: 6, Cache: "!hit"}, Runs: 6}},
			),
		}
	})...)
	cases = append(cases, forEach([]string{"Pragma: no-cache", "Vary: *", "Vary: Cookie", "Set-Cookie: a={n}"}, func(header string) Case {
		return Case{
			ID: "heuristic/never", What: "RFC 9111 4.2.2: a guess overrules nothing that keeps a response out of the store",
			Route: guesses(), Origin: old(header),
			Steps: []Step{Send{Request: get("/a"), Want: Want{Run: 1, Cache: "!stored"}, Runs: 1}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		}
	})...)
	cases = append(cases, forEach([]string{"Authorization", "Cookie", "X-Api-Key", "X-Forwarded-User"}, func(name string) Case {
		return Case{
			ID: "heuristic/credentials", What: "RFC 9111 3.5: a guess makes nothing shareable in spite of credentials, public does",
			Route: guesses(), Origin: old(),
			Steps: []Step{
				alone(get("/a", name+": a=1"), 1, "credentials"), alone(get("/a", name+": a=1"), 2, "credentials"),
				miss(get("/a"), 3), hit(get("/a"), 3), alone(get("/a", name+": a=1"), 4, "credentials"),
				Does{Then: old("Cache-Control: must-revalidate")}, alone(get("/b", name+": a=1"), 5, "credentials"), miss(get("/b"), 6), alone(get("/b", name+": a=1"), 7, "credentials"),
				Does{Then: old("Cache-Control: public")}, miss(get("/c", name+": a=1"), 8), hit(get("/c", name+": b=1"), 8), hit(get("/c"), 8),
			},
		}
	})...)
	return append(cases,
		Case{
			ID: "heuristic/none", What: "RFC 9111 4.2.2: without Last-Modified there is nothing to go by",
			Route: guesses(), Origin: Script{Header: []string{`ETag: "v1"`}},
			Steps: []Step{alone(get("/a"), 1, "no-freshness"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!stored"}, Runs: 2}},
		},
		Case{
			ID: "heuristic/failure", What: "DESIGN 9: a failure is none the less one for public and a Last-Modified",
			Route: guesses(), Origin: Script{Status: 503, Header: []string{modified, "Cache-Control: public"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 503, Run: 1, Cache: "!stored"}, Runs: 1}, Send{Request: get("/a"), Want: Want{Status: 503, Run: 2, Cache: "!stored"}, Runs: 2},
			},
		},
		Case{
			ID: "heuristic/gives-way", What: "RFC 9111 4.2.2: what the route or the handler says is no guess",
			Route: []core.RouteOption{core.HeuristicFreshness(30 * time.Millisecond), core.FreshFor(time.Hour)}, Origin: old(),
			Steps: []Step{miss(get("/a"), 1), Pass(60 * time.Millisecond), hit(get("/a"), 1)},
		},
		Case{
			ID: "heuristic/stale", What: "RFC 9111 4.2.4: no window follows a guess, whatever the route says",
			Route: []core.RouteOption{
				core.HeuristicFreshness(30 * time.Millisecond), core.StaleFor(time.Hour), core.StaleIfError(time.Hour), core.Degrade(core.OverStale(time.Hour)),
			},
			Origin: Script{Header: []string{modified}, Confirm: []string{}},
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Status: 503, Body: "sorry"}},
				Send{Request: get("/a"), Want: Want{Status: 503, Run: 2, Body: "sorry", Cache: "!hit !stored"}, Runs: 2}, Saw{2, []string{"If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"}},
				Does{Then: Script{Header: []string{modified}, Confirm: []string{}}},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleWinner, Cache: "fwd=stale fwd-status=304 stored !detail"}, Runs: 3},
			},
		},
		Case{
			ID: "heuristic/personal", What: "RFC 9111 3.5: what was computed for somebody goes to nobody who waits, however old it is",
			Route: guesses(), Origin: Script{Hold: true, Body: "{n} for {Authorization}", Header: []string{modified}},
			Steps: []Step{
				Start{Name: "user", Request: get("/a", "Authorization: a")}, Until{Running: 1},
				Start{Name: "anonymous", Request: get("/a"), N: 10}, Until{Waiting: 10},
				Release{1},
				Expect{Name: "user", Want: Want{Run: 1, Cache: "detail=credentials !stored"}},
				Until{Runs: 2}, Release{},
				Expect{Name: "anonymous", Want: Want{Run: 2, Body: "2 for ", Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2},
				hit(get("/a"), 2), alone(get("/a", "Authorization: b"), 3, "credentials"),
			},
		},
		Case{
			ID: "heuristic/fleet", What: "RFC 9111 4.2.2: one guess for all processes",
			Route: guesses(), Gates: 2, Cluster: true, Origin: old(),
			Steps: []Step{miss(get("/a"), 1), hit(get("/a").to(1), 1), hit(get("/a"), 1)},
		},
	)
}
