package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// state returns the state of a breaker.
func (p process) state(calls string) string {
	for _, b := range p.gate.Stats().Breakers {
		if b.Calls == calls {
			return b.State
		}
	}
	return ""
}

// A client that dials with go-redis' own dialer is called on the request's goroutine: the hot path.
func TestDefaultClientsArePrompt(t *testing.T) {
	for name, c := range map[string]struct {
		client *redis.Client
		want   bool
	}{
		"default":  {redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), true},
		"dialer":   {redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.DialThrough()}), false},
		"failover": {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { _ = c.client.Close() })
			if got := prompt(c.client.Options()); got != c.want {
				t.Errorf("prompt %v, want %v", got, c.want)
			}
		})
	}
}

// Error replies come from a server that is there and answers fast: no breaker opens for them, and hits go on.
func TestErrorRepliesOpenNothing(t *testing.T) {
	server := redistest.Start(t)
	p := processOn(t, server.Client(), unique("replies"))
	var o origin
	get("/warm", o.answers(0, "warm")).send(p.serve)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	for i := range 4 * breakAfter {
		get(fmt.Sprintf("/%d", i), o.answers(0, "alone")).send(p.serve).want(t, RoleWinner, "alone")
	}
	get("/warm", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "warm")
	for _, b := range p.gate.Stats().Breakers {
		if b.State != "closed" {
			t.Errorf("%s: %s", b.Calls, b.State)
		}
	}
}

// A server that lets nobody in is one that refuses connections.
func TestWrongPasswordOpens(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	p := processOn(t, server.Client(func(o *redis.Options) { o.Password = "wrong" }), unique("password"))
	var o origin
	for i := range breakAfter {
		get(fmt.Sprintf("/%d", i), o.answers(0, "alone")).send(p.serve).want(t, RoleWinner, "alone")
	}
	for _, calls := range []string{"reads", "locks"} {
		if got := p.state(calls); got == "closed" {
			t.Errorf("%s still pass", calls)
		}
	}
}

// A Redis that takes no writes for a while still serves hits: each kind of call has a breaker of its own.
func TestWritesBreakApart(t *testing.T) {
	server := redistest.Start(t)
	p := processOn(t, server.Client(), unique("writes"), LockFor(time.Second))
	var o origin
	get("/warm", o.answers(0, "warm")).send(p.serve)
	server.Do("CLIENT", "PAUSE", "60000", "WRITE")
	for i := range breakAfter {
		get(fmt.Sprintf("/%d", i), o.answers(0, "alone")).send(p.serve).want(t, RoleWinner, "alone")
	}
	if got := p.state("locks"); got == "closed" {
		t.Error("locks are still taken")
	}
	for range 2 * breakAfter {
		get("/warm", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "warm")
	}
	if got := p.state("reads"); got != "closed" {
		t.Errorf("reads are %s", got)
	}
	server.Do("CLIENT", "UNPAUSE")
	eventually(t, func() bool { return get("/healed", o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
	if got := p.state("locks"); got != "closed" {
		t.Errorf("locks are %s after they passed", got)
	}
}

// A Redis that takes no bodies has no lock kept: nobody waits for what cannot come.
func TestStoresBreakApart(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	ns := unique("stores")
	p := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), ns)
	var o origin
	get("/warm", o.answers(0, "warm")).send(p.serve)
	proxy.DropReplies(-1, redistest.Command("set"))
	eventually(t, func() bool {
		get("/", o.answers(0, "alone")).send(p.serve)
		return p.state("stores") != "closed"
	})
	for i := range 2 * breakAfter {
		get(fmt.Sprintf("/%d", i), o.answers(0, "alone")).send(p.serve).want(t, RoleWinner, "alone")
	}
	if got := p.state("locks"); got != "closed" {
		t.Errorf("locks are %s", got)
	}
	unlocked(t, server.Client(), ns)
	proxy.Pass()
	eventually(t, func() bool { return get("/healed", o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
}

// A caller that leaves, or that leaves Redis too little time, says nothing about Redis.
func TestCallersDoNotOpenBreakers(t *testing.T) {
	server := redistest.Start(t)
	p := processOn(t, server.Client(), unique("callers"))
	proxied := redistest.StartProxy(t, server.Addr)
	q := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxied.Addr }), unique("callers"))
	proxied.Delay(0, 20*time.Millisecond)
	for range 4 * breakAfter {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.gate.Invalidate(ctx, Key{Host: "shop.example", Target: "/"})
		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		_ = q.gate.Invalidate(ctx, Key{Host: "shop.example", Target: "/"})
		cancel()
	}
	for _, p := range []process{p, q} {
		for _, calls := range []string{"reads", "locks"} {
			if got := p.state(calls); got != "closed" {
				t.Errorf("%s are %s", calls, got)
			}
		}
	}
}

// No request waits for a probe, and the success of one closes the breaker.
func TestProbesAreOffTheRequests(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	p := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), unique("probe"), LockFor(time.Second))
	var o origin
	proxy.BlackHole()
	eventually(t, func() bool {
		get("/", o.answers(0, "alone")).send(p.serve)
		return p.state("reads") != "closed" && p.state("locks") != "closed"
	})
	client := p.gate.backend.(*redisBackend).client
	for range 3 { // probes, none of which comes to anything
		eventually(t, func() bool { return p.state("reads") == "half-open" })
		if err := pulledBy(t.Context(), client, "key").err(); !errors.Is(err, errNotAsked) {
			t.Errorf("the request in whose place a probe went out got %v", err)
		}
		eventually(t, func() bool { return p.state("reads") == "open" })
	}
	proxy.Pass()
	eventually(t, func() bool { return get("/healed", o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
}

// Where the network is too slow for the values, a probe that asks for something small would close the breaker again and
// again: it makes the read that failed.
func TestReadsStayOpenWhileValuesAreTooSlow(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	p := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), unique("slow"))
	var o origin
	large := strings.Repeat("x", 64<<10)
	eventually(t, func() bool { return get("/", o.answers(0, large)).send(p.serve).out.Role == RoleHit })
	proxy.Limit(128 << 10)
	eventually(t, func() bool {
		get("/", o.answers(0, "alone")).send(p.serve)
		return p.state("reads") != "closed"
	})
	for range 3 {
		eventually(t, func() bool { return p.state("reads") == "half-open" })
		get("/", o.answers(0, "alone")).send(p.serve).want(t, RoleWinner, "alone")
		eventually(t, func() bool { return p.state("reads") != "half-open" })
		if got := p.state("reads"); got != "open" {
			t.Fatalf("reads are %s after a probe", got)
		}
	}
	if got := p.state("locks"); got != "closed" {
		t.Errorf("locks are %s", got)
	}
	proxy.Pass()
	eventually(t, func() bool { return get("/", o.answers(0, "alone")).send(p.serve).out.Role == RoleHit })
}

