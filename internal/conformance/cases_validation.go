package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// validationCases are about asking the handler whether a stored response is still current: RFC 9111 4.3.
func validationCases() []Case {
	const (
		tag      = `ETag: "v1"`
		modified = "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"
		noCache  = "Cache-Control: no-cache"
	)
	// Stale at once, so that every request asks.
	asks := func(header ...string) Script {
		return Script{Header: append(header, "X-Kept: {n}"), Confirm: []string{}}
	}
	confirmed := func(r Request, body, run int, header ...string) Step {
		return Send{Request: r, Want: Want{Run: body, Role: core.RoleWinner, Header: header, Cache: "fwd=stale fwd-status=304 stored !detail"}, Runs: run}
	}
	cases := forEach([]string{noCache, "Cache-Control: max-age=0", "Cache-Control: no-cache, max-age=60", "Cache-Control: s-maxage=0, max-age=60", "Expires: 0",
		"Cache-Control: max-age=60, max-age=0", "Cache-Control: max-age=x", "Cache-Control: max-age=0, must-revalidate"}, func(says string) Case {
		return Case{
			ID: "validate/never-fresh", What: "RFC 9111 3, 4.2.1, 5.2.2.4: kept for its validator, used only after validation",
			Origin: asks(tag, says),
			Steps: []Step{
				miss(get("/a"), 1),
				confirmed(get("/a"), 1, 2, "X-Kept: 1", "X-Confirmed: 2"), Saw{2, []string{`If-None-Match: "v1"`, "!If-Modified-Since"}},
				confirmed(get("/a"), 1, 3, "X-Kept: 1", "X-Confirmed: 3"),
			},
		}
	})
	cases = append(cases, forEach([]string{"W/\"v1\"", `"a,b"`, `""`}, func(tag string) Case {
		return Case{
			ID: "validate/tag", What: "RFC 9111 4.3.1: the stored ETag is sent letter by letter",
			Origin: asks("ETag: "+tag, noCache),
			Steps:  []Step{miss(get("/a"), 1), confirmed(get("/a"), 1, 2, "ETag: "+tag), Saw{2, []string{"If-None-Match: " + tag}}},
		}
	})...)
	cases = append(cases, forEach([]string{"no-store", "private"}, func(directive string) Case {
		return Case{
			ID: "validate/revoked", What: "RFC 9111 3: a 304 may also say that the response is no longer for others",
			Origin: Script{Header: []string{tag, noCache}, Confirm: []string{"Cache-Control: " + directive}},
			Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "!stored fwd-status=304 detail=" + directive, Header: []string{"Cache-Control: " + directive}}, Runs: 2},
				Send{Request: get("/a"), Want: Want{Run: 3, Cache: "!hit"}, Runs: 3}, Saw{3, []string{"!If-None-Match"}},
			},
		}
	})...)
	cases = append(cases, forEach([]string{`ETag: "v2"`, "Last-Modified: Mon, 02 Jan 2006 15:04:06 GMT"}, func(other string) Case {
		return Case{
			ID: "validate/other", What: "RFC 9111 4.3.4: a 304 for another response selects none; what is stored goes, and no body is served that may be the wrong one",
			Origin: Script{Header: []string{tag, modified, noCache}, Confirm: []string{other}},
			Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a"), Want: Want{Status: 503, Run: -1, Role: core.RoleDegraded, Cache: "detail=mismatch"}, Runs: 2},
				miss(get("/a"), 3), Saw{3, []string{"!If-None-Match", "!If-Modified-Since"}},
			},
		}
	})...)
	return append(cases,
		Case{
			ID: "validate/modified", What: "RFC 9111 4.3.1: Last-Modified is asked by, alone or with the tag",
			Origin: asks(modified, noCache),
			Steps: []Step{
				miss(get("/a"), 1), confirmed(get("/a"), 1, 2), Saw{2, []string{"If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT", "!If-None-Match"}},
				Does{Then: asks(tag, modified, noCache)}, miss(get("/b"), 3),
				confirmed(get("/b"), 3, 4), Saw{4, []string{`If-None-Match: "v1"`, "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"}},
			},
		},
		Case{
			ID: "validate/no-tag", What: "RFC 9111 4.3.4: a 304 that repeats what is stored is about that, be it no entity-tag",
			Origin: Script{Header: []string{"ETag: v1", modified, noCache}, Confirm: []string{"ETag: v1"}},
			Steps:  []Step{miss(get("/a"), 1), confirmed(get("/a"), 1, 2, "ETag: v1"), Saw{2, []string{"!If-None-Match"}}, confirmed(get("/a"), 1, 3, "ETag: v1")},
		},
		Case{
			ID: "validate/other-stale", What: "RFC 5861 4: where a failure is covered by a stale copy, such a 304 is, once",
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{Header: []string{tag}, Confirm: []string{`ETag: "v2"`}}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond),
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale, Cache: "detail=mismatch"}, Runs: 2}, Saw{2, []string{`If-None-Match: "v1"`}},
				miss(get("/a"), 3), Saw{3, []string{"!If-None-Match"}},
			},
		},
		Case{
			ID: "validate/other-invalidated", What: "DESIGN 11: but not by one that was invalidated while the handler was asked",
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{Header: []string{tag}}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Hold: true, Confirm: []string{`ETag: "v2"`}}},
				Start{Name: "asks", Request: get("/a")}, Until{Running: 1}, Invalidate{Target: "/a"}, Release{},
				Expect{Name: "asks", Want: Want{Status: 503, Run: -1, Role: core.RoleDegraded, Cache: "detail=mismatch"}, Runs: 2},
			},
		},
		Case{
			ID: "validate/weakened", What: "RFC 9111 4.3.4, RFC 9110 8.8.3.2: a tag that was weakened on the way is the same",
			Origin: Script{Header: []string{tag, noCache}, Confirm: []string{`ETag: W/"v1"`}},
			Steps:  []Step{miss(get("/a"), 1), confirmed(get("/a"), 1, 2, tag), confirmed(get("/a"), 1, 3, tag)},
		},
		Case{
			ID: "validate/fresh-again", What: "RFC 9111 4.3.4: a 304 makes the stored response fresh for everybody",
			Gates: 2, Cluster: true,
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{Header: []string{tag}, Confirm: []string{}}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond),
				Does{Then: Script{Confirm: []string{"Cache-Control: max-age=60"}}},
				confirmed(get("/a").to(1), 1, 2, "Cache-Control: max-age=60"), hit(get("/a"), 1, "Cache-Control: max-age=60"), hit(get("/a").to(1), 1),
			},
		},
		Case{
			ID: "validate/header", What: "RFC 9111 3.2: the fields of a 304 replace the stored ones, but for those of the body",
			Origin: Script{Header: []string{tag, noCache, "X-A: 1", "X-A: 2", "X-B: 1", "Content-Encoding: x-own", "Content-Type: text/plain", "Age: 7"},
				Confirm: []string{"X-A: 3", "X-C: 1", "Content-Encoding: x-other", "Content-Type: text/css", "Connection: X-D", "X-D: 1"}},
			Steps: []Step{
				miss(get("/a"), 1),
				confirmed(get("/a"), 1, 2, "X-A: 3", "X-B: 1", "X-C: 1", "Content-Encoding: x-own", "Content-Type: text/css", "!Age", "!X-D"),
			},
		},
		Case{
			ID: "validate/changed", What: "RFC 9111 4.3.3: a full response replaces the stored one",
			Origin: Script{Header: []string{`ETag: "v{n}"`, noCache}},
			Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a"), Want: Want{Run: 2, Role: core.RoleWinner, Cache: "fwd=stale fwd-status=200 stored"}, Runs: 2}, Saw{2, []string{`If-None-Match: "v1"`}},
				Send{Request: get("/a"), Want: Want{Run: 3, Cache: "fwd=stale stored"}, Runs: 3}, Saw{3, []string{`If-None-Match: "v2"`}},
			},
		},
		Case{
			ID: "validate/fails", What: "RFC 9111 4.3.3, RFC 5861 4: the stale copy stands in for a validation that fails",
			Route: staleable(core.StaleFor(0)), Origin: soon(Script{Header: []string{tag}}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Status: 503, Body: "sorry"}},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale}, Runs: 2}, Saw{2, []string{`If-None-Match: "v1"`}},
			},
		},
		Case{
			ID: "validate/fails-must-revalidate", What: "RFC 9111 5.2.2.2: where stale is forbidden the failure is told",
			Route:  []core.RouteOption{core.StaleFor(time.Hour), core.StaleIfError(time.Hour), core.Degrade(core.OverStale(time.Hour))},
			Origin: Script{Header: []string{tag, "Cache-Control: max-age=0, must-revalidate"}},
			Steps: []Step{
				miss(get("/a"), 1), Does{Then: Script{Status: 503, Body: "sorry"}},
				Send{Request: get("/a"), Want: Want{Status: 503, Run: 2, Body: "sorry", Cache: "!hit !stored"}, Runs: 2},
				Does{Then: asks(tag, noCache)}, confirmed(get("/a"), 1, 3),
			},
		},
		Case{
			ID: "validate/client-asks-too", What: "RFC 9111 4.3.2: a client's own condition is answered from the response that was validated, and the handler does not see it", Lists: []int{29},
			Origin: asks(tag, noCache),
			Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a", `If-None-Match: "v0", "v1"`), Want: Want{Status: 304, Run: 1, Cache: "fwd=stale fwd-status=304 stored"}, Runs: 2},
				Saw{2, []string{`If-None-Match: "v1"`}},
				Send{Request: get("/a", `If-None-Match: "v0"`), Want: Want{Run: 1, Cache: "fwd=stale fwd-status=304 stored"}, Runs: 3},
				Saw{3, []string{`If-None-Match: "v1"`}},
			},
		},
		Case{
			ID: "validate/unasked", What: "nicolasazrak/caddy-cache#28: a 304 was stored as the page", Lists: []int{22, 29},
			Route: fresh(), Origin: Script{Status: 304, Header: []string{tag}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 304, Run: 1, Cache: "!stored"}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: 304, Run: 2, Cache: "!stored"}, Runs: 2},
			},
		},
		Case{
			ID: "validate/variant", What: "RFC 9111 4.3.1: a variant is validated with the request headers that select it",
			Origin: asks(`ETag: "{X-Lang}"`, noCache, "Vary: X-Lang"),
			Steps: []Step{
				miss(get("/a", "X-Lang: de"), 1), miss(get("/a", "X-Lang: fr"), 2),
				confirmed(get("/a", "X-Lang: de"), 1, 3), Saw{3, []string{`If-None-Match: "de"`, "X-Lang: de"}},
				confirmed(get("/a", "X-Lang: fr"), 2, 4), Saw{4, []string{`If-None-Match: "fr"`, "X-Lang: fr"}},
			},
		},
		Case{
			ID: "validate/background", What: "RFC 5861 3: a refresh behind a stale response validates, too",
			Needs: []Capability{Background}, Route: staleable(), Origin: soon(Script{Header: []string{tag}}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Confirm: []string{"Cache-Control: max-age=60"}}},
				stale(get("/a"), 1), Until{Runs: 2, Idle: true}, Saw{2, []string{`If-None-Match: "v1"`}}, hit(get("/a"), 1, "X-Confirmed: 2"),
			},
		},
		Case{
			ID: "validate/herd", What: "RFC 9111 4: one validation for all who wait for it",
			Origin: asks(tag, noCache),
			Steps: []Step{
				miss(get("/a"), 1),
				Does{Then: Script{Hold: true, Confirm: []string{"Cache-Control: max-age=60"}}},
				Start{Name: "all", Request: get("/a"), N: 20}, Until{Running: 1, Waiting: 19}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Header: []string{"X-Confirmed: 2"}, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2},
				hit(get("/a"), 1),
			},
		},
		Case{
			ID: "validate/herd-fleet", What: "RFC 9111 4: one validation for all who wait for it, in all processes",
			Gates: 2, Cluster: true, Origin: asks(tag, noCache),
			Steps: []Step{
				miss(get("/a"), 1),
				Does{Then: Script{Hold: true, Confirm: []string{"Cache-Control: max-age=60"}}},
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Start{Name: "all", Request: get("/a"), N: 20, Spread: true}, Until{Waiting: 20}, Release{},
				Expect{Name: "winner", Want: Want{Run: 1, Role: core.RoleWinner}},
				Expect{Name: "all", Want: Want{Run: 1, Roles: map[core.Role]int{core.RoleWinner: 0}}, Runs: 2}, hit(get("/a").to(1), 1),
			},
		},
		Case{
			ID: "validate/herd-never-fresh", What: "RFC 9111 5.2.2.4: who comes while a no-cache response is validated waits for the next validation, together with all who do",
			Origin: asks(tag, noCache),
			Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Hold: true, Confirm: []string{}}}, Then: asks(tag, noCache)},
				Start{Name: "first", Request: get("/a")}, Until{Running: 1},
				Start{Name: "later", Request: get("/a"), N: 10}, Until{Waiting: 10}, Release{},
				Expect{Name: "first", Want: Want{Run: 1, Header: []string{"X-Confirmed: 2"}}},
				Expect{Name: "later", Want: Want{Run: 1}}, Until{Idle: true},
			},
		},
		Case{
			ID: "validate/invalidated", What: "DESIGN 11: what was invalidated is not asked about",
			Origin: asks(tag, noCache),
			Steps:  []Step{miss(get("/a"), 1), Invalidate{Target: "/a"}, miss(get("/a"), 2), Saw{2, []string{"!If-None-Match"}}},
		},
		Case{
			ID: "validate/omitted", What: "RFC 9111 5.2.2.4, 5.2.2.7: listed fields go to one client only",
			Route: fresh(), Origin: Script{Header: []string{`Cache-Control: no-cache="x-a, set-cookie", private="x-b"`, "X-A: {n}", "X-B: {n}", "X-C: {n}", "Set-Cookie: id={n}"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "stored", Header: []string{"X-A: 1", "X-B: 1", "X-C: 1", "Set-Cookie: id=1"}}, Runs: 1},
				hit(get("/a"), 1, "!X-A", "!X-B", "!Set-Cookie", "X-C: 1"),
			},
		},
	)
}
