package conformance

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// Lose deletes all locks, as an eviction or a failover may.
type Lose struct{}

func (Lose) take(w *world) {
	locks := redistest.Locks(w.t, w.redis, w.namespace)
	if len(locks) == 0 {
		w.t.Fatal("there is no lock to lose")
	}
	w.excused = append(w.excused, "lock-lost")
	for _, key := range locks {
		if err := w.redis.Del(context.Background(), key).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Entered waits until a process has asked Redis to be told of the end of a computation elsewhere.
type Entered struct{}

func (Entered) take(w *world) {
	w.until("an inbox that waits", patience, func() bool {
		return slices.ContainsFunc(redistest.Keys(w.t, w.redis, w.namespace), func(key string) bool { return strings.HasSuffix(key, ":wait") })
	})
}

// Quiet sees that no lock is there, and none comes, for the time given.
type Quiet struct{ For time.Duration }

func (s Quiet) take(w *world) {
	for end := time.Now().Add(s.For); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if locks := redistest.Locks(w.t, w.redis, w.namespace); len(locks) > 0 {
			w.t.Fatalf("a lock without work: %q", locks)
		}
	}
}

// Corrupt replaces every entry in Redis by something else, with the lifetime that it has: "garbage", "version" (of another
// version of the format), "cut" (half of it), "flipped" (a bit of the body), "swapped" (with each other), "type"
// (not even a string), "empty".
type Corrupt string

func (s Corrupt) take(w *world) {
	ctx := context.Background()
	var entries []string
	values := map[string][]byte{}
	for _, key := range redistest.Keys(w.t, w.redis, w.namespace) {
		raw, err := w.redis.Get(ctx, key).Bytes()
		if err == nil && bytes.HasPrefix(raw, []byte("hge")) {
			entries = append(entries, key)
			values[key] = raw
		}
	}
	if len(entries) == 0 {
		w.t.Fatal("there is no entry to corrupt")
	}
	for i, key := range entries {
		raw := bytes.Clone(values[key])
		switch s {
		case "garbage":
			raw = []byte(strings.Repeat("\x00garbage\xff", 100))
		case "version":
			raw[3]++
		case "cut":
			raw = raw[:len(raw)/2]
		case "flipped":
			raw[len(raw)-1] ^= 1
		case "swapped":
			raw = values[entries[(i+1)%len(entries)]]
		case "empty":
			raw = nil
		case "type":
			if err := w.redis.Del(ctx, key).Err(); err != nil {
				w.t.Fatal(err)
			}
			_, err := w.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, key, "a")
				p.Expire(ctx, key, time.Minute)
				return nil
			})
			if err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		if err := w.redis.SetArgs(ctx, key, raw, redis.SetArgs{KeepTTL: true}).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Flush makes Redis forget all scripts.
type Flush struct{}

func (Flush) take(w *world) {
	if err := w.redis.ScriptFlush(context.Background()).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// TTLs sees that every key in Redis has a lifetime at this moment.
type TTLs struct{}

func (TTLs) take(w *world) {
	if len(redistest.Keys(w.t, w.redis, w.namespace)) == 0 {
		w.t.Fatal("there are no keys to look at")
	}
	redistest.CheckTTLs(w.t, w.redis, w.namespace)
}

// Stores sees how many entries were written to Redis so far, by all processes.
type Stores int

func (s Stores) take(w *world) {
	if got := int(w.stores.Load()); got != int(s) {
		w.t.Fatalf("%d entries were written, want %d", got, int(s))
	}
}

// Network changes what the network between the processes and Redis does: "pass", "refuse", "silent", "slow", "lose
// renewal" (the reply to the next renewal of a lock is lost), "lose acquire", "lose finish".
type Network string

func (s Network) take(w *world) {
	keys := func(n string) func(args []string) bool { // scripts are told apart by the number of their keys
		return func(args []string) bool {
			return len(args) > 2 && (strings.EqualFold(args[0], "evalsha") || strings.EqualFold(args[0], "eval")) && args[2] == n
		}
	}
	switch s {
	case "refuse", "silent", "lose acquire", "lose finish":
		w.excused = append(w.excused, "no-redis", "not-stored")
	}
	switch s {
	case "pass":
		w.network.Pass()
	case "refuse":
		w.network.Refuse()
	case "silent":
		w.network.BlackHole()
	case "slow":
		w.network.Delay(2*time.Millisecond, 2*time.Millisecond)
	case "lose renewal":
		w.network.DropReplies(1, keys("2"))
	case "lose acquire":
		w.network.DropReplies(1, keys("8"))
	case "lose finish":
		w.network.DropReplies(1, keys("10"))
	default:
		w.t.Fatalf("no such network: %q", string(s))
	}
}
