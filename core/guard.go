package core

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// callSlots is how many calls to a node may be under way, hung ones included. Who comes above it waits on its own
	// goroutine until its context ends.
	callSlots = 128
	// probeSlots is how many probes may hang.
	probeSlots = 8
	// callFor is how long an abandoned call, or a probe, goes on off the request: long enough to make a connection on a slow
	// network, where no request could wait for one.
	callFor = time.Second
)

// errNotAsked is the error of a call that was not made: nothing has reached Redis.
var errNotAsked = errors.New("herdgate: Redis was not asked, because it did not answer lately")

// errPanicked is the error of a call whose client, or a hook of the user's in it, panicked.
var errPanicked = errors.New("herdgate: the Redis client panicked")

// guarded is a client whose calls end with their context, whatever the client below them does: a dialer that
// knows no context, a lock inside the client, a hook of the user's. A call that goes on after that goes on off the request, in
// one of a bounded number of goroutines. Each node has its breakers.
type guarded struct {
	redisClient
	subscriber interface {
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}
	nodeOf func(ctx context.Context, key string) *node // does no I/O
	learn  func(ctx context.Context)                   // comes before each call, and may take its time; nil: nothing to learn
	again  bool                                        // a call whose connection broke is made once more
}

func (c *guarded) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return c.subscriber.Subscribe(ctx, channels...)
}

func (c *guarded) Time(ctx context.Context) *redis.TimeCmd {
	return guard(ctx, c, &c.nodeOf(ctx, "").reads, "", c.redisClient.Time,
		func(err error) *redis.TimeCmd { return redis.NewTimeCmdResult(time.Time{}, err) },
		func(*redis.TimeCmd) func(context.Context) error {
			return func(ctx context.Context) error { return c.redisClient.Time(ctx).Err() }
		})
}

func (c *guarded) Set(ctx context.Context, key string, value any, ttl time.Duration) *redis.StatusCmd {
	return guard(ctx, c, &c.nodeOf(ctx, key).stores, key,
		func(ctx context.Context) *redis.StatusCmd { return c.redisClient.Set(ctx, key, value, ttl) },
		func(err error) *redis.StatusCmd { return redis.NewStatusResult("", err) }, nil)
}

func (c *guarded) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return guard(ctx, c, &c.nodeOf(ctx, keys[0]).locks, keys[0],
		func(ctx context.Context) *redis.Cmd { return c.redisClient.Eval(ctx, script, keys, args...) },
		func(err error) *redis.Cmd { return redis.NewCmdResult(nil, err) }, nil)
}

func (c *guarded) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return guard(ctx, c, &c.nodeOf(ctx, keys[0]).locks, keys[0],
		func(ctx context.Context) *redis.Cmd { return c.redisClient.EvalSha(ctx, sha, keys, args...) },
		func(err error) *redis.Cmd { return redis.NewCmdResult(nil, err) }, nil)
}

// reply is what a call returns.
type reply interface{ Err() error }

// guard makes a call about a key and returns its result, or failed(err) if there is none by the time that ctx ends. It stays on the
// caller's goroutine where the client is known to end with its context. While the breaker is open it returns at once: no
// request waits for a probe. An abandoned call owns its arguments until it ends. Of a call that failed, lost says what a probe is to
// repeat; nil where a probe does something else.
func guard[C reply](ctx context.Context, c *guarded, b *breaker, key string,
	call func(context.Context) C, failed func(error) C, lost func(C) (again func(context.Context) error),
) C {
	done, err := b.circuit.Allow()
	switch {
	case err != nil:
		return failed(errNotAsked)
	case b.halfOpen.Load():
		c.probe(b, key, done)
		return failed(errNotAsked)
	}
	began := time.Now()
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		cmd := failed(errNotAsked)
		ended(b, done, cmd, lost, told(ctx, began, ctx.Err()))
		return cmd
	}
	if b.prompt {
		cmd := attempt(ctx, c, b, call, failed)
		ended(b, done, cmd, lost, told(ctx, began, cmd.Err()))
		return cmd
	}
	result := make(chan C, 1)
	go func() {
		ctx, cancel := outlast(ctx)
		defer cancel()
		result <- attempt(ctx, c, b, call, failed)
	}()
	select {
	case cmd := <-result:
		ended(b, done, cmd, lost, told(ctx, began, cmd.Err()))
		return cmd
	case <-ctx.Done():
		cmd := failed(ctx.Err())
		ended(b, done, cmd, lost, told(ctx, began, ctx.Err()))
		return cmd
	}
}

