package conformance

import (
	"github.com/herdgate/herdgate/core"
)

// credentialCases are about who may see what: DESIGN 9, RFC 9111 3.5.
func credentialCases() []Case {
	var (
		winner = map[core.Role]int{core.RoleWinner: 1}
		names  = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Forwarded-User", "Cf-Access-Jwt-Assertion"}
	)
	cases := forEach(names, func(name string) Case {
		return Case{
			ID: "credentials/kind", What: "gofiber/fiber#3905: a response to Authorization was shared; RFC 9111 3.5", Lists: []int{3},
			Route: fresh(),
			Steps: []Step{
				alone(get("/a", name+": a=1"), 1, "credentials"), alone(get("/a", name+": b=1"), 2, "credentials"), alone(get("/a", name+": a=1"), 3, "credentials"),
				Saw{1, []string{name + ": a=1"}},
				miss(get("/a"), 4), hit(get("/a"), 4),
				alone(get("/a", name+": a=1"), 5, "credentials"), hit(get("/a"), 4),
			},
		}
	})
	cases = append(cases, forEach(names, func(name string) Case {
		return Case{
			ID: "credentials/public", What: "DESIGN 9: Public; credentials are hidden from the handler",
			Route: fresh(core.Public()),
			Steps: []Step{
				miss(get("/a", name+": a=1"), 1), hit(get("/a", name+": b=1"), 1), hit(get("/a"), 1),
				Saw{1, []string{"!" + name}},
			},
		}
	})...)
	cases = append(cases, forEach([]string{"public, max-age=60", "s-maxage=60"}, func(cc string) Case {
		return Case{
			ID: "credentials/lifted", What: "RFC 9111 3.5: public and s-maxage allow sharing in spite of Authorization",
			Origin: Script{Header: []string{"Cache-Control: " + cc}},
			Steps: []Step{
				miss(get("/a", "Authorization: a"), 1), hit(get("/a", "Authorization: b"), 1), hit(get("/a", "Cookie: c=1"), 1), hit(get("/a"), 1),
				miss(get("/b"), 2), hit(get("/b", "Authorization: b"), 2),
			},
		}
	})...)
	return append(cases,
		Case{
			ID: "credentials/must-revalidate", What: "RFC 9111 3.5: must-revalidate lifts Authorization, and nothing else",
			Origin: Script{Header: []string{"Cache-Control: max-age=60, must-revalidate"}},
			Steps: []Step{
				miss(get("/a", "Authorization: a"), 1), hit(get("/a", "Authorization: b"), 1), hit(get("/a"), 1),
				alone(get("/a", "Cookie: c=1"), 2, "credentials"), alone(get("/a", "Authorization: a", "Cookie: c=1"), 3, "credentials"), hit(get("/a"), 1),
			},
		},
		Case{
			ID: "credentials/empty", What: "an empty Authorization is there: nobody knows what the handler makes of it",
			Lacks: nil, Route: fresh(),
			Steps: []Step{alone(get("/a", "Authorization:"), 1, "credentials"), miss(get("/a"), 2), alone(get("/a", "X-Api-Key:"), 3, "credentials")},
		},
		Case{
			ID: "credentials/two-lines", What: "gofiber/fiber c36bcecae: only the first of two Authorization lines counted", Lists: []int{13},
			Route: fresh(core.KeyHeader("Authorization")),
			Steps: distinct(
				get("/a", "Authorization: a", "Authorization: b"), get("/a", "Authorization: a", "Authorization: c"), get("/a", "Authorization: a"),
				get("/a", "Authorization: b", "Authorization: a"), get("/a", "Authorization: a, b"),
			),
		},
		Case{
			ID: "credentials/two-lines-uncovered", What: "gofiber/fiber c36bcecae, without an option", Lists: []int{13},
			Route: fresh(),
			Steps: []Step{
				alone(get("/a", "Authorization: a", "Authorization: b"), 1, "credentials"), alone(get("/a", "Cookie: a=1", "Cookie: b=1"), 2, "credentials"),
			},
		},
		Case{
			ID: "credentials/key-header", What: "DESIGN 9: KeyHeader(Authorization): each user has an entry",
			Route: fresh(core.KeyHeader("Authorization")),
			Steps: []Step{
				miss(get("/a", "Authorization: a"), 1), miss(get("/a", "Authorization: b"), 2), hit(get("/a", "Authorization: a"), 1), miss(get("/a"), 3),
				Saw{1, []string{"Authorization: a"}}, alone(get("/a", "Authorization: a", "Cookie: c=1"), 4, "credentials"),
			},
		},
		Case{
			ID: "credentials/ignore-cookies", What: "DESIGN 9: IgnoreCookies hides cookies, and covers nothing else",
			Route: fresh(core.IgnoreCookies()),
			Steps: []Step{
				miss(get("/a", "Cookie: a=1"), 1), hit(get("/a", "Cookie: b=1"), 1), hit(get("/a"), 1), Saw{1, []string{"!Cookie"}},
				alone(get("/a", "Cookie: a=1", "Authorization: a"), 2, "credentials"), Saw{2, []string{"!Cookie", "Authorization: a"}},
			},
		},
		Case{
			ID: "credentials/key-cookie", What: "DESIGN 9: KeyCookie: the handler sees only the keyed cookies",
			Route: fresh(core.KeyCookie("lang")), Origin: Script{Body: "{n} {Cookie}"},
			Steps: []Step{
				Send{Request: get("/a", "Cookie: session=secret; lang=de"), Want: Want{Body: "1 lang=de", Cache: "stored"}, Runs: 1},
				hit(get("/a", "Cookie: lang=de; session=other"), 1), hit(get("/a", "Cookie: lang=de"), 1), miss(get("/a", "Cookie: lang=fr"), 2),
				miss(get("/a", "Cookie: session=secret"), 3), hit(get("/a"), 3), Saw{3, []string{"!Cookie"}},
				alone(get("/a", "Cookie: lang=de", "Authorization: a"), 4, "credentials"),
			},
		},
		Case{
			ID: "credentials/key-cookie-injective", What: "dotnet/aspnetcore#2810 with cookies", Lists: []int{10},
			Route: fresh(core.KeyCookie("a", "b")),
			Steps: distinct(get("/a", "Cookie: a=1; b=2"), get("/a", "Cookie: a=1"), get("/a", "Cookie: b=2"), get("/a", "Cookie: a=1b=2"), get("/a", "Cookie: a=12")),
		},
		Case{
			ID: "credentials/per-user", What: "DESIGN 9: PerUser with KeyBy",
			Route: fresh(core.PerUser()), KeyBy: "X-User",
			Steps: []Step{
				miss(get("/a", "Authorization: a", "X-User: a"), 1), miss(get("/a", "Authorization: b", "X-User: b"), 2),
				hit(get("/a", "Authorization: a2", "X-User: a"), 1), hit(get("/a", "Cookie: c=1", "X-User: b"), 2), Saw{1, []string{"Authorization: a"}},
				bypass(get("/a", "Authorization: a"), 3, "key"),
			},
		},
		Case{
			ID: "credentials/gate-option", What: "DESIGN 9: Credentials names more headers",
			Gate: []core.GateOption{core.Credentials("x-session")}, Route: fresh(),
			Steps: []Step{alone(get("/a", "X-Session: a"), 1, "credentials"), miss(get("/a"), 2), alone(get("/a", "X-Session: b"), 3, "credentials")},
		},
		Case{
			ID: "credentials/certificate", What: "DESIGN 9: a TLS client certificate is a credential",
			Route: fresh(), TLS: true,
			Steps: []Step{
				alone(Request{Target: "/a", Cert: true}, 1, "credentials"), miss(get("/a"), 2), alone(Request{Target: "/a", Cert: true}, 3, "credentials"), hit(get("/a"), 2),
			},
		},
		Case{
			ID: "credentials/certificate-public", What: "DESIGN 9: Public covers a client certificate",
			Route: fresh(core.Public()), TLS: true,
			Steps: []Step{miss(Request{Target: "/a", Cert: true}, 1), hit(get("/a"), 1)},
		},
		Case{
			ID: "credentials/not-waiting", What: "DESIGN 9: a request with credentials does not wait for a stranger's computation",
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "anonymous", Request: get("/a")}, Until{Running: 1},
				Start{Name: "user", Request: get("/a", "Authorization: a")}, Until{Running: 2}, Release{2},
				Expect{Name: "user", Want: Want{Run: 2, Role: core.RoleBypass, Cache: "detail=credentials"}},
				Release{}, Expect{Name: "anonymous", Want: Want{Run: 1, Cache: "stored"}}, hit(get("/a"), 1),
			},
		},
		Case{
			ID: "credentials/personal", What: "caddyserver/cache-handler#82: a private answer was shared with requests in flight", Lists: []int{4},
			Route: fresh(), Origin: Script{Hold: true, Body: "{n} for {Authorization}"},
			Steps: []Step{
				Start{Name: "user", Request: get("/a", "Authorization: a")}, Until{Running: 1},
				Start{Name: "anonymous", Request: get("/a"), N: 10}, Until{Waiting: 10},
				Release{1},
				Expect{Name: "user", Want: Want{Run: 1, Cache: "detail=credentials !stored"}},
				Until{Runs: 2}, Release{},
				Expect{Name: "anonymous", Want: Want{Run: 2, Body: "2 for ", Roles: winner}, Runs: 2},
				hit(get("/a"), 2),
			},
		},
		Case{
			ID: "credentials/personal-fleet", What: "caddyserver/cache-handler#82, over two processes", Lists: []int{4},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Hold: true, Body: "{n} for {Authorization}"},
			Steps: []Step{
				Start{Name: "user", Request: get("/a", "Authorization: a")}, Until{Running: 1},
				Start{Name: "anonymous", Request: get("/a"), N: 10, Spread: true}, Until{Waiting: 10},
				Release{},
				Expect{Name: "user", Want: Want{Run: 1, Cache: "detail=credentials !stored"}},
				Expect{Name: "anonymous", Want: Want{Run: 2, Body: "2 for ", Roles: winner}, Runs: 2},
				hit(get("/a").to(1), 2),
			},
		},
		Case{
			ID: "credentials/private-in-flight", What: "caddyserver/cache-handler#82: the response says private itself", Lists: []int{4},
			Route: fresh(core.Public()), Origin: Script{Hold: true, Header: []string{"Cache-Control: private, max-age=60"}},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 20}, Until{Running: 1, Waiting: 19}, Release{},
				Expect{Name: "all", Want: Want{Distinct: true, Cache: "!stored"}, Runs: 20},
			},
		},
		Case{
			ID: "credentials/users-together", What: "many users at a cold key: each gets a response of its own, at once",
			Route: fresh(), Origin: Script{Hold: true, Body: "{n} for {Authorization}"},
			Steps: []Step{
				Start{Name: "users", Request: get("/a", "Authorization: a"), N: 20}, Until{Running: 20}, Release{},
				Expect{Name: "users", Want: Want{Distinct: true, Cache: "!stored detail=credentials"}, Runs: 20},
			},
		},
		Case{
			ID: "credentials/public-private", What: "DESIGN 9: with Public a response that says private is still not shared",
			Route: fresh(core.Public()), Origin: Script{Header: []string{"Cache-Control: private"}},
			Steps: []Step{alone(get("/a"), 1, "private"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		},
		Case{
			ID: "credentials/public-set-cookie", What: "DESIGN 9: with Public a response that sets a cookie is still not shared", Lists: []int{2},
			Route: fresh(core.Public()), Origin: Script{Header: []string{"Set-Cookie: s={n}"}},
			Steps: []Step{alone(get("/a"), 1, "set-cookie"), Send{Request: get("/a"), Want: Want{Run: 2, Header: []string{"Set-Cookie: s=2"}, Cache: "!hit !stored"}, Runs: 2}},
		},
	)
}
