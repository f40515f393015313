package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/conformance"
	"github.com/herdgate/herdgate/internal/redistest"
)

func faults() []*fault {
	var list []*fault
	list = append(list, networks()...)
	list = append(list, replies()...)
	list = append(list, servers()...)
	list = append(list, shapes()...)
	list = append(list, procs()...)
	return list
}

const (
	polled = "The list of who waits is lost with the other keys, so that losers hear of the end of a computation only when they poll, 20 to 50 ms later (idle). " +
		"Polling faster would cost Redis commands while all is well, too."
	slowValues = "no read of 1 MB succeeds within the 100 ms that it may take. Those that it takes to open the breaker, five in a row, wait in vain."
)

func pass(w *world) { w.all((*redistest.Proxy).Pass) }

func networks() []*fault {
	const g = "Networks"
	lost := func(name string, words ...string) *fault {
		return &fault{group: g, name: "replies to " + name + " lost", off: pass, on: func(w *world) {
			w.all(func(p *redistest.Proxy) {
				for _, word := range words {
					p.DropReplies(-1, redistest.Command(word))
				}
				if name == "HELLO" { // which comes with new connections only
					p.CutAll()
				}
			})
		}}
	}
	return []*fault{
		{group: g, name: "black hole", off: pass, on: func(w *world) { w.all((*redistest.Proxy).BlackHole) }},
		{group: g, name: "one process cut off", off: pass, on: func(w *world) { w.proxies[0].BlackHole() }},
		{group: g, name: "half-open connections", on: func(w *world) { w.all((*redistest.Proxy).Strand) }},
		{group: g, name: "requests arrive, replies do not", off: pass, on: func(w *world) {
			w.all(func(p *redistest.Proxy) { p.HoldReplies(-1, func([]string) bool { return true }) })
		}},
		{group: g, name: "slow, 500 ms", off: pass, on: func(w *world) { w.all(func(p *redistest.Proxy) { p.Delay(0, 500*time.Millisecond) }) }},
		{group: g, name: "1 MB values over 2 MB/s", why: slowValues, slow: true, body: 1 << 20, off: pass, on: func(w *world) {
			w.all(func(p *redistest.Proxy) { p.Limit(2 << 20) })
		}},
		{group: g, name: "connections killed every 50 ms", on: func(w *world) {
			w.every(50*time.Millisecond, func() { w.all((*redistest.Proxy).CutAll) })
		}},
		{group: g, name: "connections reset every 50 ms", on: func(w *world) {
			w.every(50*time.Millisecond, func() { w.all((*redistest.Proxy).ResetAll) })
		}},
		{group: g, name: "connection refused", off: pass, on: func(w *world) { w.all((*redistest.Proxy).Refuse) }},
		lost("GET", "get", "getrange"),
		lost("SET", "set"),
		lost("scripts", "evalsha", "eval"),
		lost("HELLO", "hello"),
		{group: g, name: "pool of 2, 300 waiters", client: func(o *redis.Options) { o.PoolSize = 2 }, on: func(w *world) {
			w.every(100*time.Millisecond, func() {
				target := fmt.Sprintf("/crowd/%d", seq.Add(1))
				w.crowd(300, func(i int) { w.must(context.Background(), i%processes, target) })
			})
		}},
		{group: g, name: "calls cut short, pool of 2", slow: true, custom: cutShort},
		{group: g, name: "clients that leave", hits: true, on: func(w *world) {
			w.every(10*time.Millisecond, func() {
				w.crowd(20, func(i int) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(4000))*time.Microsecond)
					defer cancel()
					w.must(ctx, i%processes, fmt.Sprintf("/hot/%d", rand.IntN(hotKeys)))
				})
			})
		}},
	}
}

