package conformance

import (
	"github.com/herdgate/herdgate/core"
)

// partCases are about requests for a part of the response, or for news only: RFC 9110 13 and 14, RFC 9111 4.3.2.
func partCases() []Case {
	type part struct {
		ask    string
		status int
		body   string
		header []string
	}
	const (
		tag      = `ETag: "v1"`
		modified = "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"
	)
	page := Script{Body: "0123456789", Header: []string{tag, modified, "Content-Type: text/plain", "Content-Language: de", "X-A: 1"}}
	var all []Step
	for _, p := range []part{
		{"Range: bytes=0-1", 206, "01", []string{"Content-Range: bytes 0-1/10", "Content-Length: 2", "X-A: 1", tag}},
		{"Range: bytes=4-", 206, "456789", []string{"Content-Range: bytes 4-9/10"}},
		{"Range: bytes=-3", 206, "789", []string{"Content-Range: bytes 7-9/10"}},
		{"Range: bytes=10-", 416, "", []string{"Content-Range: bytes */10", "!X-A"}},
		{"Range: bytes=0-1,3-4", 200, "0123456789", []string{"!Content-Range"}},
		{"Range: lines=0-1", 200, "0123456789", nil},
		{"Range: bytes=2-1", 200, "0123456789", nil},
		{"If-None-Match: \"v1\"", 304, "", []string{tag, "!Content-Type", "!Content-Language", "!Last-Modified", "X-A: 1"}},
		{"If-None-Match: W/\"v1\"", 304, "", nil},
		{"If-None-Match: \"v0\", \"v1\"", 304, "", nil},
		{"If-None-Match: *", 304, "", nil},
		{"If-None-Match: \"v0\"", 200, "0123456789", nil},
		{"If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT", 304, "", nil},
		{"If-Modified-Since: Mon, 02 Jan 2006 15:04:06 GMT", 304, "", nil},
		{"If-Modified-Since: Mon, 02 Jan 2006 15:04:04 GMT", 200, "0123456789", nil},
		{"If-Match: \"v0\"", 200, "0123456789", nil},
	} {
		r := get("/a", p.ask)
		all = append(all, Send{Request: r, Want: Want{Status: p.status, Body: p.body, Role: core.RoleHit, Header: p.header, Cache: "hit"}, Runs: 1})
	}
	whole := Want{Run: 1, Body: "0123456789", Role: core.RoleHit}
	first := Want{Status: 206, Run: 1, Body: "01", Role: core.RoleHit}
	return []Case{
		{
			ID: "part/hit", What: "RFC 9110 13.2.2, 14.2, 15.4.5: conditions and ranges are answered from the stored response",
			Route: fresh(), Origin: page, Steps: steps([]Step{miss(get("/a"), 1)}, all),
		},
		{
			ID: "part/if-range", What: "RFC 9110 13.1.5: a range only of the response that the client has a part of",
			Route: fresh(), Origin: page, Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a", "Range: bytes=0-1", `If-Range: "v1"`), Want: first, Runs: 1},
				Send{Request: get("/a", "Range: bytes=0-1", `If-Range: "v0"`), Want: whole, Runs: 1},
				Send{Request: get("/a", "Range: bytes=0-1", `If-Range: W/"v1"`), Want: whole, Runs: 1},
				Send{Request: get("/a", "Range: bytes=0-1", "If-Range: Mon, 02 Jan 2006 15:04:05 GMT"), Want: first, Runs: 1},
				Send{Request: get("/a", "Range: bytes=0-1", "If-Range: Mon, 02 Jan 2006 15:04:06 GMT"), Want: whole, Runs: 1},
			},
		},
		{
			ID: "part/precedence", What: "RFC 9110 13.2.2: If-None-Match before If-Modified-Since, both before Range",
			Route: fresh(), Origin: page, Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: get("/a", `If-None-Match: "v0"`, "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"), Want: whole, Runs: 1},
				Send{Request: get("/a", `If-None-Match: "v1"`, "If-Modified-Since: Mon, 02 Jan 2006 15:04:04 GMT", "Range: bytes=0-1"), Want: Want{Status: 304, Run: 1}, Runs: 1},
				Send{Request: get("/a", `If-None-Match: "v0"`, "Range: bytes=0-1"), Want: first, Runs: 1},
			},
		},
		{
			ID: "part/stale", What: "RFC 9111 4.3.2: also from a stored response that is stale, but may be served",
			Route: staleable(), Origin: soon(page), Steps: []Step{
				miss(get("/a"), 1), Expire{Request: get("/a")}, Does{Then: Script{Hold: true}},
				Send{Request: get("/a", "Range: bytes=0-1"), Want: Want{Status: 206, Run: 1, Body: "01", Role: core.RoleStale}},
				Start{Name: "news", Request: get("/a", `If-None-Match: "v1"`)}, Release{}, Expect{Name: "news", Want: Want{Status: -1}},
			},
		},
		{
			ID: "part/status", What: "RFC 9110 13.2.1, 14.2: neither applies to another status",
			Origin: Script{Status: 404, Body: "0123456789", Header: []string{tag, "Cache-Control: max-age=60"}}, Steps: []Step{
				Send{Request: get("/a"), Want: Want{Status: 404, Run: 1, Cache: "stored"}},
				Send{Request: get("/a", "Range: bytes=0-1"), Want: Want{Status: 404, Run: 1, Role: core.RoleHit, Body: "0123456789"}, Runs: 1},
				Send{Request: get("/a", `If-None-Match: "v1"`), Want: Want{Status: 404, Run: 1, Role: core.RoleHit}, Runs: 1},
			},
		},
		{
			ID: "part/head", What: "RFC 9110 14.2: Range is defined for GET only",
			Needs: []Capability{HeadLeads}, Route: fresh(), Origin: page, Steps: []Step{
				miss(get("/a"), 1),
				Send{Request: do("HEAD", "/a", "Range: bytes=0-1"), Want: Want{Run: 1, Role: core.RoleHit, Header: []string{"Content-Length: 10", "!Content-Range"}}, Runs: 1},
				Send{Request: do("HEAD", "/a", `If-None-Match: "v1"`), Want: Want{Status: 304, Run: 1, Role: core.RoleHit}, Runs: 1},
			},
		},
		{
			ID: "part/empty", What: "RFC 9110 14.1.2: there is no part of nothing",
			Route: fresh(), Origin: Script{Status: 200, Chunks: []string{}, Header: []string{"Content-Type: text/plain"}}, Steps: []Step{
				miss(get("/a"), 1), Send{Request: get("/a", "Range: bytes=0-"), Want: Want{Status: 416, Header: []string{"Content-Range: bytes */0"}, Role: core.RoleHit}, Runs: 1},
			},
		},
	}
}
