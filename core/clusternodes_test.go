package core

import (
	"slices"
	"testing"
	"time"
)

// What has left the cluster is forgotten after a while; what is there keeps its breakers.
func TestClusterNodesAreForgotten(t *testing.T) {
	for name, sweep := range map[string]func(c *clusterNodes){
		"when somebody looks":    func(c *clusterNodes) { c.all() },
		"when another one comes": func(c *clusterNodes) { c.at("another " + time.Now().String()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newClusterNodes(nil, true, newTroubles())
				stays, leaves := c.at("stays"), c.at("leaves")
				for range 2 {
					if c.at("leaves") != leaves {
						t.Error("forgotten although somebody asked for it lately")
					}
					time.Sleep(forgetAfter)
					c.at("stays")
					sweep(c)
				}
				for range 5 {
					time.Sleep(forgetAfter / 2)
					c.at("stays")
					sweep(c)
				}
				if slices.Contains(c.all(), leaves) {
					t.Error("still there, and nobody has asked for it in twice as long")
				}
				if !slices.Contains(c.all(), stays) || c.at("stays") != stays || !slices.Contains(c.all(), c.before) {
					t.Error("what is there has lost its breakers")
				}
			})
		})
	}
}
