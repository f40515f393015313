package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// streamCases are about responses that are sent while they are made: DESIGN 6.
func streamCases() []Case {
	events := Script{Stream: true, Header: []string{"Content-Type: text/event-stream"}, Chunks: []string{"data: 1 {n}\n\n", "data: 2 {n}\n\n"}, HoldBetween: true}
	return []Case{
		{
			ID: "stream/first-byte", What: "darkweak/souin#600: server-sent events behind the cache: the first byte is not held back", Lists: []int{66},
			Route: fresh(), Origin: events,
			Steps: []Step{
				Start{Name: "a", Request: get("/a")}, Until{Received: "data: 1 1\n\n", Name: "a"}, Release{},
				Expect{Name: "a", Want: Want{Run: 1, Body: "data: 1 1\n\ndata: 2 1\n\n", Role: core.RoleWinner, Cache: "!stored detail", Header: []string{"Content-Type: text/event-stream"}}, Runs: 1},
				Does{Then: Script{}}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit"}, Runs: 2},
			},
		},
		{
			ID: "stream/together", What: "darkweak/souin#600: each client has a stream of its own, all at once", Lists: []int{40, 66},
			Route: fresh(), Origin: events,
			Steps: []Step{
				Start{Name: "a", Request: get("/a"), N: 10}, Until{Running: 10}, Until{Received: "data: 1 ", Name: "a"}, Release{},
				Expect{Name: "a", Want: Want{Distinct: true, Cache: "!stored"}, Runs: 10},
			},
		},
		{
			ID: "stream/client-leaves", What: "the stream of a client that has left ends: a response that goes straight to one client is that client's", Lists: []int{66},
			Needs: []Capability{SeesLeave, InlineStreams},
			Route: fresh(), Origin: Script{Stream: true, Chunks: []string{"data: {n}\n\n", "end"}, HoldContext: true},
			Steps: []Step{
				Start{Name: "a", Request: get("/a")}, Until{Received: "data: 1\n\n", Name: "a"}, Leave{Name: "a"}, Until{Runs: 1, Idle: true}, Saw{1, []string{"context done"}},
			},
		},
		{
			ID: "stream/panic", What: "golang/go#33519: a panic after the first byte went out cuts the response; nobody hangs", Lists: []int{36},
			Needs: []Capability{InlineStreams},
			Route: fresh(), Origin: Script{Stream: true, Chunks: []string{"data: {n}\n\n", "end"}, Abort: Between},
			Steps: []Step{
				Send{Request: get("/a"), Want: Want{Cut: true}, Runs: 1}, Does{}, Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!hit"}, Runs: 2},
			},
		},
		{
			ID: "stream/large", What: "DESIGN 6: over the limit the response goes on as it is written",
			Needs: []Capability{InlineStreams},
			Route: fresh(core.MaxBody(1000)), Origin: Script{Chunks: []string{pattern(0, 50_000), "end"}, HoldBetween: true},
			Steps: []Step{
				Start{Name: "a", Request: get("/a")}, Until{Received: pattern(0, 20_000), Name: "a"}, Release{}, Expect{Name: "a", Want: Want{Run: 1, Cache: "!stored detail=too-large"}},
			},
		},
		{
			ID: "stream/websocket", What: "darkweak/souin#600: an upgrade behind the cache", Lists: []int{66},
			Needs: []Capability{Hijacks}, Route: fresh(), Origin: Script{Hijack: true},
			Steps: []Step{Upgrade{"/a"}, Until{Idle: true}, Upgrade{"/a"}, Does{Then: Script{}}, miss(get("/b"), 3)},
		},
		{
			ID: "stream/websocket-cached", What: "darkweak/souin#600: an upgrade of a URL that is stored", Lists: []int{66},
			Needs: []Capability{Hijacks}, Route: fresh(),
			Steps: []Step{miss(get("/a"), 1), Does{Then: Script{Hijack: true}}, Upgrade{"/a"}, hit(get("/a"), 1)},
		},
		{
			ID: "stream/header-only-upgrade", What: "DESIGN 4: Upgrade is not ours",
			Route: fresh(),
			Steps: []Step{miss(get("/a"), 1), bypass(get("/a", "Connection: Upgrade", "Upgrade: h2c"), 2, "upgrade"), hit(get("/a"), 1)},
		},
		{
			ID: "stream/long", What: "DESIGN 6: a stream holds neither the lock nor the others", Lists: []int{66},
			Route: fresh(core.LockFor(100 * time.Millisecond)), Origin: events,
			Steps: []Step{
				Start{Name: "a", Request: get("/a")}, Until{Received: "data: 1 1\n\n", Name: "a"}, Start{Name: "b", Request: get("/a")}, Until{Received: "data: 1 2\n\n", Name: "b"},
				Pass(150 * time.Millisecond), Release{}, Expect{Name: "a", Want: Want{Run: 1}}, Expect{Name: "b", Want: Want{Run: 2}},
			},
		},
	}
}
