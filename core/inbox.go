package core

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// everywhere stands for all locations, in announcements.
const everywhere = ""

const (
	// pingAfter is how long an inbox may have heard nothing before it asks whether it is still connected.
	pingAfter = 3 * time.Second
	// pongWithin is how long the answer may take.
	pongWithin = 500 * time.Millisecond
	// subscribeAgain is the pause after a subscription that came to nothing.
	subscribeAgain = 100 * time.Millisecond
)

// inbox is how this process hears what others do. On one channel, its own, it hears that a lock ended for which
// it waits. There is no subscription per key: acquire enters the inbox with the
// key, atomically with the answer "held", and finish publishes only to those entered.
// What gets lost (a reconnect, an ACL user without channel rights) the poll makes up for.
//
// A connection that is silent for good looks like one on which nothing happens, so the inbox asks: after a while without
// any message, and at once when an announcement has been missed. If there is no answer it subscribes anew, by another name: in a cluster
// that may be at another node.
//
// Invalidations are on a channel of the whole namespace, for those that keep copies in a tier.
type inbox struct {
	client  redisClient
	prefix  string                 // of its names
	name    atomic.Pointer[string] // the channel that it listens on
	deliver func(loc string, why result)
	missed  chan struct{} // an announcement did not come; buffered

	invalidations string // the channel on which all invalidations are published
	tier          *tier  // if there is one, it hears of them

	trouble *troubles

	once   sync.Once
	mu     sync.Mutex
	cancel context.CancelFunc
	closed bool
	done   chan struct{}
}

func newInbox(client redisClient, prefix, invalidations string, t *troubles) *inbox {
	b := &inbox{client: client, prefix: prefix, missed: make(chan struct{}, 1), invalidations: invalidations, trouble: t, done: make(chan struct{})}
	b.rename()
	return b
}

func (b *inbox) rename() {
	id := newToken()
	name := b.prefix + hex.EncodeToString(id[:])
	b.name.Store(&name)
}

// doubt makes it ask whether it is still connected.
func (b *inbox) doubt() {
	select {
	case b.missed <- struct{}{}:
	default:
	}
}

// start subscribes in the background, the first time that it is called.
func (b *inbox) start() {
	b.once.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.closed {
			close(b.done)
			return
		}
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(context.Background())
		go b.listen(ctx)
	})
}

// close ends the subscription and waits until its goroutine is gone, or ctx is done.
func (b *inbox) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	cancel := b.cancel
	b.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *inbox) listen(ctx context.Context) {
	defer close(b.done)
	for ctx.Err() == nil {
		if !b.session(ctx) {
			_ = sleep(ctx, subscribeAgain)
		}
		b.rename()
	}
}

// session is one subscription, until its connection is silent, or lost and not to be had again, or a hook of the user's panics. It
// reports whether anything was heard at all.
func (b *inbox) session(ctx context.Context) (heard bool) {
	defer func() { b.trouble.panicked(recover()) }()
	channels := []string{*b.name.Load()}
	if b.tier != nil {
		channels = append(channels, b.invalidations)
	}
	sub := b.client.Subscribe(ctx, channels...)
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan any)
	var receiver sync.WaitGroup
	var locked atomic.Bool // sub is, for good: go-redis held its lock when the hook panicked, and Close would wait for it
	receiver.Go(func() {
		defer close(messages)
		defer func() {
			if p := recover(); p != nil {
				b.trouble.panicked(p)
				locked.Store(true)
			}
		}()
		lost := false
		for {
			m, err := sub.Receive(ctx)
			switch {
			case err == nil:
				lost = false
			case isReply(err): // no right to subscribe, and the like, is an answer too
				if !sleep(ctx, subscribeAgain) {
					return
				}
			case lost: // twice in a row: sub was closed, or there is nobody to connect to
				return
			default: // go-redis has subscribed anew, or tried to
				lost = true
				continue
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	})
	defer receiver.Wait()
	defer func() {
		cancel()
		if !locked.Load() {
			_ = sub.Close()
		}
	}()

	asked := true // for the subscription
	timer := time.NewTimer(pingAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return heard
		case m, ok := <-messages:
			if !ok {
				return heard
			}
			b.hear(m)
			heard, asked = true, false
			timer.Reset(pingAfter)
			continue
		case <-b.missed:
			if asked {
				continue
			}
		case <-timer.C:
			if asked {
				return heard
			}
		}
		asked = true
		timer.Reset(pongWithin)
		if err := sub.Ping(ctx); err != nil {
			return heard
		}
	}
}

// hear takes what came in.
func (b *inbox) hear(m any) {
	switch m := m.(type) {
	case *redis.Subscription: // what was announced before is lost
		b.deliver(everywhere, resultGaveUp)
		if b.tier != nil {
			b.tier.flush()
		}
	case *redis.Message:
		if m.Channel == b.invalidations {
			b.tier.drop(m.Payload)
		} else if why, loc, ok := strings.Cut(m.Payload, " "); ok {
			b.deliver(loc, result(why))
		}
	}
}

// sleep pauses for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
