package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// CheckTTLs fails the test if a key has no TTL, and names such keys. It looks at all keys
// of all primaries, or at those of the namespaces given.
func CheckTTLs(t TB, c redis.UniversalClient, namespace ...string) {
	t.Helper()
	var (
		mu      sync.Mutex
		forever []string
	)
	err := eachKey(c, namespace, func(ctx context.Context, node *redis.Client, keys []string) error {
		ttls := make([]*redis.DurationCmd, len(keys))
		_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				ttls[i] = p.PTTL(ctx, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, ttl := range ttls {
			if ttl.Val() == -1 { // go-redis hands the server's -1 on as it is; -2: gone meanwhile
				forever = append(forever, keys[i])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("redistest: CheckTTLs: %v", err)
	}
	if len(forever) > 0 {
		slices.Sort(forever)
		t.Fatalf("redistest: %d keys without a TTL: %q", len(forever), forever[:min(20, len(forever))])
	}
}

// Locks returns the keys that end in ":lock", sorted, of all primaries; only those of the
// namespaces given, if any.
func Locks(t TB, c redis.UniversalClient, namespace ...string) []string {
	t.Helper()
	return slices.DeleteFunc(Keys(t, c, namespace...), func(key string) bool {
		return !strings.HasSuffix(key, ":lock")
	})
}

// Keys returns all keys of all primaries, sorted; only those of the namespaces given, if
// any.
func Keys(t TB, c redis.UniversalClient, namespace ...string) []string {
	t.Helper()
	var (
		mu  sync.Mutex
		all []string
	)
	err := eachKey(c, namespace, func(_ context.Context, _ *redis.Client, keys []string) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return nil
	})
	if err != nil {
		t.Fatalf("redistest: keys: %v", err)
	}
	slices.Sort(all)
	return slices.Compact(all) // SCAN may name a key twice
}

// CommandCount returns how many commands the primaries executed since they started, calls
// inside scripts included, as INFO commandstats counts them. What a client sends to get
// connected is left out: HELLO, CLIENT, INFO and, to a cluster, CLUSTER and COMMAND. Take
// the difference of two calls.
func CommandCount(t TB, c redis.UniversalClient) int {
	t.Helper()
	sum := 0
	for name, calls := range CommandStats(t, c) {
		switch family, _, _ := strings.Cut(name, "|"); family {
		case "info", "hello", "client", "cluster", "command":
		default:
			sum += calls
		}
	}
	return sum
}

// CommandStats returns the number of calls of each command since the start, summed over
// the primaries, by the name that INFO commandstats uses ("get", "client|setinfo").
func CommandStats(t TB, c redis.UniversalClient) map[string]int {
	t.Helper()
	var mu sync.Mutex
	stats := map[string]int{}
	err := eachPrimary(c, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "commandstats").Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(info) {
			// cmdstat_get:calls=3,usec=7,...
			name, rest, ok := strings.Cut(line, ":calls=")
			if !ok {
				continue
			}
			digits, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.Atoi(digits)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			stats[strings.TrimPrefix(name, "cmdstat_")] += calls
		}
		return nil
	})
	if err != nil {
		t.Fatalf("redistest: command stats: %v", err)
	}
	return stats
}

// eachKey calls f with batches of the keys of each primary, from one goroutine per primary.
func eachKey(c redis.UniversalClient, namespaces []string, f func(context.Context, *redis.Client, []string) error) error {
	patterns := []string{"*"}
	if len(namespaces) > 0 {
		patterns = nil
		for _, ns := range namespaces {
			patterns = append(patterns, ns+":*")
		}
	}
	return eachPrimary(c, func(ctx context.Context, node *redis.Client) error {
		for _, pattern := range patterns {
			for cursor := uint64(0); ; {
				keys, next, err := node.Scan(ctx, cursor, pattern, 1000).Result()
				if err != nil {
					return err
				}
				if len(keys) > 0 {
					if err := f(ctx, node, keys); err != nil {
						return err
					}
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
		return nil
	})
}

func eachPrimary(c redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*doTimeout)
	defer cancel()
	var err error
	switch c := c.(type) {
	case *redis.Client:
		err = f(ctx, c)
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, f)
	default:
		err = fmt.Errorf("no primaries of a %T", c)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("a server is silent (stopped?): %w", err)
	}
	return err
}

// Eventually waits until ok returns true, for at most the time given, and fails the test
// with what otherwise.
func Eventually(t TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); <-time.After(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
			return
		}
	}
}