// cutShort: clients leave at random moments, and Redis answers too late at others, so that calls are given up while their replies are
// on the way. With two connections for all, a reply that is taken for that of the next call would be seen at once: each of 20,000
// responses is checked against what was asked for.
func cutShort(t *testing.T, host conformance.Host, r *row) {
	const checked, clients, keys = 20_000, 60, 50
	w := newWorld(t, &fault{client: func(o *redis.Options) { o.PoolSize = 2 }}, host)
	for key := range keys {
		w.must(t.Context(), 0, fmt.Sprintf("/kept/%d", key))
	}
	w.every(20*time.Millisecond, func() {
		late := time.Duration(0)
		if rand.IntN(10) == 0 {
			late = time.Duration(rand.IntN(200)) * time.Millisecond
		}
		w.all(func(p *redistest.Proxy) { p.Delay(0, late) })
	})
	var mu sync.Mutex
	hits := 0
	w.crowd(clients, func(int) {
		for {
			ctx, cancel := context.WithCancel(context.Background())
			if rand.IntN(4) == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(10_000))*time.Microsecond)
			}
			a := w.get(ctx, rand.IntN(processes), fmt.Sprintf("/kept/%d", rand.IntN(keys)))
			left := ctx.Err() != nil
			cancel()
			mu.Lock()
			if !left {
				r.judge(t, a)
				if strings.HasPrefix(a.status, "herdgate; hit") {
					hits++
				}
			}
			done := r.answers >= checked || t.Failed()
			mu.Unlock()
			if done {
				return
			}
		}
	})
	w.calm()
	pass(w)
	over := time.Now()
	for i := range processes {
		w.healed(i, 15*time.Second)
	}
	r.heal = time.Since(over)
	for _, gate := range w.gates {
		if n := gate.Stats().Events["corrupt"]; n > 0 { // an entry says for which key it is
			t.Errorf("%d replies were another key's", n)
		}
	}
	if hits < checked/10 {
		t.Errorf("%d of %d were hits: replies of Redis were hardly looked at", hits, checked)
	}
}

// crowd calls f n times at once.
func (w *world) crowd(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// must sends a request besides the load. If it has an answer at all, it is right.
func (w *world) must(ctx context.Context, process int, target string) {
	if a := w.get(ctx, process, target); a.own5xx || a.wrong != "" && ctx.Err() == nil {
		w.t.Errorf("%s: %+v", target, a)
	}
}

func replies() []*fault {
	const g = "Error replies"
	// What a server of this shape cannot be made to say, the network says in its place.
	says := func(reply string, hits bool, commands ...string) *fault {
		kind, _, _ := strings.Cut(reply, " ")
		return &fault{group: g, name: kind, hits: hits, off: pass, on: func(w *world) {
			w.all(func(p *redistest.Proxy) {
				for _, c := range commands {
					p.Answer(-1, reply, redistest.Command(c))
				}
			})
		}}
	}
	do := func(lines ...string) func(w *world) {
		return func(w *world) {
			for _, line := range lines {
				var args []any
				for word := range strings.SplitSeq(line, " ") {
					args = append(args, strings.Trim(word, `"`))
				}
				w.server.Do(args...)
			}
		}
	}
	cutting := func(f func(*world)) func(*world) {
		return func(w *world) {
			f(w)
			w.all((*redistest.Proxy).CutAll)
		}
	}
	return []*fault{
		{group: g, name: "OOM", hits: true, on: do("CONFIG SET maxmemory 1"), off: do("CONFIG SET maxmemory 0")},
		says("MISCONF Redis is configured to save RDB snapshots", true, "set", "evalsha", "eval"),
		{group: g, name: "NOREPLICAS", hits: true, on: do("CONFIG SET min-replicas-to-write 1"), off: do("CONFIG SET min-replicas-to-write 0")},
		{group: g, name: "NOAUTH", on: cutting(do("CONFIG SET requirepass sesame")), off: cutting(do(`CONFIG SET requirepass ""`))},
		{group: g, name: "WRONGPASS", args: []string{"--requirepass", "old"}, on: cutting(do("CONFIG SET requirepass new")), off: do("CONFIG SET requirepass old")},
		{group: g, name: "NOPERM", hits: true, on: do("ACL SETUSER default -set -evalsha -eval"), off: do("ACL SETUSER default +@all")},
		{group: g, name: "BUSY", args: []string{"--lua-time-limit", "20"}, on: func(w *world) {
			busy := w.server.Client(func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = time.Minute, -1 })
			w.busy.Go(func() { _ = busy.Eval(context.Background(), "while true do end", nil).Err() })
			<-time.After(50 * time.Millisecond)
			w.every(time.Hour, func() { <-w.stop; w.server.Do("SCRIPT", "KILL") })
		}},
		{group: g, name: "max clients", why: "where a process gets the one connection that is left, it takes locks, but cannot subscribe: losers hear of the end of a " +
			"computation only when they poll, 20 to 50 ms later (idle).", on: cutting(do("CONFIG SET maxclients 2")), off: do("CONFIG SET maxclients 1000")},
		{group: g, name: "WRONGTYPE on our keys", why: "what is overwritten is computed again. " + polled, on: func(w *world) {
			w.every(5*time.Millisecond, func() {
				ctx := context.Background()
				keys, _, _ := w.admin.(*redis.Client).Scan(ctx, rand.Uint64N(1<<10), w.ns+":*", 20).Result()
				for _, key := range keys {
					_ = w.admin.Del(ctx, key).Err()
					_ = w.admin.RPush(ctx, key, "x").Err()
					_ = w.admin.Expire(ctx, key, time.Minute).Err()
				}
			})
		}},
		{group: g, name: "values of another format", why: "what cannot be read is computed again, and a loser reads once more for it.", on: func(w *world) {
			w.every(5*time.Millisecond, func() {
				ctx := context.Background()
				keys, _, _ := w.admin.(*redis.Client).Scan(ctx, rand.Uint64N(1<<10), w.ns+":*", 20).Result()
				for _, key := range keys {
					if head, _ := w.admin.GetRange(ctx, key, 0, 2).Result(); strings.HasPrefix(head, "hg") { // an entry, or a record: another version follows
						_ = w.admin.SetRange(ctx, key, 3, "\xfe").Err()
					}
				}
			})
		}},
		says("EXECABORT Transaction discarded", true, "set", "evalsha", "eval"),
		{group: g, name: "READONLY", hits: true, on: do("REPLICAOF 127.0.0.1 1"), off: do("REPLICAOF NO ONE")},
		says("LOADING Redis is loading the dataset in memory", false, "get", "getrange", "set", "evalsha", "eval"),
		{group: g, name: "MASTERDOWN", on: do("CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"), off: do("REPLICAOF NO ONE")},
		says("TRYAGAIN Multiple keys request during rehashing of slot", true, "evalsha", "eval"),
	}
}

