package redistest

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

const slotCount = 16384

// Cluster is a Redis Cluster of primaries without replicas.
type Cluster struct {
	Nodes []*Server

	t     TB
	slots []int // the first slot of each node
}

// StartCluster starts a cluster of primaries that share the slots evenly, each node with
// the extra arguments, waits until all of them are in agreement, and ends it after the test.
// It takes more than two seconds, a delay that is built into Redis.
func StartCluster(t TB, nodes int, extraArgs ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for i := range nodes {
		c.Nodes = append(c.Nodes, newServer(t, launch(t, func(port int, dir string) []string {
			args := append(serverArgs(port, dir), "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
			return append(args, extraArgs...)
		})))
		c.slots = append(c.slots, i*slotCount/nodes)
	}
	for i, node := range c.Nodes {
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		end := slotCount
		if i+1 < nodes {
			end = c.slots[i+1]
		}
		add := []any{"CLUSTER", "ADDSLOTS"}
		for slot := c.slots[i]; slot < end; slot++ {
			add = append(add, slot)
		}
		node.Do(add...)
		for _, other := range c.Nodes[:i] { // each pair: gossip would take seconds
			node.Do("CLUSTER", "MEET", "127.0.0.1", other.p.port)
		}
	}
	c.WaitReady()
	return c
}

// WaitReady returns when every node takes commands for its slots and knows where all the others are,
// which after a node's Restart takes more than two seconds. No node may be down.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	for _, node := range c.Nodes {
		poll(c.t, "cluster of "+node.Addr, func(ctx context.Context) error {
			info, err := node.admin.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes))} {
				if !strings.Contains(info, want+"\r\n") {
					return fmt.Errorf("no %s in %q", want, info)
				}
			}
			return nil
		})
	}
}

// Empty takes all slots from one node, with what is in them, gives them to another one, and returns when all nodes agree, which
// takes some seconds; meanwhile they answer CLUSTERDOWN. The node stays a member, without slots. NodeOf does not know of it.
func (c *Cluster) Empty(from, to int) {
	c.t.Helper()
	var slots []any
	for slot := c.slots[from]; slot < slotCount && (from+1 == len(c.slots) || slot < c.slots[from+1]); slot++ {
		slots = append(slots, slot)
	}
	for _, node := range c.Nodes {
		node.Do(append([]any{"CLUSTER", "DELSLOTS"}, slots...)...)
	}
	c.Nodes[from].Do("FLUSHALL")
	c.Nodes[to].Do(append([]any{"CLUSTER", "ADDSLOTS"}, slots...)...)
	c.WaitReady()
}

// Client returns a new client that knows all nodes, with go-redis' defaults, changed by the
// functions given, which is closed after the test. To put proxies in between, see
// [DialThrough].
func (c *Cluster) Client(change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{Password: c.Nodes[0].p.pass}
	for _, node := range c.Nodes {
		o.Addrs = append(o.Addrs, node.Addr)
	}
	for _, f := range change {
		f(o)
	}
	client := redis.NewClusterClient(o)
	c.t.Cleanup(func() { _ = client.Close() }) // the test may have closed it
	return client
}

// NodeOf returns the node that keeps the key.
func (c *Cluster) NodeOf(key string) *Server {
	c.t.Helper()
	slot, _ := c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	owner := c.Nodes[0]
	for i, first := range c.slots {
		if first <= int(slot) {
			owner = c.Nodes[i]
		}
	}
	return owner
}
