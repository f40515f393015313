package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herdgate/herdgate/core"
)

// Differential sends one generated script of requests, and of what the handler does at each, to two hosts, and
// compares what clients get, what the outcomes are and how often the handlers ran. What is not compared, because
// frameworks differ there without us, is said where it is left out.
func Differential(t *testing.T, seed uint64, one, two Host) {
	t.Logf("seed %d", seed)
	for i, route := range routes() {
		t.Run(route.ID, func(t *testing.T) {
			t.Parallel()
			script := generate(rand.New(rand.NewPCG(seed, uint64(i))), one, two)
			compare(t, seed, script, func() [2]*player {
				return [2]*player{newPlayer(t, one, route, inMemory()), newPlayer(t, two, route, inMemory())}
			}, (*player).play)
		})
	}
}

// Transparent sends a generated script to a host with a gate and to the same host with the gate off: for what
// is computed for a request alone, a client must not see a difference.
func Transparent(t *testing.T, seed uint64, h Host) {
	t.Logf("seed %d", seed)
	for i, route := range routes() {
		t.Run(route.ID, func(t *testing.T) {
			t.Parallel()
			script := generate(rand.New(rand.NewPCG(seed, uint64(i))), h)
			for n := range script {
				r := &script[n].request
				r.Target = unique(r.Target, n) // nothing is answered from what is stored
				r.Header = slices.DeleteFunc(r.Header, func(line string) bool {
					// The gate answers conditions, and hides what the route tells it to hide.
					return strings.HasPrefix(line, "If-") || strings.HasPrefix(line, "Cookie") || strings.HasPrefix(line, "Authorization")
				})
			}
			off := backend{"off", func(*world, int) core.Backend { return core.Off() }}
			compare(t, seed, script, func() [2]*player {
				return [2]*player{newPlayer(t, h, route, inMemory()), newPlayer(t, h, route, off)}
			}, (*player).bare)
		})
	}
}

// compare plays a script on two hosts and fails at the first difference that does not come from a slow machine.
func compare(t *testing.T, seed uint64, script []pair, both func() [2]*player, play func(*player, *testing.T, pair) string) {
	t.Helper()
next:
	for try := 1; ; try++ {
		players := both()
		for n, p := range script {
			a, b := play(players[0], t, p), play(players[1], t, p)
			if a == b {
				continue
			}
			for _, player := range players {
				if slow := player.w.tooSlow(); slow != "" && try < attempts {
					t.Logf("attempt %d does not count: %s", try, slow)
					continue next
				}
			}
			t.Fatalf("seed %d, pair %d:\n%+v\n%+v\n%s:\n%s\n%s:\n%s",
				seed, n, p.request, p.script, players[0].w.name(), a, players[1].w.name(), b)
		}
		return
	}
}

func unique(target string, n int) string {
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	return fmt.Sprintf("%s%sa=%d", target, sep, n)
}

// A pair is a request and what the handler does if it runs.
type pair struct {
	request Request
	script  Script
}

const pairsPerRoute = 60

// routes are the routes on which scripts are played.
func routes() []Case {
	return []Case{
		{ID: "fresh", Route: fresh()},
		{ID: "public", Route: fresh(core.Public()), Outer: []string{"X-Request-Id: {id}", "Vary: Origin"}},
		{ID: "says", Route: []core.RouteOption{core.StaleFor(time.Hour)}},
		{ID: "keyed", Route: fresh(core.KeyQuery("a"), core.KeyHeader("X-Lang"), core.MaxBody(200))},
		{ID: "cookie", Route: fresh(core.KeyCookie("lang")), Outer: []string{"Vary: Accept-Encoding", "X-Multi: outer"}},
		{ID: "status", Route: fresh(core.FreshForStatus(404, time.Hour), core.FreshForStatus(301, time.Hour), core.FreshForStatus(204, time.Hour), core.KeyHeader("Authorization"))},
	}
}