// slowHook holds every command up.
type slowHook struct{ on *atomic.Bool }

func (h slowHook) DialHook(hook redis.DialHook) redis.DialHook { return hook }

func (h slowHook) ProcessPipelineHook(hook redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return hook
}

func (h slowHook) ProcessHook(hook redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := hook(ctx, cmd)
		if h.on.Load() {
			pause(readBudget + 20*time.Millisecond)
		}
		return err
	}
}

// A hook of the user's that blocks is part of each call, which ends well, but late: the breakers open all the same.
func TestBlockingHookOpens(t *testing.T) {
	client := redistest.Shared(t).Client()
	hook := slowHook{&atomic.Bool{}}
	p := hookedOn(t, client, hook, unique("hook"), LockFor(time.Second))
	var o origin
	eventually(t, func() bool { return get("/", o.answers(0, "warm")).send(p.serve).out.Role == RoleHit })
	hook.on.Store(true)
	for range breakAfter {
		get("/", o.answers(0, "warm")).send(p.serve)
	}
	if got := p.state("reads"); got == "closed" {
		t.Error("reads still pass")
	}
	hook.on.Store(false)
	eventually(t, func() bool { return get("/healed", o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
}

// Each cluster node has its breakers: a node that says nothing costs the keys of the others nothing.
func TestBreakersOfAClusterAreApart(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	p := processOn(t, cluster.Client(), unique("nodes"), LockFor(time.Second))
	var o origin
	on := map[string]string{} // node -> a target that it keeps
	for i := 0; len(on) < 3; i++ {
		target := fmt.Sprintf("/%d", i)
		on[cluster.NodeOf(p.base(target)).Addr] = target
	}
	for _, target := range on {
		eventually(t, func() bool { return get(target, o.answers(0, "warm")).send(p.serve).out.Role == RoleHit })
	}
	down := cluster.Nodes[1]
	down.Stop()
	eventually(t, func() bool {
		get(on[down.Addr], o.answers(0, "alone")).send(p.serve)
		for _, b := range p.gate.Stats().Breakers {
			if b.Node == down.Addr && b.Calls == "reads" && b.State == "open" {
				return true
			}
		}
		return false
	})
	for addr, target := range on {
		if addr != down.Addr {
			get(target, o.answers(0, "never")).send(p.serve).want(t, RoleHit, "warm")
		}
	}
	for _, b := range p.gate.Stats().Breakers {
		if b.Node != down.Addr && b.State != "closed" {
			t.Errorf("%s of %s: %s", b.Calls, b.Node, b.State)
		}
	}
	down.Cont()
	eventually(t, func() bool { return get(on[down.Addr], o.answers(0, "never")).send(p.serve).out.Role == RoleHit })
}

// Trouble is logged once per kind and minute, and never in Redis's own words: those may quote keys, bodies and secrets.
func TestTroubleIsLoggedOncePerKind(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "GETRANGE", "")
	var log bytes.Buffer
	trouble := newTroubles()
	trouble.report(slog.New(slog.NewTextHandler(&log, nil)), func(cause) {})
	client, _, _, err := bounded(server.Client(), trouble)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := pulledBy(t.Context(), client, "secret-key").err(); err == nil || !strings.Contains(err.Error(), "secret-key") {
			t.Fatalf("the server did not quote its arguments: %v", err)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d lines: %s", n, log.String())
	}
	bubble(t, func(t *testing.T) {
		log.Reset()
		trouble := newTroubles()
		trouble.report(slog.New(slog.NewTextHandler(&log, nil)), func(cause) {})
		for range 180 {
			trouble.noLock("OOM command not allowed: secret", nil)
			trouble.noLock("MISCONF secret", nil)
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 6 || strings.Contains(log.String(), "secret") {
			t.Errorf("%d lines in three minutes of two kinds of trouble: %s", n, log.String())
		}
		log.Reset()
		for _, nothing := range []error{nil, errNotAsked} {
			trouble.noLock("", nothing)
		}
		if got := log.String(); !strings.Contains(got, "kind=unread") || !strings.Contains(got, `kind="not asked"`) {
			t.Errorf("without a reply: %s", got)
		}
	})
}
