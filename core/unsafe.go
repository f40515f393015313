package core

import (
	"context"
	"errors"
	"time"
)

// retryInvalidations is how long an invalidation that nobody asked for by name is tried again, when Redis does not
// confirm it.
const retryInvalidations = 30 * time.Second

// drop removes what is stored at some bases. It is bounded like everything that a request does on Redis; what was not
// confirmed by then goes on in the background.
func (g *Gate) drop(bases ...string) {
	ctx, cancel := context.WithTimeout(g.ctx, readBudget)
	defer cancel()
	if g.dropAll(ctx, bases) == nil {
		return
	}
	g.count(causeUnconfirmed)
	g.goOwned(func() {
		g.untilDone(retryInvalidations, func(ctx context.Context) bool {
			return g.closed.Load() || g.dropAll(ctx, bases) == nil
		})
	})
}

func (g *Gate) dropAll(ctx context.Context, bases []string) error {
	var errs []error
	for _, base := range bases {
		if err := g.backend.invalidate(ctx, base); err != nil {
			errs = append(errs, err)
			continue
		}
		g.abandon(base)
	}
	return errors.Join(errs...)
}