// generate makes a script for the hosts given.
func generate(r *rand.Rand, hosts ...Host) (script []pair) {
	can := func(c Capability) bool {
		return !slices.ContainsFunc(hosts, func(h Host) bool { _, cannot := h.Cannot[c]; return cannot })
	}
	for range pairsPerRoute {
		p := pair{Request{Method: "GET", Target: pick(r, targets)}, Script{}}
		switch n := r.IntN(100); {
		case n < 8 && can(HeadLeads):
			p.request.Method = "HEAD"
		case n >= 92:
			p.request.Method = pick(r, []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
		}
		p.request.Header = some(r, requestLines, 25)
		p.script.Status = pick(r, []int{0, 0, 0, 0, 200, 200, 201, 204, 301, 404, 410, 500, 503})
		p.script.Header = some(r, responseLines, 12)
		switch r.IntN(6) {
		case 0:
			p.script.Size = 1 + r.IntN(400)
		case 1:
			p.script.Chunks = []string{"one ", "two {n} ", "", "three"}
		case 2:
			p.script.Chunks = []string{""}
		}
		if p.script.Status == http.StatusNoContent {
			p.script.Size, p.script.Chunks = 0, nil
		}
		p.script.Encode = r.IntN(8) == 0
		p.script.NoStore = r.IntN(20) == 0
		if r.IntN(10) == 0 {
			p.script.Fresh = time.Hour
		}
		if r.IntN(25) == 0 {
			p.script.Panic = pick(r, []When{Before, Between, After})
		}
		if !slices.ContainsFunc(p.script.Header, func(line string) bool { return strings.HasPrefix(line, "Content-Type") }) {
			p.script.Header = append(p.script.Header, "Content-Type: text/plain") // frameworks have defaults of their own
		}
		script = append(script, p)
	}
	return script
}

var (
	targets = []string{
		"/a", "/a", "/a", "/b", "/A", "/a?a=1", "/a?a=2", "/a?a=1&b=2", "/a?b=2&a=1", "/a%2Fb", "/a/b", "/a%3fa=1", "/a/", "/%61", "/a?a=%20", "/a?a=+", "/a;b",
	}
	requestLines = []string{
		"Authorization: a", "Cookie: lang=de; x=1", "Accept-Encoding: gzip", "Accept-Encoding: br, gzip", "X-Lang: de", "X-Lang: fr",
		`If-None-Match: "a"`, "Range: bytes=0-1", "Origin: https://one", "Cache-Control: no-cache", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT",
	}
	responseLines = []string{
		"Cache-Control: max-age=3600", "Cache-Control: no-store", "Cache-Control: private", "Cache-Control: public, max-age=3600", "Cache-Control: s-maxage=3600",
		"Cache-Control: max-age=3600, must-revalidate", `ETag: "a"`, `ETag: W/"b"`, "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT", "Vary: X-Lang", "Vary: Accept-Encoding",
		"Vary: Cookie", "Vary: *", "Set-Cookie: s={n}", "Content-Type: application/json", "X-Multi: a", "X-Multi: b", "Link: </1>", "Content-Language: de",
		"Expires: 0", "Age: 10", "Location: /elsewhere", "Cache-Status: upstream; hit", "Connection: X-Hop", "X-Hop: 1",
	}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// some picks each with the given probability in percent.
func some(r *rand.Rand, of []string, percent int) (picked []string) {
	for _, v := range of {
		if r.IntN(100) < percent {
			picked = append(picked, v)
		}
	}
	return picked
}

// A player plays scripts on a host.
type player struct{ w *world }

func newPlayer(t *testing.T, h Host, route Case, b backend) *player {
	a, ends := &attempt{}, &sync.WaitGroup{}
	t.Cleanup(func() {
		a.cleanUp()
		ends.Wait()
	})
	return &player{newWorld(a, &h, &route, b, ends)}
}

// ignored are response headers that tell the time, or belong to one connection.
var ignored = []string{"Age", "Date", "Retry-After", "Connection", "Keep-Alive", "Transfer-Encoding", "Cache-Status"}

// play plays a pair and returns all that must be the same everywhere.
func (p *player) play(t *testing.T, what pair) string {
	x := p.send(t, what)
	o := p.w.outcome(x.id)
	runs, _ := p.w.origin.count()
	header := p.header(x)
	status := ours(x.header)
	delete(status, "ttl")
	if what.script.Panic != Never && o.Role != core.RoleHit && o.Role != core.RoleStale {
		// The framework's recovery has made the response, unless the handler's had begun to go out.
		return fmt.Sprintf("%s %s runs %d", o.Role, o.Detail, runs)
	}
	return fmt.Sprintf("%d %q\n%s%v\n%s %q cause %q stored %v status %d\nruns %d",
		x.status, x.received(), header, status, o.Role, o.Detail, o.Cause, o.Stored, o.Status, runs)
}

// bare plays a pair and returns what must be the same with and without a gate.
func (p *player) bare(t *testing.T, what pair) string {
	x := p.send(t, what)
	if what.script.Panic != Never {
		return "" // the gate drops half a response, for the recovery outside; without it half of it may have gone out
	}
	return fmt.Sprintf("%d %q\n%s", x.status, x.received(), p.header(x, "Content-Length", "X-Hop"))
}

func (p *player) send(t *testing.T, what pair) *exchange {
	p.w.origin.does(what.script)
	x := p.w.client.start(p.w.nextID(), what.request)
	p.w.all = append(p.w.all, x)
	select {
	case <-x.done:
	case <-time.After(patience):
		t.Fatalf("no answer to %+v, %+v", what.request, what.script)
	}
	if x.err != nil {
		t.Fatalf("%+v, %+v: %v", what.request, what.script, x.err)
	}
	return x
}

// header is the header of a response, without what may differ.
func (p *player) header(x *exchange, without ...string) string {
	var b strings.Builder
	var names []string
	for name := range x.header {
		if name == "Content-Type" && x.status == http.StatusNotModified {
			continue // net/http leaves it out
		}
		if !slices.Contains(ignored, name) && !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := strings.Join(x.header[name], " | ")
		if name == "X-Request-Id" && value == x.id {
			value = "own"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return b.String()
}
