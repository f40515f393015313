package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// bodyCases are about whole bodies: DESIGN 6, RFC 9112 8.
func bodyCases() []Case {
	const big = 6 << 20
	roomy := fresh(core.MaxBody(16 << 20))
	winner := map[core.Role]int{core.RoleWinner: 1}
	readerLeaves := []Step{
		Start{Name: "leaver", Request: Request{Target: "/a", Read: 1 << 10}}, Until{Runs: 1, Received: "b", Name: "leaver"},
		Leave{Name: "leaver"}, Send{Request: get("/a"), Want: Want{Run: 1}, Runs: 1},
		Start{Name: "leaver", Request: Request{Target: "/a", Read: 1 << 10}}, Until{Received: "b", Name: "leaver"},
		Leave{Name: "leaver"}, hit(get("/a"), 1),
	}
	return []Case{
		{
			ID: "body/appended", What: "gin-contrib/cache#71: concurrent misses appended to one body", Lists: []int{15, 34},
			Route: fresh(), Origin: Script{Hold: true, Chunks: []string{"one {n} ", "two {n} ", "three {n}"}},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 30}, Until{Running: 1, Waiting: 29}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Body: "one 1 two 1 three 1", Roles: winner}, Runs: 1}, hit(get("/a"), 1),
			},
		},
		{
			ID: "body/last-write", What: "gin-gonic/contrib#57: only the last Write was stored", Lists: []int{16},
			Route: fresh(), Origin: Script{Chunks: []string{"one ", "", "two ", "three ", "four"}},
			Steps: []Step{miss(get("/a"), 1), Send{Request: get("/a"), Want: Want{Body: "one two three four", Role: core.RoleHit}}},
		},
		{
			ID: "body/half-cancel", What: "darkweak/souin#704: half of the collapsed clients left, and the bodies were glued", Lists: []int{17},
			Route: fresh(), Origin: Script{Hold: true, Chunks: []string{"one {n} ", "two {n}"}},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Start{Name: "losers", Request: get("/a"), N: 20}, Until{Waiting: 20},
				Leave{Name: "losers", N: 10}, Release{},
				Expect{Name: "winner", Want: Want{Run: 1}},
				Expect{Name: "losers", Want: Want{Run: 1, Body: "one 1 two 1"}, Runs: 1}, hit(get("/a"), 1),
			},
		},
		{
			ID: "body/reader-leaves", What: "caddyserver/cache-handler#73: a client read 1 KB of 6 MB and left; the next got 1 KB", Lists: []int{19},
			Route: roomy, Memory: true, Origin: Script{Size: big}, Steps: readerLeaves,
		},
		{
			ID: "body/reader-leaves-redis", What: "caddyserver/cache-handler#73, with a size that Redis delivers in time", Lists: []int{19},
			Route: fresh(), Narrow: true, Redis: true, Origin: Script{Size: 600 << 10}, Steps: readerLeaves,
		},
		{
			ID: "body/half", What: "ledgetech/ledge#187: half of a declared length, then return: was stored", Lists: []int{20},
			Needs: []Capability{OwnLength},
			Route: fresh(), Origin: Script{Length: 100, Body: "half"},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Cut: true}, Runs: 1}, Send{Request: get("/a"), Want: Want{Cut: true}, Runs: 2},
				Does{}, Send{Request: get("/a"), Want: Want{Run: 3, Cache: "stored"}}, hit(get("/a"), 3),
			},
		},
		{
			ID: "body/half-shared", What: "ledgetech/ledge#187: nor is it shared with those who wait", Lists: []int{20},
			Needs: []Capability{OwnLength},
			Route: fresh(), Origin: Script{Hold: true, Length: 100, Body: "half"},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Start{Name: "losers", Request: get("/a"), N: 5}, Until{Waiting: 5},
				Does{}, Release{1}, Expect{Name: "winner", Want: Want{Cut: true}}, Release{}, Expect{Name: "losers", Want: Want{Status: 200}},
			},
		},
		{
			ID: "body/half-abort", What: "ledgetech/ledge#187: half of a declared length, then abort", Lists: []int{20},
			Needs: []Capability{Aborts},
			Route: fresh(), Origin: Script{Length: 100, Body: "half", Abort: After},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Cut: true}, Runs: 1}, Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "stored"}}, hit(get("/a"), 2),
			},
		},
		{
			ID: "body/limit", What: "DESIGN 6: a body of exactly MaxBody is stored, one byte more is not", Lists: []int{21},
			Route: fresh(core.MaxBody(1000)), Origin: Script{Size: 1000},
			Steps: []Step{
				miss(get("/a"), 1), hit(get("/a"), 1), Does{Then: Script{Size: 1001}},
				alone(get("/b"), 2, "too-large"), Send{Request: get("/b"), Want: Want{Run: 3, Cache: "!hit !stored"}, Runs: 3}, hit(get("/a"), 1),
			},
		},
		{
			ID: "body/limit-chunks", What: "DESIGN 6: the limit is passed in a later write",
			Route: fresh(core.MaxBody(10)), Origin: Script{Chunks: []string{"12345", "67890", "1", "2345"}},
			Steps: []Step{alone(get("/a"), 1, "too-large"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		},
		{
			ID: "body/limit-concurrent", What: "victorspringer/http-cache: one byte over the limit, five at once: all get all", Lists: []int{21},
			Route: fresh(core.MaxBody(1 << 16)), Origin: Script{Hold: true, Size: 1<<16 + 1},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 5}, Until{Running: 1, Waiting: 4}, Release{1}, Until{Runs: 5}, Release{},
				Expect{Name: "all", Want: Want{Distinct: true, Cache: "!stored"}, Runs: 5},
			},
		},
		{
			ID: "body/not-modified", What: "nicolasazrak/caddy-cache#28: a 304 of the handler was stored as the page", Lists: []int{22},
			Route: fresh(), Origin: Script{Status: 304},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 304, Run: 1, Cache: "!stored detail=not-modified"}, Runs: 1},
				Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "stored"}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "body/partial", What: "darkweak/souin#667: a 206 was served to a full request", Lists: []int{23},
			Route: fresh(), Origin: Script{Status: 206, Header: []string{"Content-Range: bytes 0-3/10", "Cache-Control: max-age=60"}, Body: "part"},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 206, Run: 1, Cache: "!stored detail=partial"}, Runs: 1},
				Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "stored"}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "body/range-miss", What: "DESIGN 4: a Range request never leads; darkweak/souin#667", Lists: []int{23},
			Route: fresh(), Origin: Script{Status: 206, Header: []string{"Content-Range: bytes 0-3/10"}, Body: "part"},
			Steps: []Step{
				Send{Request: get("/a", "Range: bytes=0-3"), Want: Want{Status: 206, Run: 1, Role: core.RoleBypass, Cache: "detail=range"}, Runs: 1},
				Saw{1, []string{"Range: bytes=0-3"}}, Does{}, miss(get("/a"), 2),
				Send{Request: get("/a", "Range: bytes=0-3"), Want: Want{Status: -1, Run: 2, Role: core.RoleHit}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "body/head", What: "caddyserver/cache-handler#59, #112: HEAD and Content-Length", Lists: []int{28},
			Route: fresh(), Origin: Script{Size: 5000},
			Steps: []Step{
				miss(get("/a"), 1), hit(do("HEAD", "/a"), 1, "Content-Length: 5000"), hit(get("/a"), 1, "Content-Length: 5000"),
			},
		},
		{
			ID: "body/head-h2", What: "caddyserver/cache-handler#59, #112: on HTTP/2", Lists: []int{28},
			Needs: []Capability{HTTP2}, H2: true,
			Route: fresh(), Origin: Script{Size: 5000},
			Steps: []Step{
				miss(get("/a"), 1), hit(do("HEAD", "/a"), 1, "Content-Length: 5000"), hit(get("/a"), 1, "Content-Length: 5000"),
				miss(get("/b?x=1").of("b.example"), 2), hit(get("/b?x=1").of("B.example"), 2),
			},
		},
		{
			ID: "body/head-leads", What: "DESIGN 6: HEAD leads as GET where the framework can",
			Needs: []Capability{HeadLeads},
			Route: fresh(),
			Steps: []Step{
				Send{Request: do("HEAD", "/a"), Want: Want{Run: 1, Role: core.RoleWinner, Cache: "stored"}, Runs: 1}, Saw{1, []string{"method GET"}},
				hit(get("/a"), 1), hit(do("HEAD", "/a"), 1),
			},
		},
		{
			ID: "body/head-miss", What: "DESIGN 6: where HEAD may have a handler of its own it does not lead",
			Lacks: []Capability{HeadLeads},
			Route: fresh(),
			Steps: []Step{
				Send{Request: do("HEAD", "/a"), Want: Want{Role: core.RoleBypass, Cache: "detail=head"}, Runs: 1}, Saw{1, []string{"method HEAD"}},
				miss(get("/a"), 2), hit(do("HEAD", "/a"), 2),
			},
		},
		{
			ID: "body/conditional", What: "darkweak/souin#794: 304 to an unconditional client; RFC 9110 13.1", Lists: []int{29},
			Route: fresh(), Origin: Script{Header: []string{`ETag: "a"`, "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"}},
			Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a", `If-None-Match: "a"`), Want: Want{Status: 304, Run: 1, Role: core.RoleHit, Header: []string{`ETag: "a"`}}},
				hit(get("/a"), 1),
				Send{Request: get("/a", `If-None-Match: W/"a"`), Want: Want{Status: 304, Role: core.RoleHit}},
				Send{Request: get("/a", `If-None-Match: "b", "a"`), Want: Want{Status: 304, Role: core.RoleHit}},
				Send{Request: get("/a", "If-None-Match: *"), Want: Want{Status: 304, Role: core.RoleHit}},
				hit(get("/a", `If-None-Match: "b"`), 1),
				hit(get("/a", `If-None-Match: "b"`, "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"), 1),
				Send{Request: get("/a", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"), Want: Want{Status: 304, Role: core.RoleHit}},
				hit(get("/a", "If-Modified-Since: Mon, 02 Jan 2006 15:04:04 GMT"), 1), hit(get("/a", "If-Modified-Since: yesterday"), 1),
				Send{Request: do("HEAD", "/a", `If-None-Match: "a"`), Want: Want{Status: 304, Role: core.RoleHit}},
			},
		},
		{
			ID: "body/conditional-date", What: "RFC 9111 4.3.2: without a Last-Modified the Date of the stored response counts, and what is newer than the client's copy is sent",
			Route: fresh(),
			Steps: []Step{
				miss(get("/a"), 1), hit(get("/a", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"), 1, "Date", "!Last-Modified"),
				Send{Request: get("/a", "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT"), Want: Want{Status: 304, Run: 1, Role: core.RoleHit}},
			},
		},
		{
			ID: "body/conditional-miss", What: "DESIGN 6: the winner's conditions are its own; the handler and the others do not see them", Lists: []int{29},
			Route: fresh(), Origin: Script{Hold: true, Header: []string{`ETag: "a"`, "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"}},
			Steps: []Step{
				Start{Name: "conditional", Request: get("/a", `If-None-Match: "a"`, "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT", `If-Match: "z"`, "If-Unmodified-Since: Mon, 02 Jan 2006 15:04:05 GMT", `If-Range: "a"`)},
				Until{Running: 1}, Start{Name: "others", Request: get("/a"), N: 5}, Until{Waiting: 5}, Release{},
				Expect{Name: "conditional", Want: Want{Status: 304, Run: 1, Cache: "stored fwd=uri-miss"}},
				Expect{Name: "others", Want: Want{Run: 1}, Runs: 1},
				Saw{1, []string{"!If-None-Match", "!If-Modified-Since", "!If-Match", "!If-Unmodified-Since", "!If-Range", "!Range"}},
				hit(get("/a"), 1),
			},
		},
		{
			ID: "body/nothing", What: "go-chi/stampede#9: the handler writes nothing", Lists: []int{30},
			Route: fresh(), Origin: Script{Empty: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 5}, Expect{Name: "all", Want: Want{Run: -1}},
				Send{Request: get("/a"), Want: Want{Run: -1}},
				Does{}, Send{Request: get("/b"), Want: Want{Cache: "stored"}},
			},
		},
		{
			ID: "body/empty", What: "an empty body is a body",
			Route: fresh(), Origin: Script{Status: 200, Chunks: []string{""}},
			Steps: []Step{miss(get("/a"), 1), hit(get("/a"), 1, "Content-Length: 0")},
		},
		{
			ID: "body/no-content", What: "RFC 9110 15.3.5: 204 has no body and no Content-Length",
			Route: []core.RouteOption{core.FreshForStatus(204, time.Hour)}, Origin: Script{Status: 204},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 204, Run: 1, Cache: "stored", Header: []string{"!Content-Length"}}, Runs: 1},
				Send{Request: get("/a"), Want: Want{Status: 204, Run: 1, Role: core.RoleHit, Header: []string{"!Content-Length"}}},
			},
		},
		{
			ID: "body/binary", What: "a body is bytes",
			Route: fresh(), Origin: Script{Header: []string{"Content-Type: application/octet-stream"}, Body: "\x00\xff\r\n\r\n\x00hge\x01 {n}"},
			Steps: []Step{miss(get("/a"), 1), hit(get("/a"), 1, "Content-Type: application/octet-stream")},
		},
		{
			ID: "body/slow-reader", What: "moonrhythm/parapet#190, #205: a slow-reading leader held everybody", Lists: []int{39},
			Route: fresh(), Narrow: true, Origin: Script{Size: 600 << 10},
			Steps: []Step{
				Start{Name: "slow", Request: Request{Target: "/a", Read: 1}}, Until{Runs: 1, Received: "b", Name: "slow"},
				Send{Request: get("/a"), N: 2, Want: Want{Run: 1}, Runs: 1}, hit(get("/a"), 1), Until{Idle: true},
				Leave{Name: "slow"},
			},
		},
		{
			ID: "body/slow-reader-waiters", What: "moonrhythm/parapet#190: those who wait get it while the leader's client reads nothing", Lists: []int{39},
			Route: fresh(), Narrow: true, Origin: Script{Hold: true, Size: 600 << 10},
			Steps: []Step{
				Start{Name: "slow", Request: Request{Target: "/a", Read: 1}}, Until{Running: 1},
				Start{Name: "others", Request: get("/a"), N: 3}, Until{Waiting: 3}, Release{},
				Expect{Name: "others", Want: Want{Run: 1}, Runs: 1}, Until{Idle: true}, Leave{Name: "slow"},
			},
		},
	}
}

