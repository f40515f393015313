package conformance

import (
	"fmt"

	"github.com/herdgate/herdgate/core"
)

// keyCases are about which requests are the same: DESIGN 7, RFC 9111 2 and 4.1.
func keyCases() []Case {
	cases := []Case{
		{
			ID: "key/query", What: "golang/vulndb#5069: the query was not part of the key", Lists: []int{1},
			Route: fresh(),
			Steps: distinct(get("/a"), get("/a?x=1"), get("/a?x=2"), get("/a?x=1&y=2"), get("/a?y=2&x=1"), get("/a?X=1")),
		},
		{
			ID: "key/injective", What: "dotnet/aspnetcore#2810: ?key=12&key=34 was ?key=1&key=234", Lists: []int{10},
			Route: fresh(core.KeyQuery("key")),
			Steps: distinct(
				get("/a?key=12&key=34"), get("/a?key=1&key=234"), get("/a?key=1234"), get("/a?key=12%26key%3D34"), get("/a?key=123&key=4"),
				get("/a?key=34&key=12"), get("/a?key=12;key=34"), get("/a?key="), get("/a?key"),
			),
		},
		{
			ID: "key/injective-default", What: "dotnet/aspnetcore#2810, without KeyQuery", Lists: []int{10},
			Route: fresh(),
			Steps: distinct(get("/a?key=12&key=34"), get("/a?key=1&key=234"), get("/a?key=12%26key=34"), get("/akey?=12&key=34"), get("/a?key=12&key=34&")),
		},
		{
			ID: "key/query-allowed", What: "DESIGN 7: KeyQuery is an allow-list, whatever the order; the handler sees everything",
			Route: fresh(core.KeyQuery("page", "sort")),
			Steps: []Step{
				miss(get("/a?page=1&sort=up&utm=x"), 1), hit(get("/a?sort=up&page=1"), 1), hit(get("/a?sort=up&utm=y&page=1"), 1),
				miss(get("/a?page=2&sort=up"), 2), miss(get("/a?page=1"), 3), miss(get("/a"), 4),
				Saw{1, []string{"target /a?page=1&sort=up&utm=x"}},
			},
		},
		{
			ID: "key/query-ignored", What: "DESIGN 7: IgnoreQuery, with a pattern",
			Route: fresh(core.IgnoreQuery("utm_*", "fbclid")),
			Steps: []Step{
				miss(get("/a?x=1&utm_source=a&fbclid=b"), 1), hit(get("/a?x=1&utm_source=c"), 1), hit(get("/a?x=1"), 1), hit(get("/a?fbclid=z&x=1"), 1),
				miss(get("/a?x=1&utm=a"), 2), miss(get("/a?x=2&utm_source=a"), 3),
				Saw{1, []string{"target /a?x=1&utm_source=a&fbclid=b"}},
			},
		},
		{
			ID: "key/path", What: "go-chi/stampede: the path was lower-cased", Lists: []int{12},
			Route: fresh(),
			Steps: distinct(get("/a"), get("/A"), get("/a/"), get("/a/b"), get("/a/B"), get("/a.b"), get("/a;b")),
		},
		{
			ID: "key/encoded", What: "RFC 3986 2.2: an encoded delimiter is data; URL.Path reads /u/me%3fa=1 as /u/me?a=1",
			Route: fresh(),
			Steps: distinct(get("/u/me%3fa=1"), get("/u/me?a=1"), get("/u%2Fme?a=1"), get("/u/me%2fa"), get("/u/me/a"), get("/u/%6De"), get("/u/me%00"), get("/u/m%C3%A9")),
		},
		{
			ID: "key/host", What: "go-chi/stampede: the host was not part of the key", Lists: []int{12},
			Route: fresh(),
			Steps: []Step{
				miss(get("/a").of("a.example"), 1), miss(get("/a").of("b.example"), 2), miss(get("/a").of("a.example:8080"), 3),
				hit(get("/a").of("a.example"), 1), hit(get("/a").of("A.Example"), 1), hit(get("/a").of("a.example:80"), 1), hit(get("/a").of("b.example"), 2),
			},
		},
		{
			ID: "key/aliasing", What: "gofiber/fiber#1380: the key aliased a pooled buffer", Lists: []int{9},
			Route: fresh(), KeepAlive: true,
			Steps: aliasing(60),
		},
		{
			ID: "key/rewritten", What: "DESIGN 7: middleware outside rewrites the path, so one target has two responses",
			Route: fresh(),
			Steps: []Step{
				miss(get("/a", "X-Rewrite: /b"), 1), miss(get("/a", "X-Rewrite: /c"), 2), miss(get("/a"), 3),
				hit(get("/a", "X-Rewrite: /b"), 1), hit(get("/a", "X-Rewrite: /c"), 2), hit(get("/a"), 3),
				Saw{1, []string{"target /b"}},
			},
		},
		{
			ID: "key/header", What: "DESIGN 7: KeyHeader",
			Route: fresh(core.KeyHeader("X-Lang")),
			Steps: distinct(get("/a", "X-Lang: de"), get("/a", "X-Lang: fr"), get("/a"), get("/a", "X-Lang: de, fr")),
		},
		{
			ID: "key/by", What: "DESIGN 7: KeyBy; an empty string is a bypass",
			Route: fresh(), KeyBy: "X-Tenant",
			Steps: []Step{
				miss(get("/a", "X-Tenant: a"), 1), miss(get("/a", "X-Tenant: b"), 2), hit(get("/a", "X-Tenant: a"), 1),
				bypass(get("/a"), 3, "key"), bypass(get("/a"), 4, "key"), hit(get("/a", "X-Tenant: b"), 2),
			},
		},
		{
			ID: "key/skip", What: "DESIGN 7: SkipIf",
			Route: fresh(), SkipIf: "X-Skip",
			Steps: []Step{
				bypass(get("/a", "X-Skip: 1"), 1, "skip"), miss(get("/a"), 2), bypass(get("/a", "X-Skip: 1"), 3, "skip"), hit(get("/a"), 2),
			},
		},
		{
			ID: "key/methods", What: "kataras/iris#1621: POST and DELETE were answered from the entry of GET", Lists: []int{5},
			Route: fresh(),
			Steps: []Step{
				miss(get("/a"), 1),
				bypass(Request{Method: "POST", Target: "/a", Body: "x"}, 2, "method"), Saw{2, []string{"method POST"}},
				miss(get("/b"), 3), bypass(do("DELETE", "/b"), 4, "method"), Saw{4, []string{"method DELETE"}},
				bypass(do("OPTIONS", "/b"), 5, "method"),
				bypass(Request{Method: "PUT", Target: "/c", Body: "x"}, 6, "method"), miss(get("/c"), 7),
				bypass(do("POST", "/d"), 8, "method"), miss(get("/d"), 9),
				bypass(Request{Method: "PATCH", Target: "/e", Body: "x"}, 10, "method"), miss(get("/e"), 11),
			},
		},
		{
			ID: "key/method-status", What: "RFC 9211 2.2: fwd=method",
			Route: fresh(),
			Steps: []Step{Send{Request: do("POST", "/a"), Want: Want{Cache: "fwd=method"}}, Send{Request: do("OPTIONS", "/a"), Want: Want{Cache: "fwd=method"}}},
		},
		{
			ID: "key/body", What: "DESIGN 4: a GET with a body is not ours",
			Route: fresh(),
			Steps: []Step{
				miss(get("/a"), 1), bypass(Request{Target: "/a", Body: "q"}, 2, "body"), bypass(Request{Target: "/b", Body: "q"}, 3, "body"), miss(get("/b"), 4),
			},
		},
		{
			ID: "key/vary", What: "darkweak/souin#192: Vary was ignored; RFC 9111 4.1", Lists: []int{6},
			Route: fresh(), Origin: Script{Header: []string{"Vary: X-Lang"}, Body: "{n} {X-Lang}"},
			Steps: distinct(get("/a", "X-Lang: de"), get("/a", "X-Lang: fr"), get("/a"), get("/a", "X-Lang: de, fr")),
		},
		{
			ID: "key/vary-lines", What: "bartventer/httpcache#33: only the first of several Vary lines counted", Lists: []int{33},
			Route: fresh(), Origin: Script{Header: []string{"Vary: X-User", "Vary: X-Lang, X-Tenant"}},
			Steps: distinct(
				get("/a", "X-Lang: de"), get("/a", "X-Lang: fr"), get("/a", "X-Lang: de", "X-User: u"), get("/a", "X-Lang: de", "X-Tenant: t"),
				get("/a", "X-Lang: de", "X-User: u", "X-Tenant: t"),
			),
		},
		{
			ID: "key/vary-lower-case", What: "RFC 9110 5.1: field names are case-insensitive, in Vary too",
			Route: fresh(), Origin: Script{Header: []string{"vary: x-lang"}},
			Steps: distinct(get("/a", "X-Lang: de"), get("/a", "X-Lang: fr")),
		},
		{
			ID: "key/vary-encoding", What: "DESIGN 15: Accept-Encoding is normalised",
			Route: fresh(), Origin: Script{Header: []string{"Vary: Accept-Encoding"}},
			Steps: []Step{
				miss(get("/a", "Accept-Encoding: gzip, br"), 1), hit(get("/a", "Accept-Encoding: br;q=1.0, gzip;q=0.8"), 1),
				miss(get("/a", "Accept-Encoding: gzip"), 2), miss(get("/a"), 3), hit(get("/a", "Accept-Encoding: gzip, br"), 1),
			},
		},
		{
			ID: "key/vary-cold", What: "moonrhythm/parapet#189: cold key, one gzip leader and br followers: exactly two computations, both stored", Lists: []int{7},
			Route: fresh(), Origin: Script{Header: []string{"Vary: Accept-Encoding"}, Encode: true, Hold: true},
			Steps: []Step{
				Start{Name: "gzip", Request: get("/a", "Accept-Encoding: gzip")}, Until{Running: 1},
				Start{Name: "br", Request: get("/a", "Accept-Encoding: br"), N: 10}, Until{Waiting: 10},
				Release{},
				Expect{Name: "gzip", Want: Want{Run: 1, Header: []string{"Content-Encoding: gzip"}}},
				Expect{Name: "br", Want: Want{Run: 2, Header: []string{"!Content-Encoding"}, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2},
				hit(get("/a", "Accept-Encoding: gzip"), 1), hit(get("/a", "Accept-Encoding: br"), 2),
			},
		},
		{
			ID: "key/vary-cold-fleet", What: "moonrhythm/parapet#189, over two processes", Lists: []int{7},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Header: []string{"Vary: Accept-Encoding"}, Encode: true, Hold: true},
			Steps: []Step{
				Start{Name: "gzip", Request: get("/a", "Accept-Encoding: gzip")}, Until{Running: 1},
				Start{Name: "br", Request: get("/a", "Accept-Encoding: br"), N: 10, Spread: true}, Until{Waiting: 10},
				Release{},
				Expect{Name: "gzip", Want: Want{Run: 1}},
				Expect{Name: "br", Want: Want{Run: 2, Roles: map[core.Role]int{core.RoleWinner: 1}}, Runs: 2},
				hit(get("/a", "Accept-Encoding: gzip").to(1), 1), hit(get("/a", "Accept-Encoding: br").to(1), 2),
			},
		},
		{
			ID: "key/encoded-unsaid", What: "gin-contrib/cache#69: gzip for a client without gzip; the handler forgot Vary", Lists: []int{8},
			Route: fresh(), Origin: Script{Encode: true},
			Steps: []Step{
				miss(get("/a", "Accept-Encoding: gzip"), 1),
				Send{Request: get("/a"), Want: Want{Run: 2, Header: []string{"!Content-Encoding"}}, Runs: 2},
				hit(get("/a", "Accept-Encoding: gzip"), 1, "Content-Encoding: gzip"), hit(get("/a"), 2, "!Content-Encoding"),
			},
		},
		{
			ID: "key/encoded-refused", What: "RFC 9110 12.5.3: gzip;q=0 is a refusal, whatever the handler made of it", Lists: []int{8},
			Route: fresh(), Origin: Script{Encode: true},
			Steps: []Step{
				Send{Request: get("/a", "Accept-Encoding: gzip;q=0"), Want: Want{Run: 1}},
				Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Header: []string{"!Content-Encoding"}}},
			},
		},
		{
			ID: "key/two-processes", What: "DESIGN 1: what one process stored is a hit in all",
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Header: []string{"Vary: X-Lang"}},
			Steps: []Step{
				miss(get("/a", "X-Lang: de"), 1), hit(get("/a", "X-Lang: de").to(1), 1), miss(get("/a", "X-Lang: fr").to(1), 2), hit(get("/a", "X-Lang: fr"), 2),
				miss(get("/b").to(1), 3), hit(get("/b"), 3),
			},
		},
	}
	return append(cases, forEach([]string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}, func(name string) Case {
		return Case{
			ID: "key/method-override", What: "DESIGN 4: a method override is not ours",
			Route: fresh(),
			Steps: []Step{miss(get("/a"), 1), bypass(get("/a", name+": DELETE"), 2, "method-override"), hit(get("/a"), 1)},
		}
	})...)
}

// aliasing are n targets of one length over kept connections, so that each request reuses the buffers of another.
func aliasing(n int) (steps []Step) {
	for round := range 3 {
		for i := range n {
			if r := get(fmt.Sprintf("/item/%04d?q=%04d", i, i)); round == 0 {
				steps = append(steps, miss(r, i+1))
			} else {
				steps = append(steps, hit(r, i+1))
			}
		}
	}
	return steps
}
