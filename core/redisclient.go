package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisClient is what herdgate needs of go-redis. redis.UniversalClient grows in
// minor releases, so we name only what we call.
type redisClient interface {
	redis.Scripter
	Get(ctx context.Context, key string) *redis.StringCmd
	MGet(ctx context.Context, keys ...string) *redis.SliceCmd
	Set(ctx context.Context, key string, value any, ttl time.Duration) *redis.StatusCmd
	Time(ctx context.Context) *redis.TimeCmd
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// ioTimeout bounds each read from and write to a Redis connection, below the context
// deadlines that bound a whole call.
const ioTimeout = lookBudget

var errUnboundable = errors.New("herdgate: cannot bound the time that this Redis client waits")

// bounded returns a client whose calls end with their context. The default of go-redis
// is deaf to context deadlines: a GET with 100 ms to live waits 5 s for a silent server.
//
// For a *redis.Client (NewClient, NewFailoverClient) it shares the pool of the user's client. A
// *redis.ClusterClient cannot be changed from outside, so a private one is made from its
// options; close ends it. It reads from primaries only: after a wake-up a replica
// may not have the entry yet.
func bounded(c redis.UniversalClient) (client redisClient, end func() error, err error) {
	none := func() error { return nil }
	switch c := c.(type) {
	case nil:
		return nil, none, errors.New("herdgate: core.Redis needs a client, got nil")
	case *redis.Client:
		if c == nil {
			return nil, none, errors.New("herdgate: core.Redis needs a client, got a nil *redis.Client")
		}
		return c.WithTimeout(ioTimeout), none, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, none, errors.New("herdgate: core.Redis needs a client, got a nil *redis.ClusterClient")
		}
		opts := *c.Options()
		opts.ContextTimeoutEnabled = true
		opts.ReadTimeout, opts.WriteTimeout = ioTimeout, ioTimeout
		opts.ReadOnly, opts.RouteByLatency, opts.RouteRandomly = false, false, false
		private := redis.NewClusterClient(&opts)
		return private, private.Close, nil
	default:
		return nil, none, fmt.Errorf("%w (%T): use *redis.Client (NewClient, NewFailoverClient) or *redis.ClusterClient", errUnboundable, c)
	}
}
