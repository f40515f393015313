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

// inbox is the one channel on which this process hears that a lock ended for which
// it waits. There is no subscription per key: acquire enters the inbox with the
// key, atomically with the answer "held", and finish publishes to those entered.
// What gets lost (a reconnect, an ACL user without channel rights) the poll makes up for.
type inbox struct {
	client  redisClient
	name    string
	deliver func(loc string, why result)

	once   sync.Once
	mu     sync.Mutex
	cancel context.CancelFunc
	closed bool
	done   chan struct{}
}

func newInbox(client redisClient, name string) *inbox {
	return &inbox{client: client, name: name, done: make(chan struct{})}
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
	sub := b.client.Subscribe(ctx, b.name)
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
			case *redis.Message:
				if why, loc, ok := strings.Cut(m.Payload, " "); ok {
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
