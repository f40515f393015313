package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/herdgate/herdgate/internal/host"
)

const (
	// refreshSlots bounds how many refreshes of a gate run at a time. Above it a refresh is dropped: the copy is still
	// stale for the next request, which tries again.
	refreshSlots = 64
	// foregroundFor is how long a route refreshes in the foreground after a re-dispatch did not arrive.
	foregroundFor = time.Minute
)

type refreshKey struct{}

// refresh sends a frozen copy of a request through the application, in the background, so that
// no client waits for the new response. Its result is taken at our own middleware, when the copy arrives there with
// the grant, and never from what comes out at the end.
type refresh struct {
	m        *middleware
	dispatch func(context.Context)
	seen     stored // what is refreshed
	grant    *grant
	arrived  atomic.Bool
}

// freeze prepares a refresh. It returns nil where a refresh must be in the foreground: the framework
// gives no way to send a request again, or the last one did not arrive (outer authentication, a limiter).
func (m *middleware) freeze(x host.Exchange, seen stored) *refresh {
	if time.Now().UnixNano() < m.foregroundUntil.Load() {
		return nil
	}
	dispatch := x.Freeze()
	if dispatch == nil {
		return nil
	}
	return &refresh{m: m, dispatch: dispatch, seen: seen}
}

// start runs the refresh with a grant, in a goroutine of the gate's pool. It returns false if there is no room.
func (r *refresh) start(gr *grant) bool {
	g := r.m.gate
	select {
	case g.refreshes <- struct{}{}:
	default:
		g.count("refresh-dropped")
		return false
	}
	r.grant = gr
	gr.cause = causeStale
	started := g.goOwned(func() {
		defer func() { <-g.refreshes }()
		r.run()
	})
	if !started {
		<-g.refreshes
	}
	return started
}

func (r *refresh) run() {
	defer func() {
		if p := recover(); p != nil {
			r.m.gate.count("refresh-panic")
			r.m.gate.log.Error("herdgate: a handler panicked in a background refresh", "route", r.m.cfg.Name, "panic", p)
		}
		if r.arrived.CompareAndSwap(false, true) {
			r.m.gate.count("refresh-lost")
			r.m.foregroundUntil.Store(time.Now().Add(foregroundFor).UnixNano())
			r.grant.report(completion{result: resultGaveUp})
		}
	}()
	// None of the first request's own values: routers keep pooled state there, and middleware outside will set its own again.
	r.dispatch(context.WithValue(r.m.gate.ctx, refreshKey{}, r))
}

// arrival returns the refresh whose copy this request is, once, if it has come to the middleware and the
// key that it was sent for.
func (m *middleware) arrival(ctx context.Context, base string) *refresh {
	r, ok := ctx.Value(refreshKey{}).(*refresh)
	if ok && r.m == m && r.grant.base == base && r.arrived.CompareAndSwap(false, true) {
		return r
	}
	return nil
}
