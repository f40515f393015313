package core

import (
	"context"
	"strconv"
	"time"
)

// An Outcome is what happened to one request. Adapters return it from their Outcome
// function, to handlers and to middleware outside; Cache-Status, statistics and logs are made of it.
type Outcome struct {
	Role Role
	// Forward is why the stored responses did not do, in the words of RFC 9211 2.2: "uri-miss", "vary-miss", "miss" (it is
	// not known which), "stale"; "" for a hit.
	Forward string
	Detail  string        // why the request was not ours, or the response not stored ("panic": the handler did not return); "" otherwise. A bounded set of words
	Cause   string        // why the handler ran, with RoleWinner: "miss", "stale", "takeover", …
	Stored  bool          // the response was stored
	TTL     time.Duration // how long the served response is still fresh; negative when stale
	Waited  time.Duration // as a loser
	Status  int           // of the response; 0 if it went straight to the client
	// Forwarded is the status with which the handler answered a winner; 304 if it confirmed the stale copy that was there.
	Forwarded int
}

// A Role is what one request was.
type Role string

// The roles.
const (
	RoleHit          Role = "hit"           // served from a fresh entry
	RoleStale        Role = "stale"         // served from a stale entry, at once or because the handler failed
	RoleWinner       Role = "winner"        // ran the handler for everybody
	RoleLocalWaiter  Role = "local-waiter"  // waited for a winner of the same process and got its response
	RoleRemoteWaiter Role = "remote-waiter" // waited for a winner of another process and got its response
	RoleParallel     Role = "parallel"      // ran the handler for itself: the response is not shareable
	RoleDegraded     Role = "degraded"      // its wait ended without a response
	RoleBypass       Role = "bypass"        // not ours: went straight to the handler
)

// A cause says why a handler ran, or why a computation more than one was needed.
type cause string

const (
	causeMiss         cause = "miss"
	causeStale        cause = "stale"
	causeTakeover     cause = "takeover" // the holder of the lock died or lost it
	causeAfterFailure cause = "after-failure"
	causeUncacheable  cause = "uncacheable"
	causeNoRedis      cause = "no-redis"
	causeLockLost     cause = "lock-lost"
	causeHoldCap      cause = "hold-cap"
	causeInvalidated  cause = "invalidated"
	causeBreakerOpen  cause = "breaker-open"
	causeCorrupt      cause = "corrupt"                  // a stored value that is none of ours, damaged or moved
	causeDropped      cause = "dropped"                  // computed, but not stored: invalidated or replaced meanwhile
	causeUnconfirmed  cause = "invalidation-unconfirmed" // by a write through the middleware; tried again in the background
	causeMismatch     cause = "mismatch"                 // the handler answered 304 for another response than the stored one
)

type outcomeKey struct{}

// outcomeContext is a request's context with its outcome.
type outcomeContext struct {
	context.Context
	outcome Outcome
}

func (c *outcomeContext) Value(key any) any {
	if key == (outcomeKey{}) {
		return &c.outcome
	}
	return c.Context.Value(key)
}

// OutcomeOf returns the outcome of the request that ctx belongs to, the zero Outcome if none of this
// module's middleware saw it. It is complete once the middleware has returned; inside the handler only Role and Cause are set.
// It is for adapters, which export it as Outcome.
func OutcomeOf(ctx context.Context) Outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		return *o
	}
	return Outcome{}
}

const cacheName = "herdgate"

// cacheStatus is the outcome as a member of the Cache-Status list (RFC 9211).
func (o *Outcome) cacheStatus() string {
	b := make([]byte, 0, 64)
	b = append(b, cacheName...)
	param := func(p string) { b = append(append(b, "; "...), p...) }
	switch o.Role {
	case RoleHit, RoleStale:
		param("hit")
		param("ttl=")
		b = strconv.AppendInt(b, seconds(o.TTL), 10)
	case RoleWinner, RoleParallel, RoleDegraded:
		param("fwd=")
		b = append(b, o.Forward...)
	case RoleLocalWaiter, RoleRemoteWaiter:
		param("fwd=")
		b = append(b, o.Forward...)
		param("collapsed")
	case RoleBypass:
		if o.Detail == "method" {
			param("fwd=method")
		} else {
			param("fwd=bypass")
		}
	}
	if o.Role == RoleWinner && o.Forwarded != 0 {
		param("fwd-status=")
		b = strconv.AppendInt(b, int64(o.Forwarded), 10)
	}
	if o.Stored {
		param("stored")
	}
	if o.Role == RoleDegraded && o.Detail == "" {
		param("detail=degraded")
	}
	if o.Detail != "" {
		param("detail=")
		b = append(b, o.Detail...)
	}
	return string(b)
}

// seconds rounds down, so that -0.5 s is not fresh.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		s--
	}
	return s
}
