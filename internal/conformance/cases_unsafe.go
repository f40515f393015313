package conformance

import (
	"github.com/herdgate/herdgate/core"
)

// unsafeCases are about requests that may change what is stored: RFC 9111 4.4.
func unsafeCases() []Case {
	write := func(method, target string, run int) Step {
		return Send{Request: do(method, target), Want: Want{Run: run, Role: core.RoleBypass, Cache: "fwd=method !stored detail=method"}, Runs: run}
	}
	cases := forEach([]string{"POST", "PUT", "DELETE", "PATCH"}, func(method string) Case {
		return Case{
			ID: "unsafe/invalidates", What: "RFC 9111 4.4: a success invalidates the target, in every representation and every process",
			Route: fresh(), Origin: Script{Header: []string{"Vary: X-Lang"}},
			Steps: []Step{
				miss(get("/a", "X-Lang: de"), 1), miss(get("/a", "X-Lang: fr"), 2), miss(get("/b"), 3),
				write(method, "/a", 4),
				miss(get("/a", "X-Lang: de"), 5), miss(get("/a", "X-Lang: fr"), 6), hit(get("/b"), 3),
			},
		}
	})
	cases = append(cases, forEach([]int{201, 204, 303}, func(status int) Case {
		return Case{
			ID: "unsafe/success", What: "RFC 9111 4.4: a non-error status is one of 2xx or 3xx",
			Route: fresh(), Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Status: status}}},
				Send{Request: do("POST", "/a"), Want: Want{Status: status, Run: 2}, Runs: 2}, miss(get("/a"), 3),
			},
		}
	})...)
	cases = append(cases, forEach([]int{400, 404, 500, 503}, func(status int) Case {
		return Case{
			ID: "unsafe/error", What: "RFC 9111 4.4: an error invalidates nothing",
			Route: fresh(), Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Status: status, Body: "no"}}},
				Send{Request: do("POST", "/a"), Want: Want{Status: status, Run: 2}, Runs: 2}, hit(get("/a"), 1),
			},
		}
	})...)
	cases = append(cases, forEach([]string{"Location", "Content-Location"}, func(name string) Case {
		return Case{
			ID: "unsafe/related", What: "RFC 9111 4.4: what the response names goes, too, on the same host",
			Route: fresh(), Steps: []Step{
				miss(get("/list?p=1"), 1), Does{Next: []Script{{Status: 201, Header: []string{name + ": /list?p=1"}}}},
				Send{Request: do("POST", "/list"), Want: Want{Status: 201}, Runs: 2}, miss(get("/list?p=1"), 3),
			},
		}
	})...)
	return append(cases,
		Case{
			ID: "unsafe/relative", What: "RFC 9111 4.4, RFC 9110 10.2.2: a relative Location, and an absolute one; not that of another host",
			Route: fresh(), Steps: []Step{
				miss(get("/list/new"), 1), miss(get("/x"), 2), miss(get("/x").of("other.example"), 3),
				Does{Next: []Script{
					{Status: 201, Header: []string{"Location: new"}}, {Status: 201, Header: []string{"Location: http://TEST.example:80/x"}},
					{Status: 201, Header: []string{"Location: http://other.example/x"}},
				}},
				Send{Request: do("POST", "/list/"), Want: Want{Status: 201}, Runs: 4}, Send{Request: do("POST", "/list/"), Want: Want{Status: 201}, Runs: 5},
				Send{Request: do("POST", "/list/"), Want: Want{Status: 201}, Runs: 6},
				miss(get("/list/new"), 7), miss(get("/x"), 8), hit(get("/x").of("other.example"), 3),
			},
		},
		Case{
			ID: "unsafe/fleet", What: "RFC 9111 4.4, in another process; golang: read your own writes wherever you read",
			Gates: 2, Cluster: true, Route: fresh(), Steps: []Step{miss(get("/a"), 1), write("PUT", "/a", 2), miss(get("/a").to(1), 3)},
		},
		Case{
			ID: "unsafe/in-flight", What: "ZiggyCreatures/FusionCache#628: what was being computed before a write is not stored after it", Lists: []int{65},
			Route: fresh(), Steps: []Step{
				Does{Next: []Script{{Hold: true}}}, Start{Name: "old", Request: get("/a")}, Until{Running: 1},
				write("PUT", "/a", 2), Release{}, Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}},
				miss(get("/a"), 3), hit(get("/a"), 3),
			},
		},
		Case{
			ID: "unsafe/safe", What: "RFC 9110 9.2.1: a safe method changes nothing",
			Route: fresh(), Steps: []Step{miss(get("/a"), 1), write("OPTIONS", "/a", 2), hit(get("/a"), 1)},
		},
		Case{
			ID: "unsafe/streams", What: "RFC 9111 4.4: a response that goes straight to the client invalidates at its first byte",
			Needs: []Capability{InlineStreams}, Route: fresh(), Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Stream: true, Chunks: []string{"x", "y"}, HoldBetween: true}}},
				Start{Name: "write", Request: do("POST", "/a")}, Until{Received: "x", Name: "write"}, miss(get("/a"), 3),
				Release{}, Expect{Name: "write", Want: Want{Run: 2}}, hit(get("/a"), 3),
			},
		},
		Case{
			ID: "unsafe/error-returned", What: "RFC 9111 4.4: the application's answer to the handler's error is what counts",
			Needs: []Capability{ReturnsError}, Route: fresh(), Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Fail: 409}}},
				Send{Request: do("POST", "/a"), Want: Want{Status: 409, Cache: "detail=method"}, Runs: 2}, hit(get("/a"), 1),
			},
		},
		Case{
			ID: "unsafe/empty", What: "go-chi/stampede#9: a handler that writes nothing has succeeded", Lists: []int{30},
			Route: fresh(), Steps: []Step{
				miss(get("/a"), 1), Does{Next: []Script{{Empty: true}}},
				Send{Request: do("POST", "/a"), Want: Want{Status: 200}, Runs: 2}, miss(get("/a"), 3),
			},
		},
	)
}
