package conformance

import (
	"fmt"
	"time"

	"github.com/herdgate/herdgate/core"
)

// The words in which most steps are written.

func get(target string, header ...string) Request { return Request{Target: target, Header: header} }

func do(method, target string, header ...string) Request {
	return Request{Method: method, Target: target, Header: header}
}

// to sends a request to another process.
func (r Request) to(at int) Request {
	r.At = at
	return r
}

// of sends a request for another host.
func (r Request) of(host string) Request {
	r.Host = host
	return r
}

// miss is a request that is computed and stored. run is how often the handler has run then.
func miss(r Request, run int) Step {
	return Send{Request: r, Want: Want{Run: run, Role: core.RoleWinner, Cache: "fwd stored !detail"}, Runs: run}
}

// hit is a request that gets what a run made, without another.
func hit(r Request, run int, header ...string) Step {
	return Send{Request: r, Want: Want{Run: run, Role: core.RoleHit, Header: header}}
}

// stale is a request that gets a stale copy at once.
func stale(r Request, run int) Step {
	return Send{Request: r, Want: Want{Run: run, Role: core.RoleStale}}
}

// alone is a request that is computed and not stored.
func alone(r Request, run int, detail string) Step {
	return Send{Request: r, Want: Want{Run: run, Cache: "!hit !stored detail=" + detail}, Runs: run}
}

// bypass is a request that goes straight to the handler.
func bypass(r Request, run int, detail string) Step {
	return Send{Request: r, Want: Want{Run: run, Role: core.RoleBypass, Cache: "detail=" + detail}, Runs: run}
}

// distinct are requests of which each has a response of its own, first computed and then stored.
func distinct(requests ...Request) (steps []Step) {
	for i, r := range requests {
		steps = append(steps, miss(r, i+1))
	}
	for i, r := range requests {
		steps = append(steps, hit(r, i+1))
	}
	return steps
}

// steps is a list with more at its end.
func steps(lists ...[]Step) (all []Step) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// fresh is a route whose responses are fresh for longer than a case takes, with more options.
func fresh(more ...core.RouteOption) []core.RouteOption {
	return append([]core.RouteOption{core.FreshFor(time.Hour)}, more...)
}

// staleable is a route whose responses may be served stale for longer than a case takes. A response is stale soon if its
// Script says so (see soon).
func staleable(more ...core.RouteOption) []core.RouteOption {
	return append([]core.RouteOption{core.FreshFor(time.Hour), core.StaleFor(time.Hour), core.StaleIfError(time.Hour)}, more...)
}

// soon is a Script whose response is stale after a moment.
func soon(s Script) Script {
	s.Fresh = 30 * time.Millisecond
	return s
}

// forEach makes a case of each of several words.
func forEach[T any](of []T, one func(T) Case) (cases []Case) {
	for _, v := range of {
		c := one(v)
		c.ID = fmt.Sprintf("%s/%v", c.ID, v)
		cases = append(cases, c)
	}
	return cases
}
