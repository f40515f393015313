package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// failureCases are about handlers that fail: DESIGN 6, RFC 5861 4.
func failureCases() []Case {
	fails := Script{Status: 500, Body: "sorry {n}"}
	return []Case{
		{
			ID: "failure/not-replayed", What: "ContentSquare/chproxy#224: the leader's failure was replayed to later requests", Lists: []int{41},
			Route: fresh(),
			Steps: []Step{
				Does{Next: []Script{{Status: 503, Hold: true, Body: "sorry"}}}, Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Start{Name: "losers", Request: get("/a"), N: 6}, Until{Waiting: 6}, Release{1},
				Expect{Name: "winner", Want: Want{Status: 503, Run: 1, Role: core.RoleWinner, Cache: "!stored"}},
				Expect{Name: "losers", Want: Want{Run: 2, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "failure/not-replayed-fleet", What: "ContentSquare/chproxy#224, over two processes", Lists: []int{41},
			Route: fresh(), Gates: 2, Cluster: true,
			Steps: []Step{
				Does{Next: []Script{{Status: 503, Hold: true, Body: "sorry"}}}, Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Start{Name: "losers", Request: get("/a"), N: 6, Spread: true}, Until{Waiting: 6}, Release{1},
				Expect{Name: "winner", Want: Want{Status: 503, Run: 1, Role: core.RoleWinner, Cache: "!stored"}},
				Expect{Name: "losers", Want: Want{Run: 2, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "failure/back-off", What: "DESIGN 6: without a stale copy there is no back-off before the third failure in a row", Lists: []int{41},
			Route: fresh(), Origin: fails,
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 500, Run: 1, Role: core.RoleWinner}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: 500, Run: 2, Role: core.RoleWinner}, Runs: 2},
				Send{Request: get("/a"), Want: Want{Status: 500, Run: 3, Role: core.RoleWinner}, Runs: 3},
				// Now and then a degraded answer comes; it ends by itself, and success resets it.
				Does{}, Again{Request: get("/a"), Want: Want{Status: -1}, Runs: 4}, hit(get("/a"), 4),
				miss(get("/other"), 5),
			},
		},
		{
			ID: "failure/back-off-longer", What: "DESIGN 6: a key that keeps failing is left alone; the answer is degraded",
			Route: fresh(), Origin: fails,
			Steps: []Step{
				Again{Request: get("/a"), Want: Want{Status: -1}, Runs: 5}, // the pause is three quarters of a second now, at least
				Send{Request: get("/a"), N: 10, Want: Want{Status: 503, Run: -1, Role: core.RoleDegraded, Cache: "detail=failing"}, Runs: 5},
				Does{}, miss(get("/other"), 6),
			},
		},
		{
			ID: "failure/stale", What: "rails/rails#45311: the computation failed and the stale value was lost; darkweak/souin#846: its body was doubled", Lists: []int{18, 72},
			Lacks: nil, Route: staleable(core.StaleFor(0)), Origin: soon(Script{Body: "good {n}"}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: fails},
				Send{Request: get("/a"), Want: Want{Run: 1, Body: "good 1", Role: core.RoleStale, Cache: "hit"}, Runs: 2},
				Send{Request: get("/a"), N: 5, Want: Want{Run: 1, Body: "good 1", Role: core.RoleStale}},
				Again{Request: get("/a"), Want: Want{Run: 1, Body: "good 1", Role: core.RoleStale}, Runs: 3},
				Does{}, Again{Request: get("/a"), Want: Want{Status: 200}, Runs: 4}, hit(get("/a"), 4),
			},
		},
		{
			ID: "failure/stale-back-off", What: "DESIGN 15: while a stale copy may be served failures back off, doubling",
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: fails},
				Again{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}, Runs: 4}, // the pause is three quarters of a second now, at least
				Send{Request: get("/a"), N: 10, Want: Want{Run: 1, Role: core.RoleStale, Cache: "hit detail=failing"}, Runs: 4},
			},
		},
		{
			ID: "failure/stale-waiters", What: "DESIGN 8: those who wait for a computation that fails get the stale copy, too", Lists: []int{72},
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Status: 500, Hold: true}},
				Start{Name: "all", Request: get("/a"), N: 10}, Until{Running: 1, Waiting: 9}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2},
			},
		},
		{
			ID: "failure/panic-stale", What: "rails/rails#45311: after a panic the stale value is still there", Lists: []int{36, 72},
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Panic: Between, Chunks: []string{"x", "y"}}},
				Send{Request: get("/a"), Want: Want{Status: 500, Run: -1}, Runs: 2},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}},
			},
		},
		{
			ID: "failure/not-stale-if-error", What: "RFC 5861 4: beyond stale-if-error the failure is told", Lists: []int{69},
			Route: []core.RouteOption{core.FreshFor(time.Hour), core.StaleFor(0), core.StaleIfError(0)}, Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Expire{get("/a"), true}, Does{Then: fails}, Send{Request: get("/a"), Want: Want{Status: 500, Run: 2}, Runs: 2},
			},
		},
		{
			ID: "failure/must-revalidate", What: "RFC 9111 5.2.2.2: must-revalidate forbids stale in every form, after a failure too", Lists: []int{69},
			Route:  []core.RouteOption{core.StaleFor(time.Hour), core.StaleIfError(time.Hour), core.Degrade(core.OverStale(time.Hour))},
			Origin: Script{Header: []string{"Cache-Control: max-age=1, must-revalidate, stale-if-error=100, stale-while-revalidate=100"}},
			Steps: []Step{
				miss(get("/a"), 1), Expire{get("/a"), true}, Does{Then: fails}, Send{Request: get("/a"), Want: Want{Status: 500, Run: 2}, Runs: 2},
			},
		},
		{
			ID: "failure/error", What: "DESIGN 6: the application's own answer to a handler's error is the response",
			Needs: []Capability{ReturnsError},
			Route: []core.RouteOption{core.FreshForStatus(404, time.Hour)}, Origin: Script{Fail: 404},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 404, Role: core.RoleWinner, Cache: "stored"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: 404, Role: core.RoleHit}, Runs: 1},
				Does{Then: Script{Fail: 500}}, Send{Request: get("/b"), Want: Want{Status: 500, Cache: "!stored"}, Runs: 2},
				Send{Request: get("/b"), Want: Want{Status: 500, Cache: "!stored"}, Runs: 3},
				Send{Request: do("POST", "/a"), Want: Want{Status: 500, Cache: "detail=method"}, Runs: 4},
			},
		},
		{
			ID: "failure/error-stale", What: "DESIGN 6: a handler's error is a failure; the stale copy stands in", Lists: []int{72},
			Needs: []Capability{ReturnsError},
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Fail: 502}},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2},
			},
		},
		{
			ID: "failure/recorded", What: "an error that a handler records beside a good answer: not stored, but no failure either, and no back-off",
			Needs: []Capability{RecordsError},
			Route: staleable(core.StaleFor(0)), Origin: Script{Record: true},
			Steps: []Step{
				alone(get("/a"), 1, "error"), alone(get("/a"), 2, "error"), alone(get("/a"), 3, "error"), alone(get("/a"), 4, "error"),
				Does{Then: soon(Script{})}, miss(get("/b"), 5), Pass(60 * time.Millisecond), Does{Then: Script{Record: true}}, alone(get("/b"), 6, "error"),
				Does{Then: Script{Record: true, Status: 500}}, Send{Request: get("/c"), Want: Want{Status: 500, Run: 7, Cache: "!stored"}, Runs: 7},
			},
		},
		{
			ID: "failure/credentials", What: "DESIGN 6: failures of requests with credentials are a class of their own",
			Route: fresh(), Origin: fails,
			Steps: []Step{
				Again{Request: get("/a", "Authorization: a"), Want: Want{Status: -1}, Runs: 4}, Does{}, miss(get("/a"), 5),
			},
		},
	}
}

