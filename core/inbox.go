package core

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// everywhere stands for all locations, in announcements.
const everywhere = ""

// inbox is how this process hears what others do. On one channel, its own, it hears that a lock ended for which
// it waits. There is no subscription per key: acquire enters the inbox with the
// key, atomically with the answer "held", and finish publishes to those entered.
// What gets lost (a reconnect, an ACL user without channel rights) the poll makes up for.
//
// Invalidations are on a channel of the whole namespace, for those that keep copies in a tier.
type inbox struct {
	client  redisClient
	name    string
	deliver func(loc string, why result)

	invalidations string // the channel on which all invalidations are published
	tier          *tier  // if there is one, it hears of them

	once   sync.Once
	mu     sync.Mutex
	cancel context.CancelFunc
	closed bool
	done   chan struct{}
}

func newInbox(client redisClient, name, invalidations string) *inbox {
	return &inbox{client: client, name: name, invalidations: invalidations, done: make(chan struct{})}
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
	channels := []string{b.name}
	if b.tier != nil {
		channels = append(channels, b.invalidations)
	}
	sub := b.client.Subscribe(ctx, channels...)
	defer func() { _ = sub.Close() }()
	messages := sub.ChannelWithSubscriptions() // pings an idle connection and subscribes again after a lost one
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
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
