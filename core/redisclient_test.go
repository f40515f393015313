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