func servers() []*fault {
	const g = "Servers"
	restart := func(w *world) { w.server.Restart() }
	return []*fault{
		{group: g, name: "SIGSTOP", on: func(w *world) { w.server.Stop() }, off: func(w *world) { w.server.Cont() }},
		{group: g, name: "writes paused", hits: false, on: func(w *world) { w.server.Do("CLIENT", "PAUSE", 60000, "WRITE") }, off: func(w *world) { w.server.Do("CLIENT", "UNPAUSE") }},
		{group: g, name: "killed, back empty", on: func(w *world) { w.server.Kill() }, off: restart},
		{group: g, name: "killed, back with its data", args: []string{"--appendonly", "yes"}, on: func(w *world) { w.server.Kill() }, off: restart},
		{group: g, name: "FLUSHALL every 20 ms", why: "a computation takes 15 ms, and with its claim it loses the right to store: most of the p99 is the same work, done again (extra). " + polled, on: func(w *world) { w.every(20*time.Millisecond, func() { w.server.Do("FLUSHALL") }) }},
		{group: g, name: "SCRIPT FLUSH every 20 ms", hits: true, on: func(w *world) { w.every(20*time.Millisecond, func() { w.server.Do("SCRIPT", "FLUSH") }) }},
		{group: g, name: "eviction", why: "what is evicted is computed again, claims of computations under way included. " + polled, args: []string{"--maxmemory-policy", "allkeys-random"}, on: func(w *world) {
			info := w.server.Do("INFO", "memory").(string)
			_, rest, _ := strings.Cut(info, "used_memory:")
			used, _, _ := strings.Cut(rest, "\r\n")
			w.server.Do("CONFIG", "SET", "maxmemory", used)
		}, off: func(w *world) { w.server.Do("CONFIG", "SET", "maxmemory", 0) }},
		{group: g, name: "clock an hour ahead, then right", clocked: true,
			on: func(w *world) { w.clock.set(w.t, time.Hour) }, off: func(w *world) { w.clock.set(w.t, 0) }},
		{group: g, name: "clock an hour behind, then right", clocked: true,
			on: func(w *world) { w.clock.set(w.t, -time.Hour) }, off: func(w *world) { w.clock.set(w.t, 0) }},
		{group: g, name: "clock that jumps", slow: true, clocked: true, off: func(w *world) { w.clock.set(w.t, 0) }, on: func(w *world) {
			w.every(100*time.Millisecond, func() { w.clock.set(w.t, time.Duration(rand.Int64N(int64(10*time.Second)))-5*time.Second) })
		}},
	}
}

