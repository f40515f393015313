package core

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

var delScript = redis.NewScript("return redis.call('DEL', KEYS[1])")

// grantAll is a backend whose lock excludes nobody: whoever asks gets it, and with it the claim. The lock is an
// efficiency device; what is safe with it must be safe without it.
type grantAll struct {
	backend
	drop func(ctx context.Context, p place) error // the lock there
}

func (b grantAll) acquire(ctx context.Context, q query) (answer, error) {
	a, err := b.backend.acquire(ctx, q)
	if err != nil || a.state != stateHeld {
		return a, err
	}
	if err := b.drop(ctx, q.place); err != nil {
		return answer{}, err
	}
	return b.backend.acquire(ctx, q)
}

// everybody makes a backend's lock one that grants everyone.
func everybody(t *testing.T, b backend) backend {
	t.Helper()
	switch b := b.(type) {
	case *memory:
		return grantAll{b, func(_ context.Context, p place) error { b.dropLock(p.base, p.loc()); return nil }}
	case *redisBackend:
		return grantAll{b, func(ctx context.Context, p place) error {
			return delScript.Run(ctx, b.client, []string{p.loc() + ":lock"}).Err()
		}}
	}
	t.Fatalf("no grant-everyone lock for a %T", b)
	return nil
}

// dropLock makes one lock run out.
func (m *memory) dropLock(base, loc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(base, loc).lock = memoryToken{}
}
