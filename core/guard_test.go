package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// Calls end with their context at random moments, on two connections for everybody. A reply that came too late for its call must
// never be taken for that of the next one: each of 20,000 is the value of the key that was asked for.
func TestCancelledCallsNeverShiftReplies(t *testing.T) {
	const replies, callers, keys = 10_000, 40, 50
	for name, dial := range map[string]func(*redis.Options){
		"on the caller's goroutine":   func(*redis.Options) {},
		"on a goroutine of their own": func(o *redis.Options) { o.Dialer = redistest.DialThrough() },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Shared(t)
			ns := unique("shift")
			raw := server.Client()
			value := func(key string) string { return strings.Repeat(key+" ", 200) }
			var all []string
			for i := range keys {
				key := fmt.Sprintf("%s:{%d}", ns, i)
				if err := raw.Set(t.Context(), key, value(key), time.Minute).Err(); err != nil {
					t.Fatal(err)
				}
				all = append(all, key)
			}
			client, _, _, err := bounded(server.Client(dial, func(o *redis.Options) { o.PoolSize = 2 }), newTroubles())
			if err != nil {
				t.Fatal(err)
			}
			var came, cut atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for came.Load() < replies && !t.Failed() {
						key := all[rand.IntN(keys)]
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						if rand.IntN(3) == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
						}
						var got string
						var err error
						if rand.IntN(2) == 0 {
							w := want{key: key, end: -1}
							batchOf(ctx, client, &w)
							got, err = w.got.value.Result()
						} else {
							w, other := want{key: key, end: -1, beside: key}, want{key: all[0], end: -1}
							batchOf(ctx, client, &other, &w)
							if other.got.err() == nil && other.got.value.Val() != value(all[0]) {
								t.Errorf("%s is %.40q", all[0], other.got.value.Val())
							}
							if got, err = w.got.value.Result(); err == nil && w.got.beside.Err() == nil && w.got.beside.Val() != got {
								t.Errorf("beside %.40q came %.40q", got, w.got.beside.Val())
							}
						}
						cancel()
						switch {
						case err != nil:
							cut.Add(1)
						case got != value(key):
							t.Errorf("%s is %.40q", key, got)
						default:
							came.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if cut.Load() < replies/100 {
				t.Errorf("only %d calls were cut short", cut.Load())
			}
			if err := client.close(t.Context(), []*node{client.nodeOf(t.Context(), "")}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two reads in one round trip have no error of their own if there was no connection to be had: that is not "nothing is stored".
func TestNoConnectionIsAnError(t *testing.T) {
	server := redistest.Start(t)
	client, _, _, err := bounded(server.Client(), newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for range breakAfter {
		w := want{key: "{key}", end: -1, beside: "{key}:beside"}
		client.fetch(t.Context(), &w)
		if err := w.got.err(); err == nil || isReply(err) {
			t.Errorf("%q, %v", w.got.value.Val(), err)
		}
	}
	if got := client.nodeOf(t.Context(), "").reads.circuit.State().String(); got != "open" {
		t.Errorf("reads are %s", got)
	}
}