// headerCases are about what is stored of a header: DESIGN 6, RFC 9111 3.1.
func headerCases() []Case {
	return []Case{
		{
			ID: "header/multi", What: "gin-contrib/cache#37: headers were doubled, or lost all but one value", Lists: []int{27},
			Route: fresh(), Origin: Script{Header: []string{"X-Multi: a", "X-Multi: b", "X-Multi: a", "Link: </1>", "Link: </2>, </3>", "Content-Language: de"}},
			Steps: []Step{
				miss(get("/a"), 1),
				hit(get("/a"), 1, "X-Multi: a | b | a", "Link: </1> | </2>, </3>", "Content-Language: de"),
				hit(get("/a"), 1, "X-Multi: a | b | a"), Send{Request: get("/b"), Want: Want{Header: []string{"X-Multi: a | b | a"}}},
			},
		},
		{
			ID: "header/type", What: "the content type is what it was, once",
			Route: fresh(), Origin: Script{Header: []string{"Content-Type: application/json"}, Body: "{n}"},
			Steps: []Step{miss(get("/a"), 1), hit(get("/a"), 1, "Content-Type: application/json")},
		},
		{
			ID: "header/hop-by-hop", What: "RFC 9110 7.6.1, RFC 9111 3.1: what belongs to a connection is not stored",
			Route: fresh(), Origin: Script{Header: []string{"Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Connection: X-Hop", "X-Hop: 1", "X-End: 1", "Proxy-Connection: keep-alive"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "stored"}},
				hit(get("/a"), 1, "!Keep-Alive", "!Proxy-Authenticate", "!X-Hop", "!Proxy-Connection", "X-End: 1"),
			},
		},
		{
			ID: "header/cors", What: "the first origin's Access-Control-Allow-Origin was replayed", Lists: []int{11},
			Route: fresh(), Outer: []string{"Access-Control-Allow-Origin: {Origin}", "Vary: Origin"},
			Steps: []Step{
				Send{Request: get("/a", "Origin: https://one"), Want: Want{Run: 1, Header: []string{"Access-Control-Allow-Origin: https://one"}}},
				hit(get("/a", "Origin: https://two"), 1, "Access-Control-Allow-Origin: https://two", "Vary: Origin"),
				hit(get("/a"), 1, "!Access-Control-Allow-Origin", "Vary: Origin"),
			},
		},
		{
			ID: "header/cors-handler", What: "the handler's own CORS answer with Vary: Origin makes variants", Lists: []int{11},
			Route: fresh(), Origin: Script{Header: []string{"Access-Control-Allow-Origin: {Origin}", "Vary: Origin"}},
			Steps: []Step{
				miss(get("/a", "Origin: https://one"), 1), miss(get("/a", "Origin: https://two"), 2),
				hit(get("/a", "Origin: https://one"), 1, "Access-Control-Allow-Origin: https://one"), hit(get("/a", "Origin: https://two"), 2),
			},
		},
		{
			ID: "header/request-id", What: "DESIGN 6: what middleware outside sets is not stored",
			Route: fresh(), Outer: []string{"X-Request-Id: {id}", "X-Multi: outer {id}"}, Origin: Script{Header: []string{"X-Multi: inner"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Header: []string{"X-Request-Id: {id}", "X-Multi: outer {id} | inner"}}},
				hit(get("/a"), 1, "X-Request-Id: {id}", "X-Multi: outer {id} | inner"),
			},
		},
		{
			ID: "header/request-id-waiters", What: "DESIGN 6: nor shared with those who wait, nor given with a degraded answer",
			Route: fresh(), Outer: []string{"X-Request-Id: {id}"}, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10}, Until{Running: 1, Waiting: 9}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Header: []string{"X-Request-Id: {id}"}}, Runs: 1},
			},
		},
		{
			ID: "header/deleted", What: "DESIGN 6: the handler's deletes are replayed",
			Route: fresh(), Outer: []string{"X-Powered-By: outer"}, Origin: Script{Drop: []string{"X-Powered-By"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Header: []string{"!X-Powered-By"}}}, hit(get("/a"), 1, "!X-Powered-By"),
			},
		},
		{
			ID: "header/csrf-veto", What: "DESIGN 6: CSRF and session middleware outside says Vary: Cookie",
			Route: fresh(), Outer: []string{"Vary: Cookie"},
			Steps: []Step{alone(get("/a"), 1, "vary-credentials"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		},
		{
			ID: "header/csrf-lifted", What: "DESIGN 6: unless the route opted in",
			Route: fresh(core.Public()), Outer: []string{"Vary: Cookie"},
			Steps: []Step{miss(get("/a"), 1), hit(get("/a", "Cookie: a=1"), 1, "Vary: Cookie")},
		},
		{
			ID: "header/set-cookie-veto", What: "DESIGN 6: a session middleware outside sets a cookie", Lists: []int{2},
			Route: fresh(core.Public()), Outer: []string{"Set-Cookie: s={id}"},
			Steps: []Step{
				alone(get("/a"), 1, "set-cookie"),
				Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored", Header: []string{"Set-Cookie: s={id}"}}, Runs: 2},
			},
		},
		{
			ID: "header/set-cookie-veto-waiters", What: "DESIGN 6: nor is it shared with those who wait", Lists: []int{2, 4},
			Route: fresh(core.Public()), Outer: []string{"Set-Cookie: s={id}"}, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10}, Until{Running: 1, Waiting: 9}, Release{},
				Expect{Name: "all", Want: Want{Distinct: true, Header: []string{"Set-Cookie: s={id}"}}, Runs: 10},
			},
		},
		{
			ID: "header/no-store-veto", What: "DESIGN 6: middleware outside says no-store",
			Route: fresh(), Outer: []string{"Cache-Control: no-store"},
			Steps: []Step{alone(get("/a"), 1, "no-store"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored"}, Runs: 2}},
		},
		{
			ID: "header/late", What: "a header that is set after the first write never reached the client: it is not stored",
			Needs: []Capability{Commits},
			Route: fresh(), Origin: Script{Chunks: []string{"a", "b"}, Late: []string{"X-Late: 1"}},
			Steps: []Step{Send{Request: get("/a"), Want: Want{Run: 1, Header: []string{"!X-Late"}, Cache: "stored"}}, hit(get("/a"), 1, "!X-Late")},
		},
		{
			ID: "header/informational", What: "RFC 8297: 103 passes at once and is not stored",
			Needs: []Capability{Informs},
			Route: fresh(), Origin: Script{Inform: 103},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Infos: []int{103}, Cache: "stored"}}, Send{Request: get("/a"), Want: Want{Run: 1, Infos: []int{}, Role: core.RoleHit, Header: []string{"!Link"}}},
			},
		},
		{
			ID: "header/trailer", What: "trailers are not stored, so the response is not",
			Needs: []Capability{Trailers},
			Route: fresh(), Origin: Script{Header: []string{"Trailer: X-Sum"}, Late: []string{"X-Sum: 1"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "!stored detail=trailer", Header: []string{"Trailer/X-Sum: 1"}}, Runs: 1}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit !stored", Header: []string{"Trailer/X-Sum: 1"}}, Runs: 2},
			},
		},
		{
			ID: "header/cache-status", What: "RFC 9211 2: each cache on the way adds its member",
			Route: fresh(), Origin: Script{Header: []string{"Cache-Status: upstream; hit; ttl=5"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "fwd=uri-miss stored"}},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleHit, Cache: "hit"}},
			},
		},
		{
			ID: "header/date", What: "RFC 9110 6.6.1: a replay is as old as the response",
			Needs: []Capability{OwnDate},
			Route: fresh(), Origin: Script{Header: []string{"Date: Mon, 02 Jan 2006 15:04:05 GMT", "Cache-Control: max-age=1000000000"}},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Run: 1, Cache: "stored", Header: []string{"Date: Mon, 02 Jan 2006 15:04:05 GMT"}}},
				hit(get("/a"), 1, "Date: Mon, 02 Jan 2006 15:04:05 GMT"),
			},
		},
	}
}
