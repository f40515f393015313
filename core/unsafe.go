package core

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/rfc9111"
)

// retryInvalidations is how long an invalidation that nobody asked for by name is tried again, when Redis does not
// confirm it.
const retryInvalidations = 30 * time.Second

// write runs the handler of a request that may change what is stored (POST, PUT, DELETE, …). If it succeeds, the target and the
// URIs that the response names on the same host are invalidated in every representation, before the client hears of the
// success: its next request gets what it has written (RFC 9111 4.4).
func (m *middleware) write(x host.Exchange, o *Outcome) {
	o.Role, o.Detail = RoleBypass, "method"
	key := Key{Host: x.Host(), Target: x.Target()}
	if m.cfg.KeyBy != nil {
		key.By = m.cfg.KeyBy(x.Native())
	}
	x.Run(host.Call{
		Passing: func(string) string { return o.cacheStatus() },
		Head: func(status int, header http.Header) {
			if !rfc9111.Succeeded(status) {
				return
			}
			m.gate.drop(m.gate.bases(key, append(related(key, header), key.Target), x.Values)...)
		},
	})
}

// related are the targets on the same host that the response to a request for a key names.
func related(key Key, header http.Header) (targets []string) {
	for _, u := range rfc9111.Related(key.Host, key.Target, header) {
		if canonicalHost(u.Host) == canonicalHost(key.Host) {
			targets = append(targets, u.RequestURI())
		}
	}
	return targets
}

// bases are where the responses for some targets are, on every route of the gate. Credentials that are part of a key are those
// of the request.
func (g *Gate) bases(key Key, targets []string, values func(string) []string) (bases []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.recipes {
		key.Header = make(map[string][]string, len(r.secret))
		for _, name := range r.secret {
			key.Header[name] = values(name)
		}
		for _, key.Target = range targets {
			bases = append(bases, g.base(r.key(nil, key)))
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases)
}

// drop removes what is stored at some bases. It is bounded like everything that a request does on Redis; what was not
// confirmed by then goes on in the background.
func (g *Gate) drop(bases ...string) {
	ctx, cancel := context.WithTimeout(g.ctx, readBudget)
	defer cancel()
	if g.dropAll(ctx, bases) == nil {
		return
	}
	g.forget(bases...)
	g.count(causeUnconfirmed)
	g.goOwned(func() {
		g.untilDone(retryInvalidations, func(ctx context.Context) bool {
			return g.closed.Load() || g.dropAll(ctx, bases) == nil
		})
	})
}

// dropAll removes what is stored at some bases, and reports what was not confirmed. What is confirmed goes here as well.
func (g *Gate) dropAll(ctx context.Context, bases []string) error {
	var errs []error
	for _, base := range bases {
		if err := g.backend.invalidate(ctx, base); err != nil {
			errs = append(errs, err)
			continue
		}
		g.forget(base)
	}
	return errors.Join(errs...)
}

// forget ends what this process has of some keys: copies, and what is being computed.
func (g *Gate) forget(bases ...string) {
	for _, base := range bases {
		g.tier.drop(base)
		g.abandon(base)
	}
}
