package core

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// What Instrument hooks sees all that is asked of Redis, on one node and on a cluster.
func TestInstrument(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"one node": redistest.Shared(t).Client(),
		"cluster":  redistest.SharedCluster(t).Client(),
	} {
		t.Run(name, func(t *testing.T) {
			r := &trips{}
			p := hookedOn(t, client, r, unique("instrument"))
			var o origin
			eventually(t, func() bool { return get("/", o.answers(0, "body")).send(p.serve).out.Role == RoleHit })
			sent, _ := r.all()
			for _, command := range []string{"getrange", "evalsha", "set"} {
				if !slices.ContainsFunc(sent, func(s string) bool { return strings.Contains(s, command) }) {
					t.Errorf("no %s in %q", command, sent)
				}
			}
		})
	}
}

// What f says is what New says.
func TestInstrumentFails(t *testing.T) {
	boom := errors.New("boom")
	for name, client := range map[string]redis.UniversalClient{
		"one node": redis.NewClient(&redis.Options{}),
		"cluster":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { _ = client.Close() })
			if _, err := New(Redis(client, "shop", Instrument(func(redis.UniversalClient) error { return boom }))); !errors.Is(err, boom) {
				t.Errorf("New: %v", err)
			}
			if _, err := New(Redis(client, "shop", Instrument(nil))); err == nil || !strings.Contains(err.Error(), "Instrument(nil)") {
				t.Errorf("New: %v", err)
			}
		})
	}
}

// What New refuses leaves no client behind: the one made for a cluster is closed, the user's is not.
func TestRefusedBackendClosesItsClient(t *testing.T) {
	cluster := redistest.SharedCluster(t).Client()
	var own redis.UniversalClient
	_, err := New(Redis(cluster, "no such namespace", Instrument(func(c redis.UniversalClient) error {
		own = c
		return nil
	})))
	if err == nil || own == nil {
		t.Fatalf("New: %v", err)
	}
	if err := own.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("its own client: %v", err)
	}
	if err := cluster.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the user's client: %v", err)
	}
}

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