// ended takes the end of a call.
func ended[C reply](b *breaker, done func(error), cmd C, lost func(C) func(context.Context) error, err error) {
	if lost != nil && !succeeded(err) && !excluded(err) {
		again := lost(cmd)
		b.failed.Store(&again)
	}
	b.done(done, err)
}

// probe asks a node in the place of a request, and off it. An answer that a request could not have waited for is none.
func (c *guarded) probe(b *breaker, key string, done func(error)) {
	select {
	case b.probes <- struct{}{}:
	default: // all hang
		b.done(done, context.DeadlineExceeded)
		return
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-b.probes }()
		ctx, cancel := context.WithTimeout(context.Background(), callFor)
		defer cancel()
		err := errPanicked
		defer func() {
			b.t.panicked(recover())
			result <- err
		}()
		if c.learn != nil {
			c.learn(ctx)
		}
		began := time.Now()
		if b.ask == nil {
			err = (*b.failed.Load())(ctx)
		} else {
			err = b.ask(ctx, c.redisClient, key)
		}
		if (err == nil || isReply(err)) && time.Since(began) > readBudget {
			err = context.DeadlineExceeded
		}
	}()
	go func() {
		timer := time.NewTimer(callFor)
		defer timer.Stop()
		select {
		case err := <-result:
			b.done(done, err)
		case <-timer.C:
			b.done(done, context.DeadlineExceeded)
		}
	}()
}

// close waits until no call is under way any more, or ctx is done: it takes all the slots, and gives them back.
func (c *guarded) close(ctx context.Context, nodes []*node) error {
	var taken []chan struct{}
	defer func() {
		for _, slots := range taken {
			<-slots
		}
	}()
	for _, n := range nodes {
		for _, slots := range []chan struct{}{n.reads.slots, n.reads.probes, n.locks.slots, n.locks.probes, n.stores.slots, n.stores.probes} {
			for range cap(slots) {
				select {
				case slots <- struct{}{}:
					taken = append(taken, slots)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

// attempt makes a call, and once more if its connection broke, and gives its slot back. If a hook of the user's panics there is no
// answer, as with any other fault below us.
func attempt[C reply](ctx context.Context, c *guarded, b *breaker, call func(context.Context) C, failed func(error) C) (cmd C) {
	defer func() {
		<-b.slots
		if p := recover(); p != nil {
			b.t.panicked(p)
			cmd = failed(errPanicked)
		}
	}()
	if !b.prompt && c.learn != nil {
		c.learn(ctx)
	}
	cmd = call(ctx)
	if c.again && broken(cmd.Err()) && ctx.Err() == nil {
		cmd = call(ctx)
	}
	return cmd
}

// outlast is a context for a call that goes on when its caller has left.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(callFor)
	if d, ok := ctx.Deadline(); ok && d.After(until) {
		until = d
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// errTooBrief is the end of a call that had too little time to tell anything about Redis.
var errTooBrief = errors.New("herdgate: too little time was left for Redis")

// told is what the breaker is told of a call that ended with err: neither a caller's own deadline nor its leaving is Redis's
// fault. An answer that came when the time for it was over is none, whoever kept it: a hook of the user's may have.
func told(ctx context.Context, began time.Time, err error) error {
	ends, limited := ctx.Deadline()
	switch answered := err == nil || isReply(err); {
	case answered && limited && time.Now().After(ends) && time.Since(began) >= slowCall:
		return context.DeadlineExceeded
	case answered:
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case timedOut(err) && time.Since(began) < slowCall:
		return errTooBrief
	}
	return err
}

// broken reports whether the connection failed, rather than being slow: the call may be made again. All calls are
// idempotent by token.
func broken(err error) bool {
	if err == nil || isReply(err) || errors.Is(err, context.Canceled) {
		return false
	}
	return !timedOut(err)
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
