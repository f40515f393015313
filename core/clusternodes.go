package core

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterNodes knows which node of a cluster a key is on, so that a node that does not answer costs
// the keys of the others nothing.
type clusterNodes struct {
	client *redis.ClusterClient
	prompt bool
	t      *troubles
	learnt atomic.Bool // the client knows the slots: asking it for a node does no I/O any more
	before *node       // for everything until then

	mu    sync.RWMutex
	nodes map[string]*node // by address
	swept time.Time
}

// forgetAfter is how long nobody asked for a node that is forgotten: it has left the cluster, or its breakers tell nothing any more.
const forgetAfter = 10 * time.Minute

func newClusterNodes(c *redis.ClusterClient, prompt bool, t *troubles) *clusterNodes {
	return &clusterNodes{client: c, prompt: prompt, t: t, before: newNode("cluster", false, t), nodes: make(map[string]*node)}
}

// of returns the node of a key.
func (c *clusterNodes) of(ctx context.Context, key string) *node {
	if !c.learnt.Load() {
		return c.before
	}
	at, err := c.client.MasterForKey(ctx, key) // looks again in the background, every ten seconds
	if err != nil {
		return c.before
	}
	return c.at(at.Options().Addr)
}

// at returns the node at an address.
func (c *clusterNodes) at(addr string) *node {
	c.mu.RLock()
	n := c.nodes[addr]
	if n != nil && !n.asked.Load() { // it is written seldom: many read it
		n.asked.Store(true)
	}
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.nodes[addr]; n == nil {
		c.sweepLocked()
		n = newNode(addr, c.prompt, c.t)
		c.nodes[addr] = n
	}
	n.asked.Store(true)
	return n
}

// sweepLocked forgets the nodes for which nobody has asked since the last time, if that was long enough ago.
func (c *clusterNodes) sweepLocked() {
	if time.Since(c.swept) < forgetAfter {
		return
	}
	c.swept = time.Now()
	maps.DeleteFunc(c.nodes, func(_ string, n *node) bool { return !n.asked.Swap(false) })
}

// learn makes the client know the slots, if it does not yet. It runs in guarded calls only: it may take its time.
func (c *clusterNodes) learn(ctx context.Context) {
	if c.learnt.Load() {
		return
	}
	if _, err := c.client.MasterForKey(ctx, "any"); err == nil {
		c.learnt.Store(true)
	}
}

func (c *clusterNodes) all() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked()
	nodes := []*node{c.before}
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	return nodes
}