// staleCases are about stale copies and their refresh: DESIGN 11, RFC 5861 3.
func staleCases() []Case {
	background, foreground := []Capability{Background}, []Capability{Background}
	return []Case{
		{
			ID: "stale/background", What: "darkweak/souin#684: stale at once, and exactly one refresh", Lists: []int{67},
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}, Then: Script{Hold: true}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				Send{Request: get("/a"), N: 20, Want: Want{Run: 1, Role: core.RoleStale}}, // though the refresh takes its time
				Until{Running: 1}, Send{Request: get("/a"), N: 5, Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2},
				Release{}, Until{Idle: true}, hit(get("/a"), 2), Saw{2, []string{"method GET", "context alive"}},
			},
		},
		{
			ID: "stale/background-fleet", What: "darkweak/souin#684, over two processes", Lists: []int{67},
			Needs: background, Route: staleable(), Gates: 2, Cluster: true,
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}, Then: Script{Hold: true}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				Send{Request: get("/a"), N: 20, Spread: true, Want: Want{Run: 1, Role: core.RoleStale}},
				Until{Running: 1}, Send{Request: get("/a"), N: 6, Spread: true, Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2},
				Release{}, Until{Idle: true}, hit(get("/a"), 2), hit(get("/a").to(1), 2),
			},
		},
		{
			ID: "stale/background-leaves", What: "darkweak/souin PR #738: the refresh ran on a cancelled context", Lists: []int{68},
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}, Then: Script{Hold: true, Header: []string{"X-Lang: {X-Lang}"}}}, miss(get("/a"), 1), Expire{Request: get("/a", "X-Lang: de")},
				Start{Name: "leaver", Request: get("/a", "X-Lang: de", `If-None-Match: "x"`)}, Expect{Name: "leaver", Want: Want{Run: 1, Role: core.RoleStale}},
				Until{Running: 1}, Leave{Name: "leaver"}, Pass(30 * time.Millisecond), Release{}, Until{Idle: true},
				hit(get("/a"), 2, "X-Lang: de"), Saw{2, []string{"context alive", "X-Lang: de", "!If-None-Match", "target /a"}},
			},
		},
		{
			ID: "stale/background-panic", What: "moonrhythm/parapet#212: a panic in a background refresh ended the process", Lists: []int{36, 37},
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{}), {Panic: Before}, {Panic: Between, Chunks: []string{"a", "b"}}}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				Again{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}, Runs: 3}, Until{Idle: true},
				Again{Request: get("/a"), Want: Want{Status: 200}, Runs: 4}, Until{Idle: true}, hit(get("/a"), 4),
			},
		},
		{
			ID: "stale/background-fails", What: "rails/rails#45311: a refresh that fails leaves the copy", Lists: []int{72},
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{}), {Status: 500}, {Status: 503}}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				Again{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}, Runs: 3}, Until{Idle: true},
				Again{Request: get("/a"), Want: Want{Status: 200}, Runs: 4}, Until{Idle: true}, hit(get("/a"), 4),
			},
		},
		{
			ID: "stale/background-uncacheable", What: "a refresh whose response may not be stored",
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}, Then: Script{NoStore: true}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}}, Until{Runs: 2, Idle: true},
			},
		},
		{
			ID: "stale/background-outer", What: "DESIGN 11: the refresh goes through the application; what middleware outside sets is not stored",
			Needs: background, Route: staleable(), Outer: []string{"X-Request-Id: {id}", "Access-Control-Allow-Origin: {Origin}", "Vary: Origin"},
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a", "Origin: https://one"), 1), Expire{Request: get("/a")},
				Send{Request: get("/a", "Origin: https://two"), Want: Want{Run: 1, Role: core.RoleStale, Header: []string{"Access-Control-Allow-Origin: https://two", "X-Request-Id: {id}"}}},
				Until{Runs: 2, Idle: true}, hit(get("/a", "Origin: https://three"), 2, "Access-Control-Allow-Origin: https://three", "X-Request-Id: {id}"),
			},
		},
		{
			ID: "stale/background-vary", What: "DESIGN 11: each variant is refreshed for itself",
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{Header: []string{"Vary: X-Lang"}})}, Then: Script{Header: []string{"Vary: X-Lang"}, Body: "{n} {X-Lang}"}},
				miss(get("/a", "X-Lang: de"), 1), miss(get("/a", "X-Lang: fr"), 2), Expire{Request: get("/a", "X-Lang: de")},
				Send{Request: get("/a", "X-Lang: de"), Want: Want{Run: 1, Role: core.RoleStale}}, Until{Runs: 3, Idle: true},
				Send{Request: get("/a", "X-Lang: de"), Want: Want{Run: 3, Body: "3 de", Role: core.RoleHit}}, hit(get("/a", "X-Lang: fr"), 2),
			},
		},
		{
			ID: "stale/background-rewritten", What: "DESIGN 11: the copy has the URL as received, so middleware outside rewrites it again",
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a?x=%2F", "X-Rewrite: /b"), 1), Expire{Request: get("/a?x=%2F", "X-Rewrite: /b")},
				stale(get("/a?x=%2F", "X-Rewrite: /b"), 1), Until{Runs: 2, Idle: true}, hit(get("/a?x=%2F", "X-Rewrite: /b"), 2), Saw{2, []string{"target /b?x=%2F"}},
			},
		},
		{
			ID: "stale/background-key-by", What: "DESIGN 11: KeyBy gives the copy the same key",
			Needs: background, Route: staleable(core.PerUser()), KeyBy: "X-User",
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a", "X-User: u", "Authorization: t"), 1), Expire{Request: get("/a", "X-User: u")},
				stale(get("/a", "X-User: u", "Authorization: t"), 1), Until{Runs: 2, Idle: true}, hit(get("/a", "X-User: u"), 2), Saw{2, []string{"X-User: u", "Authorization: t"}},
			},
		},
		{
			ID: "stale/background-public", What: "DESIGN 9: in a refresh too, credentials are hidden from the handler of a Public route",
			Needs: background, Route: staleable(core.Public()),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				stale(get("/a", "Authorization: t", "Cookie: c=1"), 1), Until{Runs: 2, Idle: true}, hit(get("/a"), 2), Saw{2, []string{"!Authorization", "!Cookie"}},
			},
		},
		{
			ID: "stale/background-head", What: "a stale copy answers HEAD; where HEAD leads, its refresh is a GET",
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a"), 1), Expire{Request: get("/a")}, stale(do("HEAD", "/a"), 1),
				Again{Request: get("/a"), Want: Want{Status: 200}, Runs: 2}, Until{Idle: true}, Saw{2, []string{"method GET"}}, hit(get("/a"), 2),
			},
		},
		{
			ID: "stale/invalidated", What: "DESIGN 11: what a refresh computed before an invalidation is not stored", Lists: []int{65},
			Needs: background, Route: staleable(),
			Steps: []Step{
				Does{Next: []Script{soon(Script{})}, Then: Script{Hold: true}}, miss(get("/a"), 1), Expire{Request: get("/a")},
				stale(get("/a"), 1), Until{Running: 1}, Invalidate{Target: "/a"}, Start{Name: "new", Request: get("/a")}, Until{Running: 2},
				Release{}, Expect{Name: "new", Want: Want{Run: 3, Cache: "stored"}}, Until{Idle: true}, hit(get("/a"), 3),
			},
		},
		{
			ID: "stale/foreground", What: "DESIGN 11: where no copy can be sent, one client pays and everybody else gets stale; darkweak/souin#684", Lists: []int{67},
			Lacks: foreground, Route: staleable(), Steps: inForeground(get("/a")),
		},
		{
			ID: "stale/foreground-credentials", What: "DESIGN 11: where credentials are on the request, the refresh is in the foreground", Lists: []int{67},
			Route: staleable(), Origin: Script{}, Steps: inForeground(get("/a", "Authorization: a")),
		},
		{
			ID: "stale/foreground-refused", What: "DESIGN 11: where a copy did not arrive (a limiter outside), the refresh is in the foreground", Lists: []int{67},
			Needs: background, Route: staleable(), Refuses: true,
			Steps: append([]Step{
				Does{Next: []Script{soon(Script{})}}, miss(get("/a"), 1), Expire{Request: get("/a")}, stale(get("/a"), 1), Until{Runs: 1, Idle: true},
			}, inForegroundNow(get("/a"))...),
		},
		{
			ID: "stale/window", What: "nodejs/undici#4471: beyond the window never stale", Lists: []int{69},
			Route: []core.RouteOption{core.FreshFor(time.Hour), core.StaleFor(30 * time.Millisecond), core.StaleIfError(0)}, Origin: soon(Script{}),
			Steps: []Step{miss(get("/a"), 1), Expire{get("/a"), true}, Does{}, miss(get("/a"), 2), hit(get("/a"), 2)},
		},
		{
			ID: "stale/off", What: "DESIGN 13: zero for StaleFor is off", Lists: []int{69},
			Route: []core.RouteOption{core.FreshFor(time.Hour), core.StaleFor(0)}, Origin: soon(Script{}),
			Steps: []Step{miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Role: core.RoleWinner, Cache: "stored"}, Runs: 2}},
		},
		{
			ID: "stale/own", What: "RFC 5861 3: stale-while-revalidate of the response",
			Needs: background, Origin: Script{Header: []string{"Cache-Control: max-age=1, stale-while-revalidate=1000"}},
			Steps: []Step{
				miss(get("/a"), 1), Expire{Request: get("/a")}, Does{Then: Script{Header: []string{"Cache-Control: max-age=1000"}}}, stale(get("/a"), 1), Until{Runs: 2, Idle: true}, hit(get("/a"), 2),
			},
		},
		{
			ID: "stale/forbidden", What: "RFC 9111 5.2.2.10: s-maxage forbids stale", Lists: []int{69},
			Route: []core.RouteOption{core.StaleFor(time.Hour)}, Origin: Script{Header: []string{"Cache-Control: s-maxage=1"}},
			Steps: []Step{miss(get("/a"), 1), Expire{get("/a"), true}, Send{Request: get("/a"), Want: Want{Run: 2, Role: core.RoleWinner}, Runs: 2}},
		},
		{
			ID: "stale/range", What: "a Range request takes a stale copy and refreshes nothing",
			Route: staleable(), Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Expire{Request: get("/a")}, Send{Request: get("/a", "Range: bytes=0-1"), Want: Want{Status: -1, Run: 1, Role: core.RoleStale}, Runs: 1}, Until{Idle: true},
			},
		},
	}
}

// inForeground are the steps of a refresh that a client of ours makes.
func inForeground(r Request) []Step {
	const says = "Cache-Control: public"
	return append([]Step{Does{Next: []Script{soon(Script{Header: []string{says}})}}, miss(r, 1), Expire{Request: r}}, inForegroundNow(r)...)
}

// inForegroundNow are the steps from the moment when the first run's response is stale.
func inForegroundNow(r Request) []Step {
	return []Step{
		Does{Then: Script{Hold: true, Header: []string{"Cache-Control: public"}}},
		Start{Name: "payer", Request: r}, Until{Running: 1},
		Send{Request: r, N: 10, Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2}, Release{},
		Expect{Name: "payer", Want: Want{Run: 2, Role: core.RoleWinner, Cache: "fwd=stale stored"}, Runs: 2}, hit(r, 2),
	}
}
