package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/herdgate/herdgate/core"
)

// A Step is one thing that happens in a case.
type Step interface{ take(w *world) }

// Send sends requests and looks at the responses.
type Send struct {
	Request
	N      int  // how many at once; 0: 1
	Spread bool // over all processes
	Want
	Runs int // how often the handler has run then, in all; 0: any
}

func (s Send) take(w *world) {
	w.start("", s.Request, max(1, s.N), s.Spread)
	w.expect("", s.Want, s.Runs)
}

// Start sends requests and goes on.
type Start struct {
	Name string
	Request
	N      int
	Spread bool
}

func (s Start) take(w *world) { w.start(s.Name, s.Request, max(1, s.N), s.Spread) }

// Expect waits for the responses to a Start and looks at them.
type Expect struct {
	Name string
	Want
	Runs int
}

func (s Expect) take(w *world) { w.expect(s.Name, s.Want, s.Runs) }

// Leave lets the clients of a Start go away, or the first N of them, which then are no longer part of it.
type Leave struct {
	Name string
	N    int
}

func (s Leave) take(w *world) { w.leave(s.Name, s.N) }

// Until waits until all that is given has come to be.
type Until struct {
	Running  int    // runs of the handler at this moment, at least
	Runs     int    // runs of the handler in all, exactly
	Waiting  int    // requests that wait, in all processes, exactly; -1: none
	Done     int    // responses to the Start called Name
	Received string // by the first client of the Start called Name, so far, at least
	Name     string
	Idle     bool // no handler runs and no process computes or waits
}

func (s Until) take(w *world) {
	w.until(fmt.Sprintf("%+v", s), patience, func() bool {
		runs, running := w.origin.count()
		waiting, flights := w.atWork()
		switch {
		case s.Running > 0 && running < s.Running,
			s.Runs > 0 && runs != s.Runs,
			s.Waiting != 0 && waiting != max(0, s.Waiting),
			s.Done > 0 && w.finished(s.Name) < s.Done,
			s.Received != "" && !strings.HasPrefix(w.groups[s.Name][0].received(), s.Received),
			s.Idle && (running > 0 || waiting > 0 || flights > 0):
			return false
		}
		return true
	})
}

// Release lets the runs with these numbers go on, or all that are held, and holds none from then on.
type Release []int

func (s Release) take(w *world) { w.origin.letGo(s...) }

// Does says what the handler does from now on: Next in its next runs, Then in all after them.
type Does struct {
	Next []Script
	Then Script
}

func (s Does) take(w *world) { w.origin.does(s.Then, s.Next...) }

// Expire waits until what is stored for the request is stale, or not usable at all.
type Expire struct {
	Request
	Gone bool
}

func (s Expire) take(w *world) {
	w.until("stale", patience, func() bool {
		hit, ttl, _ := w.probe(s.Request)
		return !hit || !s.Gone && ttl < 0
	})
}

// Lifetime sends a request whose response is fresh for the time given and not usable after it, and checks that it is a hit exactly
// that long: at every moment at which there is no doubt.
type Lifetime struct {
	Request
	For time.Duration
}

func (s Lifetime) take(w *world) {
	before := time.Now()
	Send{Request: s.Request, Want: Want{Role: core.RoleWinner, Cache: "stored"}}.take(w)
	after := time.Now()
	const precision = 2 * time.Millisecond // to which processes know the time of Redis
	var hits int
	w.until("the end of the lifetime", patience, func() bool {
		hit, _, sent := w.probe(s.Request)
		answered := time.Now()
		switch {
		case hit && sent.After(after.Add(s.For+precision)):
			w.t.Errorf("a hit %v after the response, which was fresh for %v", sent.Sub(after), s.For)
		case !hit && answered.Before(before.Add(s.For-precision)):
			w.t.Errorf("no hit %v after the request, the response was fresh for %v", answered.Sub(before), s.For)
		}
		if hit {
			hits++
		}
		return !hit
	})
	if hits == 0 {
		w.t.Logf("no hit at all in %v: nothing was learned about its beginning", s.For)
	}
}

// Invalidate invalidates a target by the gate of a process.
type Invalidate struct {
	Target string
	Host   string
	By     string
	At     int
}

func (s Invalidate) take(w *world) {
	host := s.Host
	if host == "" {
		host = "test.example"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.until("a confirmed invalidation", patience, func() bool { // an error means: try again
		return w.gates[s.At].Invalidate(ctx, core.Key{Host: host, Target: s.Target, By: s.By}) == nil
	})
}

// Close closes the gate of a process.
type Close struct{ At int }

func (s Close) take(w *world) { w.closeGate(s.At) }

// Pass lets time pass while something goes on that must not change by it.
type Pass time.Duration

func (s Pass) take(*world) { <-time.After(time.Duration(s)) }

// Again sends a request over and over until the handler has run so many times. Every response must be as wanted.
type Again struct {
	Request
	Want
	Runs int
}

func (s Again) take(w *world) {
	w.until(fmt.Sprintf("%d runs", s.Runs), patience, func() bool {
		Send{Request: s.Request, Want: s.Want}.take(w)
		runs, _ := w.origin.count()
		return runs >= s.Runs
	})
}

// Rounds sends a herd at each of N cold targets, one after the other; the handler runs once per round.
type Rounds struct {
	N       int
	Clients int
}

func (s Rounds) take(w *world) {
	runs, _ := w.origin.count()
	for i := range s.N {
		want := Want{Run: runs + i + 1, Roles: map[core.Role]int{core.RoleWinner: 1}}
		Send{Request: get(fmt.Sprintf("/round/%d", i)), N: s.Clients, Spread: true, Want: want, Runs: runs + i + 1}.take(w)
	}
}

// Upgrade opens a connection of another protocol and sees that it is open in both directions.
type Upgrade struct{ Target string }

func (s Upgrade) take(w *world) {
	conn, err := w.client.raw(0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: test.example\r\n%s: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", s.Target, idHeader, w.nextID())
	if err != nil {
		w.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		w.t.Fatalf("no answer to the upgrade: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("upgrade: status %d", resp.StatusCode)
	}
	for _, word := range []string{"one", "two"} {
		if _, err := io.WriteString(conn, word+"\n"); err != nil {
			w.t.Fatal(err)
		}
		if line, err := r.ReadString('\n'); err != nil || line != "echo "+word+"\n" {
			w.t.Fatalf("got %q, %v", line, err)
		}
	}
}

// Saw checks what a run of the handler saw: "method GET", "target /a", "Name: value", "!Name", "context alive" or
// "context done" when it ended.
type Saw struct {
	Run  int
	What []string
}

func (s Saw) take(w *world) {
	r, ok := w.origin.run(s.Run)
	if !ok {
		w.t.Fatalf("there was no run %d", s.Run)
	}
	for _, what := range s.What {
		ok := false
		var got any
		name, value, isHeader := strings.Cut(what, ": ")
		switch word, rest, _ := strings.Cut(what, " "); {
		case isHeader:
			got = r.header.Values(name)
			ok = slices.Equal(r.header.Values(name), []string{value})
		case what[0] == '!':
			got = r.header.Values(what[1:])
			ok = len(r.header.Values(what[1:])) == 0
		case word == "method":
			got, ok = r.method, r.method == rest
		case word == "target":
			got, ok = r.target, r.target == rest
		case word == "context":
			got, ok = r.left, (r.left == nil) == (rest == "alive")
		}
		if !ok {
			w.t.Fatalf("run %d of the handler saw %v, want %q", s.Run, got, what)
		}
	}
}
