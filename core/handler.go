package core

import (
	"context"
	"sync"
	"time"
)

// hints is what a handler says about its response from inside.
type hints struct {
	mu      sync.Mutex
	fresh   time.Duration
	noStore bool
}

type hintsKey struct{}

// SetFresh says from inside a handler how long its response is fresh, as FreshFor does for
// the route. What the response says by Cache-Control or Expires still wins. ctx is the context of the request; d below or at zero, and a
// ctx that is not a cached handler's, change nothing. It may be called from several goroutines; the last call counts.
// A handler that answers 304 to a validation calls it again: the lifetime begins anew.
func SetFresh(ctx context.Context, d time.Duration) {
	if h, ok := ctx.Value(hintsKey{}).(*hints); ok && d > 0 {
		h.mu.Lock()
		h.fresh = d
		h.mu.Unlock()
	}
}

// NoStore says from inside a handler that its response is to be neither stored nor shared, without a word to the client.
// A ctx that is not a cached handler's changes nothing.
func NoStore(ctx context.Context) {
	if h, ok := ctx.Value(hintsKey{}).(*hints); ok {
		h.mu.Lock()
		h.noStore = true
		h.mu.Unlock()
	}
}

func (h *hints) get() (fresh time.Duration, noStore bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fresh, h.noStore
}

// Refreshing reports whether the request that ctx belongs to is not a client's: herdgate
// sends a copy of a request through the application to refresh a stale entry. Middleware outside
// Cache can leave such requests alone (rate limits, access logs).
func Refreshing(ctx context.Context) bool {
	_, ok := ctx.Value(refreshKey{}).(*refresh)
	return ok
}

// insideKey marks the context of a handler that runs behind a Cache of the gate.
type insideKey struct{ gate *Gate }
