package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisClient is what herdgate needs of go-redis. redis.UniversalClient grows in
// minor releases, so we name only what we call.
type redisClient interface {
	redis.Scripter
	pull(ctx context.Context, wants []*want) pulled
	Set(ctx context.Context, key string, value any, ttl time.Duration) *redis.StatusCmd
	Time(ctx context.Context) *redis.TimeCmd
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// direct is a client of go-redis.
type direct struct{ redis.UniversalClient }

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
//
// Neither repeats a command after an error reply (READONLY, LOADING: go-redis would, for 100 ms and more): there is
// nothing to wait for. After a lost connection a call is made once more, unless the user's options say never.
//
// Each of instruments is called with the client that makes the calls.
func bounded(c redis.UniversalClient, t *troubles, instruments ...func(redis.UniversalClient) error) (client *guarded, nodes func() []*node, end func() error, err error) {
	none := func() error { return nil }
	instrument := func(own redis.UniversalClient) error {
		for _, f := range instruments {
			if err := f(own); err != nil {
				return fmt.Errorf("herdgate: Instrument: %w", err)
			}
		}
		return nil
	}
	switch c := c.(type) {
	case nil:
		return nil, nil, none, errors.New("herdgate: core.Redis needs a client, got nil")
	case *redis.Client:
		if c == nil {
			return nil, nil, none, errors.New("herdgate: core.Redis needs a client, got a nil *redis.Client")
		}
		again := c.Options().MaxRetries > 0
		shared := c.WithTimeout(ioTimeout)
		own := shared.Options() // the copy that WithTimeout made, before its first use
		own.ContextTimeoutEnabled, own.MaxRetries = true, 0
		if err := instrument(shared); err != nil {
			return nil, nil, none, err
		}
		name := own.Addr
		if name == failoverAddr {
			name = "primary"
		}
		only := newNode(name, prompt(own), t)
		// Not shared.Subscribe: in go-redis 9.16 and 9.17 that panics, on a goroutine of ours (redis/go-redis#3662).
		return &guarded{redisClient: direct{shared}, subscriber: c, again: again, nodeOf: func(context.Context, string) *node { return only }},
			func() []*node { return []*node{only} }, none, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, nil, none, errors.New("herdgate: core.Redis needs a client, got a nil *redis.ClusterClient")
		}
		opts := *c.Options()
		again := opts.MaxRedirects > 0
		opts.ContextTimeoutEnabled = true
		opts.ReadTimeout, opts.WriteTimeout = ioTimeout, ioTimeout
		opts.ReadOnly, opts.RouteByLatency, opts.RouteRandomly = false, false, false
		opts.MaxRetries, opts.MaxRedirects = -1, clusterRedirects
		opts.MinRetryBackoff, opts.MaxRetryBackoff = -1, -1
		private := redis.NewClusterClient(&opts)
		if err := instrument(private); err != nil {
			return nil, nil, none, errors.Join(err, private.Close())
		}
		known := newClusterNodes(private, prompt(&redis.Options{
			Dialer: opts.Dialer, TLSConfig: opts.TLSConfig, OnConnect: opts.OnConnect,
			CredentialsProvider: opts.CredentialsProvider, CredentialsProviderContext: opts.CredentialsProviderContext,
		}), t)
		return &guarded{redisClient: direct{private}, subscriber: private, again: again, nodeOf: known.of, learn: known.learn}, known.all, private.Close, nil
	default:
		return nil, nil, none, fmt.Errorf("%w (%T): use *redis.Client (NewClient, NewFailoverClient) or *redis.ClusterClient", errUnboundable, c)
	}
}

// prompt reports whether calls of a client end with their context by themselves. A connection made over TLS, or by
// way of Sentinel, or with the help of functions of the user's, may take longer.
func prompt(o *redis.Options) bool {
	return plainDialer(o) && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil && o.CredentialsProviderContext == nil
}

// plainDialer reports whether a client dials with go-redis' own dialer, which ends with its context. A function does not tell
// what it is but by its name; another name only costs speed.
func plainDialer(o *redis.Options) bool {
	if o.Dialer == nil {
		return true
	}
	name := runtime.FuncForPC(reflect.ValueOf(o.Dialer).Pointer()).Name()
	return strings.HasPrefix(name, "github.com/redis/go-redis/v9.") && strings.Contains(name, "NewDialer.func")
}

// failoverAddr is what go-redis has for the address of a failover client.
const failoverAddr = "FailoverClient"

// clusterRedirects is how often a command follows MOVED and ASK.
const clusterRedirects = 3
