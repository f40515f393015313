package core

import (
	"context"
	"sync"
	"sync/atomic"

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
}

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
	addr := at.Options().Addr
	c.mu.RLock()
	n := c.nodes[addr]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.nodes[addr]; n == nil {
		n = newNode(addr, c.prompt, c.t)
		c.nodes[addr] = n
	}
	return n
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
	c.mu.RLock()
	defer c.mu.RUnlock()
	nodes := []*node{c.before}
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	return nodes
}
