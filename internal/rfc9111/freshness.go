package rfc9111

import (
	"net/http"
	"time"
)

// lifetime returns the freshness lifetime of a response (RFC 9111 4.2.1), and false if nothing
// gives it one. What the response says wins over the route, also when it says zero.
func lifetime(r Response, cc Directives, expires []string, p Policy, now time.Time) (time.Duration, bool) {
	if fresh, ok := explicitLifetime(r.After, cc, expires, now); ok {
		return fresh, true
	}
	fresh, ok := p.FreshFor[r.Status]
	return min(max(0, fresh), MaxDelta), ok
}

// explicitLifetime is what the response says itself: s-maxage (a shared cache's own), else max-age,
// else Expires, of which the lines are given.
func explicitLifetime(h http.Header, cc Directives, expires []string, now time.Time) (time.Duration, bool) {
	switch {
	case cc.SMaxAge.Present: // 5.2.2.10
		return cc.SMaxAge.Value, true
	case cc.MaxAge.Present: // 5.2.2.1; it overrides Expires (5.3)
		return cc.MaxAge.Value, true
	}
	if len(expires) == 0 {
		return 0, false
	}
	made, ok := date(h, now)
	if !ok {
		made = now // RFC 9110 6.6.1: without a Date the time of receipt takes its place
	}
	fresh := MaxDelta
	for _, line := range expires { // of several, the earliest (4.2.1 leaves the choice)
		t, ok := ParseDate(line, now)
		if !ok {
			return 0, true // 5.3: what is no date, "0" above all, lies in the past
		}
		fresh = min(fresh, t.Sub(made))
	}
	return max(0, fresh), true
}

// defaultStaleIfError is the window of a route that set FreshFor and nothing else.
const defaultStaleIfError = time.Minute

// windows returns how long after its lifetime a response may be served while one request refreshes
// it, and how long it may stand in for a failure (RFC 9111 4.2.4, RFC 5861).
//
// The response's own directives win over the route. What the route says, or defaults to, extends
// only a response that had a lifetime: with max-age=0 a handler takes a single response out of the
// cache, whatever its route has set.
func windows(status int, fresh time.Duration, cc Directives, p Policy) (stale, ifError time.Duration) {
	if cc.NoStale {
		return 0, 0
	}
	if fresh > 0 {
		if _, ok := p.FreshFor[status]; ok {
			stale, ifError = fresh, defaultStaleIfError
		}
		if p.StaleFor >= 0 {
			stale = p.StaleFor
		}
		if p.StaleIfError >= 0 {
			ifError = p.StaleIfError
		}
	}
	if cc.StaleWhileRevalidate.Present {
		stale = cc.StaleWhileRevalidate.Value
	}
	if cc.StaleIfError.Present {
		ifError = cc.StaleIfError.Value
	}
	return min(stale, MaxDelta), min(ifError, MaxDelta)
}
