package core

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// With go-redis 9.16 and 9.17 a subscription on a client that WithTimeout made ends the user's process with a panic.
// internal/versus runs on such a version.
func TestSubscribesOnTheUsersClient(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = client.Close() })
	c, _, _, err := bounded(client, newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	if c.subscriber != client {
		t.Errorf("subscribes on %v", c.subscriber)
	}
}

// What must be current is read from primaries, wherever the user's client reads: after a wake-up a replica may not have the entry yet.
func TestReadsGoToPrimaries(t *testing.T) {
	for name, opts := range map[string]*redis.ClusterOptions{
		"ReadOnly":       {ReadOnly: true},
		"RouteByLatency": {RouteByLatency: true},
		"RouteRandomly":  {RouteRandomly: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClusterClient(opts)
			t.Cleanup(func() { _ = client.Close() })
			c, _, end, err := bounded(client, newTroubles())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = end() })
			if own := c.redisClient.(direct).UniversalClient.(*redis.ClusterClient).Options(); own.ReadOnly || own.RouteByLatency || own.RouteRandomly {
				t.Errorf("reads go elsewhere: %+v", own)
			}
			if theirs := client.Options(); !theirs.ReadOnly {
				t.Error("the user's client was changed")
			}
		})
	}
}
