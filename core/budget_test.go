package core

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// aBudget is what a request may be blocked on Redis in total. The rest is for a busy machine: what a client of its own would wait
// is far above both.
const (
	aBudget = lookBudget + finishBudget
	aSlack  = 750 * time.Millisecond
)

// Clients as users make them, in front of a network that can fall silent. None of their own timeouts ends a call in time.
func hungClients() map[string]func(t *testing.T) (client redis.UniversalClient, proxies []*redistest.Proxy) {
	slow := func(o *redis.Options) {
		o.PoolSize, o.MaxRetries, o.DialTimeout, o.ReadTimeout = 2, 3, 5*time.Second, 3*time.Second
	}
	single := func(change ...func(*redis.Options)) func(t *testing.T) (redis.UniversalClient, []*redistest.Proxy) {
		return func(t *testing.T) (redis.UniversalClient, []*redistest.Proxy) {
			server := redistest.Shared(t)
			proxy := redistest.StartProxy(t, server.Addr)
			change := append([]func(*redis.Options){func(o *redis.Options) { o.Addr = proxy.Addr }}, change...)
			return server.Client(change...), []*redistest.Proxy{proxy}
		}
	}
	return map[string]func(t *testing.T) (redis.UniversalClient, []*redistest.Proxy){
		"default":  single(),
		"patient":  single(slow),
		"one conn": single(slow, func(o *redis.Options) { o.PoolSize = 1 }),
		"a dialer that knows no context": single(slow, func(o *redis.Options) {
			o.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
				return net.DialTimeout(network, addr, 5*time.Second)
			}
			o.OnConnect = func(context.Context, *redis.Conn) error { pause(300 * time.Millisecond); return nil }
		}),
		"cluster": func(t *testing.T) (redis.UniversalClient, []*redistest.Proxy) {
			cluster := redistest.SharedCluster(t)
			var proxies []*redistest.Proxy
			for _, node := range cluster.Nodes {
				proxies = append(proxies, redistest.StartProxy(t, node.Addr))
			}
			return cluster.Client(func(o *redis.ClusterOptions) {
				o.PoolSize, o.DialTimeout = 2, 5*time.Second
				o.Dialer = redistest.DialThrough(proxies...)
			}), proxies
		},
		"sentinel": func(t *testing.T) (redis.UniversalClient, []*redistest.Proxy) {
			s := redistest.StartSentinel(t)
			proxies := []*redistest.Proxy{redistest.StartProxy(t, s.Addr), redistest.StartProxy(t, s.Nodes[0].Addr), redistest.StartProxy(t, s.Nodes[1].Addr)}
			return s.Client(func(o *redis.FailoverOptions) {
				o.PoolSize, o.MaxRetries, o.DialTimeout, o.ReadTimeout = 2, 3, 5*time.Second, 3*time.Second
				o.Dialer = redistest.DialThrough(proxies...)
			}), proxies
		},
	}
}

// Whatever the client's own patience, a request waits for a Redis that says nothing for its budget and no longer, then for
// nothing; a thousand of them need no more than a bounded number of goroutines; and it heals.
func TestBudget(t *testing.T) {
	for name, made := range hungClients() {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, warm %v", name, warm), func(t *testing.T) {
				client, proxies := made(t)
				p := processOn(t, client, unique("budget"), LockFor(time.Second))
				var o origin
				if warm {
					eventually(t, func() bool { return get("/warm", o.answers(0, "warm")).send(p.serve).out.Role == RoleHit })
				}
				for _, proxy := range proxies {
					proxy.BlackHole()
				}
				for i := range 3 { // one after the other: the breakers are closed yet
					v := get(fmt.Sprintf("/first-%d", i), o.answers(0, "alone")).send(p.serve)
					v.want(t, RoleWinner, "alone")
					if v.took > aBudget+aSlack {
						t.Errorf("request %d was blocked for %v", i, v.took)
					}
				}
				was := runtime.NumGoroutine()
				var most int
				stop, done := begin(), make(chan struct{})
				go func() {
					defer close(done)
					for !stop.closed() {
						most = max(most, runtime.NumGoroutine())
						pause(time.Millisecond)
					}
				}()
				const clients = 1000
				var wg sync.WaitGroup
				visits := make([]*visit, clients)
				for i := range visits {
					visits[i] = get(fmt.Sprintf("/%d", i), o.answers(0, "alone"))
					wg.Go(func() { visits[i].send(p.serve) })
				}
				wg.Wait()
				stop.close()
				<-done
				for _, v := range visits {
					v.want(t, RoleWinner, "alone")
					if v.took > aBudget+5*time.Second { // a thousand at once, on a busy machine
						t.Errorf("a request was blocked for %v", v.took)
					}
				}
				// Each client of this test has two goroutines, its flight one.
				nodes := len(p.gate.Stats().Breakers) / 3 // of each reads, locks and stores
				if bound := was + 3*clients + 4*nodes*(callSlots+probeSlots); most > bound {
					t.Errorf("%d goroutines, want at most %d", most, bound)
				}
				for _, b := range p.gate.Stats().Breakers {
					if b.State == "closed" && b.Calls != "stores" && len(proxies) == 1 {
						t.Errorf("%s of %s are still allowed", b.Calls, b.Node)
					}
				}
				eventually(t, func() bool { return runtime.NumGoroutine() < was+4*(callSlots+probeSlots) })
				for i := range 3 {
					v := get(fmt.Sprintf("/open-%d", i), o.answers(0, "alone")).send(p.serve)
					if v.want(t, RoleWinner, "alone"); v.took > aBudget+aSlack {
						t.Errorf("a request was blocked for %v with open breakers", v.took)
					}
				}
				for _, proxy := range proxies {
					proxy.Pass()
				}
				eventually(t, func() bool { return get("/healed", o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
			})
		}
	}
}