func shapes() []*fault {
	const c, s = "Cluster", "Sentinel"
	return []*fault{
		{group: c, name: "cluster: black hole", slow: true, shape: cluster, off: pass, on: func(w *world) { w.all((*redistest.Proxy).BlackHole) }},
		{group: c, name: "cluster: a node stopped", slow: true, shape: cluster, hits: true,
			on: func(w *world) { w.cluster.Nodes[1].Stop() }, off: func(w *world) { w.cluster.Nodes[1].Cont() }},
		{group: c, name: "cluster: a node killed, back empty", slow: true, shape: cluster,
			on: func(w *world) { w.cluster.Nodes[1].Kill() }, off: func(w *world) { w.cluster.Nodes[1].Restart(); w.cluster.WaitReady() }},
		{group: c, name: "cluster: CLUSTERDOWN", slow: true, shape: cluster,
			on:  func(w *world) { w.cluster.Nodes[1].Do(slots("DELSLOTS", w.cluster.Nodes[1])...) },
			off: func(w *world) { w.cluster.Nodes[1].Do(slots("ADDSLOTS", w.cluster.Nodes[1])...); w.cluster.WaitReady() }},
		{group: c, name: "cluster: connections killed", slow: true, shape: cluster, on: func(w *world) {
			w.every(50*time.Millisecond, func() { w.all((*redistest.Proxy).CutAll) })
		}},
		{group: c, name: "cluster: resharding, MOVED and ASK", slow: true, shape: cluster, on: func(w *world) {
			w.every(20*time.Millisecond, w.reshard)
		}},
		{group: c, name: "cluster: a node without slots", slow: true, shape: cluster, on: func(w *world) {
			w.busy.Go(func() { w.cluster.Empty(1, 2) })
		}},
		{group: s, name: "sentinel: failover", slow: true, shape: sentinel, on: func(w *world) { w.sentinel.Failover() }},
		{group: s, name: "sentinel: primary killed", slow: true, shape: sentinel, on: func(w *world) {
			old := w.sentinel.Primary()
			old.Kill()
			w.busy.Go(func() { w.sentinel.WaitFailover(old) })
		}},
		{group: s, name: "sentinel: primary stopped", slow: true, shape: sentinel, on: func(w *world) {
			old := w.sentinel.Primary()
			old.Stop()
			w.busy.Go(func() { w.sentinel.WaitFailover(old) })
		}},
		{group: s, name: "sentinel: the sentinel silent", slow: true, shape: sentinel, hits: true, off: pass, on: func(w *world) {
			w.proxies[0].BlackHole()
		}},
		{group: s, name: "sentinel: the sentinel silent, connections killed", slow: true, shape: sentinel, off: pass, on: func(w *world) {
			w.proxies[0].BlackHole()
			w.every(50*time.Millisecond, func() { w.proxies[1].CutAll(); w.proxies[2].CutAll() })
		}},
		{group: s, name: "sentinel: all silent", slow: true, shape: sentinel, off: pass, on: func(w *world) { w.all((*redistest.Proxy).BlackHole) }},
	}
}

// slots is a command about all the slots of the middle one of three nodes.
func slots(command string, _ *redistest.Server) []any {
	args := []any{"CLUSTER", command}
	for slot := 16384 / 3; slot < 2*16384/3; slot++ {
		args = append(args, slot)
	}
	return args
}

// reshard moves a slot with keys of ours to the next node.
func (w *world) reshard() {
	nodes := w.cluster.Nodes
	from := rand.IntN(len(nodes))
	to := (from + 1) % len(nodes)
	key, ok := nodes[from].Do("RANDOMKEY").(string)
	if !ok {
		return
	}
	slot := nodes[from].Do("CLUSTER", "KEYSLOT", key)
	fromID, toID := nodes[from].Do("CLUSTER", "MYID"), nodes[to].Do("CLUSTER", "MYID")
	nodes[to].Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	nodes[from].Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := strings.Cut(nodes[to].Addr, ":")
	for {
		<-time.After(5 * time.Millisecond) // for ASK and TRYAGAIN
		keys, _ := nodes[from].Do("CLUSTER", "GETKEYSINSLOT", slot, 3).([]any)
		if len(keys) == 0 {
			break
		}
		nodes[from].Do(append([]any{"MIGRATE", host, port, "", 0, 5000, "REPLACE", "KEYS"}, keys...)...)
	}
	for _, node := range []*redistest.Server{nodes[to], nodes[from], nodes[(to+1)%len(nodes)]} {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}
