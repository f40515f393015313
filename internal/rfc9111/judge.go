// Package rfc9111 holds the HTTP caching rules as pure functions of values and a given time.
//
// It is the rule set of a shared cache, stricter than the RFC where the RFC leaves a choice: only
// explicit freshness counts unless the route asks for more, and what does not parse forbids what it seems to
// forbid and permits nothing. Each file holds one concept and cites the section at the rule.
package rfc9111

import (
	"net/http"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
)

// Response is a complete response as a cache sees it. Its headers are read only, and names are
// found in whatever case the handler spelled them.
type Response struct {
	Status int
	Before http.Header // header set by middleware outside the cache
	After  http.Header // effective header
	// AcceptEncoding holds the request's lines of that name. A response in a coding that the
	// request did not ask for is not stored where others would meet it.
	AcceptEncoding []string
}

// Credentials says which uncovered credentials the request carried.
type Credentials uint8

// What a request may have carried, from the least to the most restrictive.
const (
	NoCredentials     Credentials = iota
	OnlyAuthorization             // Authorization and nothing else
	OtherCredentials
)

// Policy is what the route says.
type Policy struct {
	FreshFor map[int]time.Duration // by status; FreshFor(d) is {200: d}
	Targeted []string              // targeted fields that are meant for this cache, the first valid one counts (RFC 9213 2.2)
	// Override stands in for every word of the response on caching, unless it is empty.
	Override string
	// OmitSetCookie treats Set-Cookie as if private="set-cookie" were said.
	OmitSetCookie bool
	StaleFor      time.Duration // -1: absent
	StaleIfError  time.Duration // -1: absent
	Heuristic     time.Duration // longest lifetime that may be guessed; 0: none is
	Credentials   Credentials   // of the request that was answered
	// Covered reports request headers that the route keyed or ignores: Vary may name them although
	// they are credentials. nil: none.
	Covered func(name string) bool
}

// Verdict is what may be done with a response.
//
// All fields are filled in whatever the Reason. Personal and Failure are independent of it and of
// each other: a 500 for somebody with a cookie is both.
type Verdict struct {
	// Reason says why the response may neither be stored nor shared with somebody who waits, as a
	// Cache-Status detail; "" = it may. Of several reasons it is the one that lasts longest: the
	// status first, then directives and fields, then credentials, then missing freshness.
	Reason string
	// Personal: the request carried credentials, and the response is not one for everybody in spite
	// of them (private, Set-Cookie, or a Scope that does not allow them). Such a response says
	// nothing about what requests without credentials would get, whatever else the Reason may be.
	Personal bool
	// Failure: 500, 502, 503 or 504, neither with explicit freshness of its own nor with a lifetime
	// from Policy.FreshFor. The Reason is "error" then.
	Failure      bool
	Scope        entry.Scope
	Age          time.Duration // when it was received
	Fresh        time.Duration
	Stale        time.Duration // stale-while-revalidate
	StaleIfError time.Duration
	MustNotStale bool // it may not be served stale in any form: a directive forbids it, or its lifetime is a guess. Both windows are zero
	// Validatable: the response may be kept beyond its lifetime and its windows, for the sake of its validator.
	Validatable bool
	// Omit are the fields that go to the client whose request it was, and to nobody else (Directives.Omit).
	Omit []string
	// Vary has canonical names, sorted, without duplicates. Covered credentials are among them:
	// what selects is the value that the handler was shown.
	Vary []string
}
