package core

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// slowCall is how long a call must have had before its timeout counts against Redis.
	slowCall = 50 * time.Millisecond
	// breakAfter is how many failures in a row open a breaker.
	breakAfter = 5
	// probeEvery is the pause between probes of an open breaker.
	probeEvery = 500 * time.Millisecond
)

// A node is a Redis server, with a breaker for each kind of call: a server that takes no locks still serves hits, and one that
// takes no bodies still has its locks given back.
type node struct {
	name                 string
	reads, locks, stores breaker
	batches              batches
	asked                atomic.Bool // in a cluster: somebody asked for it lately
}

func newNode(name string, prompt bool, t *troubles) *node {
	n := &node{name: name}
	n.reads.init(name, "reads", prompt, nil, t)
	n.locks.init(name, "locks", prompt, askLock, t)
	n.stores.init(name, "stores", prompt, askStore, t)
	return n
}

// A breaker keeps calls from a Redis that does not answer. It counts connections that fail and calls that time out, in a row;
// never a server's error reply (the server is there, and it answers fast), never a caller that left. A server that lets
// nobody in (NOAUTH, WRONGPASS) counts as one that refuses connections: each call would make one in vain. Open, the breaker
// refuses at once. While there are requests, a probe goes out every half second; its success closes the breaker. A probe of reads
// makes the read that failed last once more: where the network is too slow for the values, another one would tell nothing.
type breaker struct {
	circuit  *gobreaker.TwoStepCircuitBreaker[struct{}]
	ask      func(ctx context.Context, c redisClient, key string) error // what a probe does; nil: what failed last
	failed   atomic.Pointer[func(context.Context) error]                // which is this; set before the breaker opens
	prompt   bool                                                       // calls end with their context by themselves
	halfOpen atomic.Bool
	slots    chan struct{}
	probes   chan struct{}
	t        *troubles
}

func (b *breaker) init(name, kind string, prompt bool, ask func(context.Context, redisClient, string) error, t *troubles) {
	b.ask, b.prompt, b.t = ask, prompt, t
	b.slots, b.probes = make(chan struct{}, callSlots), make(chan struct{}, probeSlots)
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         kind,
		MaxRequests:  1,
		Timeout:      probeEvery,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		IsSuccessful: succeeded,
		IsExcluded:   excluded,
		OnStateChange: func(kind string, from, to gobreaker.State) {
			b.halfOpen.Store(to == gobreaker.StateHalfOpen)
			b.t.breaker(name, kind, from, to)
		},
	})
}

// probed is the suffix of a key that nobody else uses, beside the key of the request that a probe stands in for.
const probed = ":probe"

// askStore stores nothing, for a moment.
func askStore(ctx context.Context, c redisClient, key string) error {
	return c.Set(ctx, key+probed, "", time.Millisecond).Err()
}

// askLock gives back a lock that nobody has.
func askLock(ctx context.Context, c redisClient, key string) error {
	token := newToken()
	return releaseScript.Run(ctx, c, []string{key + probed, key + probed}, token[:]).Err()
}

func succeeded(err error) bool { return err == nil || isReply(err) && !shutOut(err) }

func excluded(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, errTooBrief) }

// done takes the end of a call.
func (b *breaker) done(report func(error), err error) {
	report(err)
	b.t.call(err)
}

// shutOut reports whether a reply says that there will be no connection.
func shutOut(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGPASS") || redis.HasErrorPrefix(err, "NOAUTH")
}

// Breaker is the state of a circuit breaker in front of Redis.
type Breaker struct {
	Node  string // address of the server; "primary" behind Sentinel; "cluster" until the nodes are known. Unused for ten minutes, one goes
	Calls string // "reads", "locks" (all scripts), or "stores" (of bodies)
	State string // "closed" (calls pass), "open" (none does), or "half-open" (a probe is due, or under way)
}

func (n *node) breakers() []Breaker {
	return []Breaker{
		{Node: n.name, Calls: "reads", State: n.reads.circuit.State().String()},
		{Node: n.name, Calls: "locks", State: n.locks.circuit.State().String()},
		{Node: n.name, Calls: "stores", State: n.stores.circuit.State().String()},
	}
}
