package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/redistest"
)

// An orphan lock would stay this long; a test that waits for less time sees it.
const faultLock = 6 * time.Second

// A process is what one instance of a service has: a client, a gate and a route.
type process struct {
	gate  *Gate
	serve host.Middleware
}

func processOn(t *testing.T, client redis.UniversalClient, namespace string, opts ...RouteOption) process {
	t.Helper()
	return hookedOn(t, client, nil, namespace, opts...)
}

// hookedOn is processOn with a hook, if it is not nil, in the client that asks Redis.
func hookedOn(t *testing.T, client redis.UniversalClient, hook redis.Hook, namespace string, opts ...RouteOption) process {
	t.Helper()
	g := gateOn(t, Redis(client, namespace, Instrument(func(own redis.UniversalClient) error {
		if hook != nil {
			own.AddHook(hook)
		}
		return nil
	})))
	return process{g, g.Mount(append([]RouteOption{FreshFor(time.Minute), LockFor(faultLock)}, opts...)...)}
}

// base is the base location of a target on the process's only route.
func (p process) base(target string) string {
	for _, r := range p.gate.recipes {
		return p.gate.base(r.key(nil, Key{Host: "shop.example", Target: target}))
	}
	return ""
}

func once(o *redis.Options) { o.MaxRetries = -1 }

// loaded makes the server know all scripts, so that each call is one EVALSHA.
func loaded(t *testing.T, c *redis.Client) {
	t.Helper()
	for _, source := range []string{acquireSource, extendSource, finishSource, releaseSource, invalidateSource, dropSource} {
		if err := c.ScriptLoad(t.Context(), source).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// unlockedWithin is how long after the last handler has ended a lock may be left: 200 ms, and as much again as a test on a
// loaded machine may wait for a CPU, several times over. (Measured: 50 ms at most.) It is far from the life of an orphan.
const unlockedWithin = 200*time.Millisecond + 800*time.Millisecond

// unlocked waits until no lock is left.
func unlocked(t *testing.T, c redis.UniversalClient, namespace string) {
	t.Helper()
	redistest.Eventually(t, unlockedWithin, "no lock is left", func() bool { return len(redistest.Locks(t, c, namespace)) == 0 })
	redistest.CheckTTLs(t, c, namespace)
}

// untimely is how often Redis did not answer the processes within their budgets. On a busy machine that happens
// without a fault, and then there are more computations than one.
func untimely(procs ...process) (n uint64) {
	for _, p := range procs {
		n += p.gate.Stats().Events[string(causeNoRedis)]
	}
	return n
}

func TestLostReplies(t *testing.T) {
	admin := redistest.Shared(t).Client()
	loaded(t, admin)
	for name, c := range map[string]struct {
		lost   func(args []string) bool
		change []func(*redis.Options)
		stored bool
	}{
		"acquire, sent again by the client":  {lost: redistest.Command("evalsha", acquireScript.Hash()), stored: true},
		"acquire, not sent again":            {redistest.Command("evalsha", acquireScript.Hash()), []func(*redis.Options){once}, false},
		"finish, sent again by the client":   {lost: redistest.Command("evalsha", finishScript.Hash()), stored: true},
		"finish, not sent again":             {redistest.Command("evalsha", finishScript.Hash()), []func(*redis.Options){once}, true},
		"the body, sent again by the client": {lost: redistest.Command("set"), stored: true},
		"the body, not sent again":           {redistest.Command("set"), []func(*redis.Options){once}, true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.StartProxy(t, redistest.Shared(t).Addr)
			ns := unique("lost")
			change := append([]func(*redis.Options){func(o *redis.Options) { o.Addr = proxy.Addr }}, c.change...)
			p := processOn(t, redistest.Shared(t).Client(change...), ns)
			var o origin
			proxy.DropReplies(1, c.lost)
			visits := herd(10, p.serve, func(int) *visit { return get("/", o.answers(50*time.Millisecond, "body")) })
			for _, v := range visits {
				if v.status != 200 || v.body != "body" {
					t.Errorf("got %d %q as %s", v.status, v.body, v.out.Role)
				}
			}
			if proxy.Dropped() != 1 {
				t.Fatalf("%d replies dropped, want 1", proxy.Dropped())
			}
			if o.runs() != 1 {
				t.Errorf("%d computations, want 1", o.runs())
			}
			unlocked(t, admin, ns)
			if !c.stored {
				get("/", o.answers(0, "body")).send(p.serve).want(t, RoleWinner, "body")
			} else {
				eventually(t, func() bool { return admin.Exists(t.Context(), p.base("/")).Val() == 1 })
			}
			get("/", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "body")
		})
	}
}

func TestLostRelease(t *testing.T) {
	admin := redistest.Shared(t).Client()
	loaded(t, admin)
	for name, lose := range map[string]func(*redistest.Proxy){
		"requests": func(p *redistest.Proxy) { p.DropRequests(3, redistest.Command("evalsha", releaseScript.Hash())) },
		"replies":  func(p *redistest.Proxy) { p.DropReplies(3, redistest.Command("evalsha", releaseScript.Hash())) },
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.StartProxy(t, redistest.Shared(t).Addr)
			ns := unique("release")
			p := processOn(t, redistest.Shared(t).Client(once, func(o *redis.Options) { o.Addr = proxy.Addr }), ns)
			var o origin
			proxy.DropReplies(1, redistest.Command("evalsha", acquireScript.Hash()))
			lose(proxy)
			get("/", o.answers(0, "body")).send(p.serve).want(t, RoleWinner, "body")
			eventually(t, func() bool { return proxy.Dropped() >= 2 })
			unlocked(t, admin, ns)
		})
	}
}

// An acquire whose answer takes longer than the budget is no win. Whenever it is executed, it is cleaned up.
func TestUnknownAcquireIsCleanedUp(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	loaded(t, admin)
	for name, hold := range map[string]func(*redistest.Proxy) *redistest.Hold{
		"the reply is late": func(p *redistest.Proxy) *redistest.Hold {
			return p.HoldReplies(1, redistest.Command("evalsha", acquireScript.Hash()))
		},
		"the request is late": func(p *redistest.Proxy) *redistest.Hold {
			return p.HoldRequests(1, redistest.Command("evalsha", acquireScript.Hash()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.StartProxy(t, server.Addr)
			ns := unique("unknown")
			p := processOn(t, server.Client(once, func(o *redis.Options) { o.Addr = proxy.Addr }), ns)
			var o origin
			held := hold(proxy)
			scripts := redistest.CommandStats(t, admin)["evalsha"]
			v := get("/", o.answers(0, "body")).send(p.serve)
			v.want(t, RoleWinner, "body")
			if v.out.Cause != string(causeNoRedis) || v.out.Stored {
				t.Errorf("cause %s, stored %v; want no-redis, not stored", v.out.Cause, v.out.Stored)
			}
			<-held.Held()
			was := redistest.CommandStats(t, admin)["set"]
			if name == "the request is late" { // the first to give it back finds nothing yet
				eventually(t, func() bool { return redistest.CommandStats(t, admin)["evalsha"] > scripts })
			}
			held.Release()
			if name == "the request is late" {
				eventually(t, func() bool { return redistest.CommandStats(t, admin)["set"] > was }) // it is executed now
			}
			unlocked(t, admin, ns)
			eventually(t, func() bool { return get("/", o.answers(0, "body")).send(p.serve).out.Stored })
		})
	}
}

// A beat sends requests from many clients to several processes, over and over, and checks each answer.
type beat struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	wrong   []string
	slowest time.Duration
	n       int
}

// load starts the clients. Each answer must be a 200 with the body for its target, or our own 503.
func load(procs []process, clients int, handler func(target string) func(context.Context, *page)) *beat {
	b := &beat{stop: make(chan struct{})}
	for i := range clients {
		b.wg.Go(func() {
			for {
				select {
				case <-b.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				target := fmt.Sprintf("/%d", rand.IntN(5))
				v := get(target, handler(target)).send(procs[i%len(procs)].serve)
				b.mu.Lock()
				b.n++
				b.slowest = max(b.slowest, v.took)
				ok := v.status == 200 && strings.HasPrefix(v.body, target+" ") || v.out.Role == RoleDegraded && v.status == 503 && v.retryAfter() >= 1
				if !ok && len(b.wrong) < 10 {
					b.wrong = append(b.wrong, fmt.Sprintf("%s: %d %q as %s %s, panic %v", target, v.status, v.body, v.out.Role, v.out.Detail, v.panics))
				}
				b.mu.Unlock()
			}
		})
	}
	return b
}

func (b *beat) answers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// end stops the clients and reports what was wrong.
func (b *beat) end(t *testing.T, bound time.Duration) {
	t.Helper()
	close(b.stop)
	b.wg.Wait()
	if len(b.wrong) > 0 || b.n == 0 {
		t.Errorf("of %d answers were wrong: %s", b.n, strings.Join(b.wrong, "\n"))
	}
	if b.slowest > bound {
		t.Errorf("one request took %v, want a bound of %v", b.slowest, bound)
	}
}

func brief(target string) func(context.Context, *page) {
	return func(_ context.Context, p *page) {
		pause(5 * time.Millisecond)
		p.header.Set("Cache-Control", "max-age=1")
		p.write(200, target+" body")
	}
}

// A silent Redis delays a request by its budget, and no longer.
func TestRedisStopsUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	ns := unique("stop")
	procs := []process{processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)}
	b := load(procs, 20, brief)
	pause(500 * time.Millisecond)
	server.Stop()
	pause(time.Second)
	was := b.answers()
	pause(time.Second)
	if n := b.answers() - was; n < 20 { // each client could have had several
		t.Errorf("%d requests were answered in the second second of the silence, want at least one of each client", n)
	}
	server.Cont()
	pause(1500 * time.Millisecond)
	b.end(t, 5*time.Second) // 250 ms of Redis, the work, a wait; generous, as the machine may be busy
	unlocked(t, admin, ns)
	heals(t, admin, ns, procs...)
}

// heals checks that every process stores and hits again.
func heals(t *testing.T, admin *redis.Client, namespace string, procs ...process) {
	t.Helper()
	for i, p := range procs {
		target := fmt.Sprintf("/healed-%d", i)
		var o origin
		eventually(t, func() bool { return get(target, o.answers(0, "well")).send(p.serve).out.Role == RoleHit })
		for _, other := range procs {
			eventually(t, func() bool { return get(target, o.answers(0, "never")).send(other.serve).body == "well" })
		}
	}
	unlocked(t, admin, namespace)
}

func TestConnectionsAreKilledUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	ns := unique("kill")
	procs := []process{processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)}
	b := load(procs, 20, brief)
	for range 50 {
		server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		pause(30 * time.Millisecond)
	}
	b.end(t, 5*time.Second)
	unlocked(t, admin, ns)
	heals(t, admin, ns, procs...)
}

func TestNetworkFallsSilentUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	proxy := redistest.StartProxy(t, server.Addr)
	ns := unique("silent")
	procs := []process{
		processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), ns),
		processOn(t, server.Client(), ns), // this one has a network
	}
	b := load(procs, 20, brief)
	for range 3 {
		pause(300 * time.Millisecond)
		proxy.BlackHole()
		pause(300 * time.Millisecond)
		proxy.Pass()
	}
	proxy.Refuse()
	pause(300 * time.Millisecond)
	proxy.Pass()
	pause(300 * time.Millisecond)
	b.end(t, 6*time.Second)
	unlocked(t, admin, ns)
	heals(t, admin, ns, procs...)
}

func TestRedisRestartsEmpty(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	ns := unique("restart")
	a, b := processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)
	var o origin
	get("/warm", o.answers(0, "warm")).send(a.serve)
	winner := get("/", o.answers(500*time.Millisecond, "body"))
	done := winner.start(a.serve)
	eventually(t, func() bool { return len(redistest.Locks(t, admin, ns)) == 1 || o.runs() > 1 })
	loser := get("/", o.answers(100*time.Millisecond, "body"))
	answered := loser.start(b.serve)
	server.Restart()
	<-done
	<-answered
	winner.want(t, RoleWinner, "body")
	if loser.body != "body" {
		t.Errorf("the loser got %d %q as %s", loser.status, loser.body, loser.out.Role)
	}
	if v := get("/warm", o.answers(0, "anew")).send(a.serve); v.body != "anew" {
		t.Errorf("an entry that was lost: %q as %s", v.body, v.out.Role)
	}
	unlocked(t, admin, ns)
	heals(t, admin, ns, a, b)
}

// The default of Redis 7 grants an ACL user no channel: losers find out by polling.
func TestNoChannelRights(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	server.Do("ACL", "SETUSER", "app", "on", ">secret", "resetchannels", "~*", "+@all", "-@dangerous")
	as := func(o *redis.Options) { o.Username, o.Password = "app", "secret" }
	ns := unique("acl")
	a, b := processOn(t, server.Client(as), ns), processOn(t, server.Client(as), ns)
	var o origin
	winner := get("/", o.answers(400*time.Millisecond, "body"))
	done := winner.start(a.serve)
	eventually(t, func() bool { return len(redistest.Locks(t, admin, ns)) == 1 })
	losers := herd(5, b.serve, func(int) *visit { return get("/", o.answers(0, "never")) })
	<-done
	for _, v := range losers {
		v.want(t, RoleRemoteWaiter, "body")
	}
	if winner.want(t, RoleWinner, "body"); !winner.out.Stored || o.runs() != 1 {
		t.Errorf("stored %v, %d computations; want true and 1", winner.out.Stored, o.runs())
	}
	unlocked(t, admin, ns)
}

func TestOutOfMemoryBetweenAcquireAndStore(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	ns := unique("oom")
	p, other := processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)
	var o origin
	get("/warm", o.answers(0, "warm")).send(p.serve)
	entered := make(chan struct{})
	winner := get("/", o.handles(func(_ context.Context, p *page) {
		close(entered)
		pause(200 * time.Millisecond)
		server.Do("CONFIG", "SET", "maxmemory", "1")
		p.write(200, "body")
	}))
	done := winner.start(p.serve)
	<-entered
	waiter := get("/", o.answers(0, "never"))
	answered := waiter.start(p.serve)
	<-done
	<-answered
	winner.want(t, RoleWinner, "body")
	waiter.want(t, RoleLocalWaiter, "body")
	if winner.out.Stored {
		t.Error("stored, out of memory")
	}
	unlocked(t, admin, ns)
	for _, p := range []process{p, other} {
		get("/warm", o.answers(0, "never")).send(p.serve).want(t, RoleHit, "warm")
		v := get("/", o.answers(0, "alone")).send(p.serve)
		if v.want(t, RoleWinner, "alone"); v.out.Cause != string(causeNoRedis) {
			t.Errorf("a miss without memory for a lock: cause %s, want no-redis", v.out.Cause)
		}
	}
	unlocked(t, admin, ns)
	server.Do("CONFIG", "SET", "maxmemory", "0")
	heals(t, admin, ns, p, other)
}

func TestScriptFlushMidFlight(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	ns := unique("flush")
	a, b := processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)
	var o origin
	entered := make(chan struct{})
	winner := get("/", o.handles(func(_ context.Context, p *page) {
		close(entered)
		for range 10 {
			server.Do("SCRIPT", "FLUSH")
			pause(30 * time.Millisecond)
		}
		server.Do("SCRIPT", "FLUSH")
		p.write(200, "body")
	}))
	done := winner.start(a.serve)
	<-entered
	loser := get("/", o.answers(0, "never"))
	loser.send(b.serve)
	<-done
	loser.want(t, RoleRemoteWaiter, "body")
	if winner.want(t, RoleWinner, "body"); !winner.out.Stored || o.runs() != 1 {
		t.Errorf("stored %v, %d computations; want true and 1", winner.out.Stored, o.runs())
	}
	server.Do("SCRIPT", "FLUSH")
	if err := a.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
		t.Error(err)
	}
	unlocked(t, admin, ns)
}

// A renewal that is under way when the lock ends must not make it again.
func TestExtendRacesTheEnd(t *testing.T) {
	const rounds = 5000
	race := func(t *testing.T, b backend, ns string) {
		type round struct{ l lease }
		rounds1, extended := make(chan round), make(chan error)
		go func() {
			for r := range rounds1 {
				_, err := b.extend(context.Background(), r.l)
				extended <- err
			}
			close(extended)
		}()
		for i := range rounds {
			l := testLease(place{base: fmt.Sprintf("%s:v1:{%d}", ns, i), key: "key"})
			l.lock, l.hold = time.Minute, time.Minute
			l = win(t, b, l, "")
			rounds1 <- round{l}
			var err error
			switch i % 3 {
			case 0:
				_, err = b.finish(t.Context(), l, completion{result: resultGaveUp})
			case 1:
				_, err = b.finish(t.Context(), l, keep(l, "body"))
			default:
				_, err = b.release(t.Context(), l)
			}
			if err := errors.Join(err, <-extended); err != nil {
				t.Fatal(err)
			}
		}
		close(rounds1)
		<-extended
	}
	t.Run("memory", func(t *testing.T) {
		m := memoryFor(t)
		race(t, m, unique("race"))
		if n := m.locked(); n != 0 {
			t.Errorf("%d zombie locks", n)
		}
	})
	t.Run("redis", func(t *testing.T) {
		c := redistest.Shared(t).Client()
		ns := unique("race")
		b := opened(t, Redis(c, ns)).(*redisBackend)
		b.client.redisClient = direct{c} // with the user's timeouts: a busy machine is not what is tested
		race(t, b, ns)
		if locks := redistest.Locks(t, c, ns); len(locks) > 0 {
			t.Errorf("%d zombie locks, such as %s", len(locks), locks[0])
		}
		redistest.CheckTTLs(t, c, ns)
	})
}

// varied is a handler whose response varies.
func (o *origin) varied(work time.Duration, body string) func(context.Context, *page) {
	return o.handles(func(_ context.Context, p *page) {
		pause(work)
		p.header.Set("Vary", "X-Lang")
		p.write(200, body)
	})
}

// places in Redis that one key with a Vary has.
func keysOf(t *testing.T, c *redis.Client, p process) (base, variant string, all []string) {
	t.Helper()
	base = p.base("/")
	for _, key := range redistest.Keys(t, c, p.gate.namespace) {
		if rest, ok := strings.CutPrefix(key, base+":"); ok && len(rest) == 16 {
			variant = key
		}
	}
	if variant == "" {
		t.Fatalf("no variant among %q", redistest.Keys(t, c, p.gate.namespace))
	}
	for _, at := range []string{base, variant} {
		for _, suffix := range []string{"", ":lock", ":claim", ":mark", ":markc", ":fail", ":failc", ":wait"} {
			all = append(all, at+suffix)
		}
	}
	return base, variant, append(all, base+":idx", base+":gen")
}

// Values of another type in our places, as another program might have left them, cost a computation and nothing else.
func TestWrongTypesHeal(t *testing.T) {
	c := redistest.Shared(t).Client()
	ns := unique("types")
	knows := processOn(t, c, ns, WaitFor(2*time.Second)) // what the key varies on
	var o origin
	get("/", o.varied(0, "body")).send(knows.serve)
	base, variant, all := keysOf(t, c, knows)
	for _, key := range all {
		for _, kind := range []string{"knows what the key varies on", "does not know"} {
			t.Run(strings.ReplaceAll(strings.TrimPrefix(key, base), ":", ".")+" "+kind, func(t *testing.T) {
				ctx := t.Context()
				for _, k := range redistest.Keys(t, c, ns) {
					c.Del(ctx, k)
				}
				if strings.HasSuffix(key, ":idx") {
					c.Set(ctx, key, "text", time.Hour)
				} else {
					c.RPush(ctx, key, "an", "element")
					c.Expire(ctx, key, time.Hour)
				}
				p := knows
				if kind == "does not know" {
					p = processOn(t, c, ns, WaitFor(2*time.Second))
				}
				var o origin
				v := get("/", o.varied(20*time.Millisecond, "body"))
				done := v.start(p.serve)
				other := get("/", o.varied(20*time.Millisecond, "body")).send(knows.serve)
				<-done
				for _, v := range []*visit{v, other} {
					if v.status != 200 || v.body != "body" {
						t.Errorf("got %d %q as %s %s", v.status, v.body, v.out.Role, v.out.Detail)
					}
				}
				if c.Type(ctx, key).Val() != "list" { // else it lies where this key's locks never are
					unlocked(t, c, ns)
				}
				eventually(t, func() bool { return get("/", o.varied(0, "body")).send(p.serve).out.Role == RoleHit })
				get("/", o.answers(0, "never")).send(knows.serve).want(t, RoleHit, "body")
				at := base
				if p.gate == knows.gate {
					at = variant
				}
				if key == at+":lock" && c.Type(ctx, key).Val() == "list" {
					t.Error("still no lock can be taken")
				}
				if n := o.runs(); n > 4 {
					t.Errorf("%d computations: it does not heal", n)
				}
			})
		}
	}
}

// Redis may evict the index of a key's variants before these: hits do not touch it. An invalidation reaches them all the same, and
// whoever computes one of them.
func TestInvalidateReachesForgottenVariants(t *testing.T) {
	c := redistest.Shared(t).Client()
	ns := unique("forgotten")
	knows, other := processOn(t, c, ns), processOn(t, c, ns)
	var o origin
	get("/", o.varied(0, "older")).send(knows.serve).want(t, RoleWinner, "older")
	get("/", o.varied(0, "never")).send(other.serve).want(t, RoleHit, "older")
	base := knows.base("/")
	if n := c.Del(t.Context(), base+":idx").Val(); n != 1 {
		t.Fatal("no index to evict")
	}
	if err := other.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
		t.Fatal(err)
	}
	get("/", o.varied(0, "newer")).send(knows.serve).want(t, RoleWinner, "newer")
	get("/", o.varied(0, "never")).send(other.serve).want(t, RoleHit, "newer")

	// And while a variant is being computed.
	if err := other.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	slow := get("/", func(_ context.Context, p *page) {
		close(begun)
		<-end
		p.header.Set("Vary", "X-Lang")
		p.write(200, "older again")
	})
	done := slow.start(other.serve) // its hits have taught it what the key varies on
	<-begun
	evicted := c.Del(t.Context(), base+":idx").Val()
	err := knows.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"})
	close(end)
	<-done
	if evicted != 1 || err != nil {
		t.Fatalf("%d indices evicted, invalidation: %v", evicted, err)
	}
	slow.want(t, RoleWinner, "older again")
	if slow.out.Stored {
		t.Error("what was computed before the invalidation was stored")
	}
	get("/", o.varied(0, "newest")).send(other.serve).want(t, RoleWinner, "newest")
	get("/", o.varied(0, "never")).send(knows.serve).want(t, RoleHit, "newest")
	unlocked(t, c, ns)
}

// What is damaged is a miss, and replaced.
func TestDamagedValues(t *testing.T) {
	c := redistest.Shared(t).Client()
	ns := unique("damaged")
	knows := processOn(t, c, ns, WaitFor(2*time.Second))
	var o origin
	get("/", o.varied(0, "the body of the response")).send(knows.serve)
	base, variant, _ := keysOf(t, c, knows)
	good := map[string]string{}
	for name, key := range map[string]string{"record": base, "entry": variant} {
		raw, err := c.Get(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		good[name] = raw
	}
	flip := func(raw string, at int) string {
		b := []byte(raw)
		b[at] ^= 0x40
		return string(b)
	}
	damage := map[string]func(raw string) string{
		"empty":           func(string) string { return "" },
		"another program": func(string) string { return `{"a":1}` },
		"one byte":        func(raw string) string { return raw[:1] },
		"half a head":     func(raw string) string { return raw[:20] },
		"only a head":     func(raw string) string { return raw[:28] },
		"no metadata":     func(raw string) string { return raw[:36] },
		"cut":             func(raw string) string { return raw[:len(raw)-1] },
		"too long":        func(raw string) string { return raw + "x" },
		"other version":   func(raw string) string { return raw[:3] + "\x63" + raw[4:] },
		"a bit of the magic": func(raw string) string {
			return flip(raw, 1)
		},
		"a bit of the grant":    func(raw string) string { return flip(raw, 8) },
		"a bit of the token":    func(raw string) string { return flip(raw, 20) },
		"a bit of the checksum": func(raw string) string { return flip(raw, 30) },
		"a bit of the length":   func(raw string) string { return flip(raw, 33) },
		"a bit of the end":      func(raw string) string { return flip(raw, len(raw)-1) },
	}
	for what, key := range map[string]string{"record": base, "entry": variant} {
		for name, f := range damage {
			for _, kind := range []string{"knows what the key varies on", "does not know"} {
				t.Run(what+" "+name+" "+kind, func(t *testing.T) {
					ctx := t.Context()
					for _, k := range redistest.Keys(t, c, ns) {
						c.Del(ctx, k)
					}
					if what == "entry" {
						c.Set(ctx, base, good["record"], time.Hour)
					}
					c.Set(ctx, key, f(good[what]), time.Hour)
					p := knows
					if kind == "does not know" {
						p = processOn(t, c, ns, WaitFor(2*time.Second))
					}
					var o origin
					v := get("/", o.varied(0, "new")).send(p.serve)
					v.want(t, RoleWinner, "new")
					if !v.out.Stored {
						t.Errorf("not stored: %s", v.got.Get("Cache-Status"))
					}
					for _, p := range []process{p, knows} {
						hits(t, p, "new")
					}
					unlocked(t, c, ns)
				})
			}
		}
	}
}

// hits fails the test unless a request to / is a hit with this body. One that Redis did not answer in time does not count.
func hits(t *testing.T, p process, body string) {
	t.Helper()
	eventually(t, func() bool {
		v := get("/", func(_ context.Context, p *page) { p.write(200, "never") }).send(p.serve)
		if v.out.Cause == string(causeNoRedis) {
			return false
		}
		v.want(t, RoleHit, body)
		return true
	})
}

// Two processes that remember different Vary names for one key, after the record of one was lost.
func TestProcessesThatKnowDifferentVariance(t *testing.T) {
	c := redistest.Shared(t).Client()
	ns := unique("variance")
	a, b := processOn(t, c, ns, WaitFor(2*time.Second)), processOn(t, c, ns, WaitFor(2*time.Second))
	var o origin
	varies := func(on string) *visit {
		return get("/", o.handles(func(_ context.Context, p *page) {
			p.header.Set("Vary", on)
			p.write(200, "on "+on)
		}))
	}
	varies("X-Lang").send(a.serve).want(t, RoleWinner, "on X-Lang")
	eventually(t, func() bool { return varies("X-Lang").send(a.serve).out.Role == RoleHit }) // now it knows
	began := o.runs()
	if err := b.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
		t.Fatal(err)
	}
	varies("X-Zone").send(b.serve).want(t, RoleWinner, "on X-Zone")
	for range 3 {
		for i, p := range []process{a, b} {
			if v := varies("X-Zone").send(p.serve); v.status != 200 {
				t.Fatalf("process %d: %d as %s %s", i, v.status, v.out.Role, v.out.Detail)
			}
		}
	}
	was := o.runs()
	for _, p := range []process{a, b} {
		if v := varies("X-Zone").send(p.serve); v.out.Role != RoleHit && v.out.Cause != string(causeNoRedis) {
			t.Errorf("after they have met: %s %s, want a hit", v.out.Role, v.out.Detail)
		}
	}
	if n := o.runs(); untimely(a, b) == 0 && (n != was || n > began+2) {
		t.Errorf("%d computations, want at most 2", n-began)
	}
	unlocked(t, c, ns)
}

// A response that varies on more than a record has room for is computed for everybody, and stored for nobody: scripts would not
// see the whole record, and tell whoever wants another variant to look again, for ever.
func TestVaryOnTooMuch(t *testing.T) {
	c := redistest.Shared(t).Client()
	for name, b := range map[string]Backend{"redis": Redis(c, unique("too-much")), "memory": Memory(1 << 20)} {
		t.Run(name, func(t *testing.T) {
			g := gateOn(t, b)
			serve := g.Mount(FreshFor(time.Minute))
			var o origin
			var many []string
			for i := range 400 {
				many = append(many, fmt.Sprintf("X-Header-%d", i))
			}
			ask := func(lang string, vary ...string) *visit {
				return get("/", o.handles(func(_ context.Context, p *page) {
					p.header.Set("Vary", strings.Join(vary, ", "))
					p.write(200, "for "+lang)
				}), with("X-Lang", lang)).send(serve)
			}
			for range 2 {
				for _, lang := range []string{"de", "fr"} {
					if v := ask(lang, append(many, "X-Lang")...); v.status != 200 || v.body != "for "+lang || v.out.Stored {
						t.Errorf("%s: %d %q as %s %s, stored %v", lang, v.status, v.body, v.out.Role, v.out.Detail, v.out.Stored)
					}
				}
			}
			if v := ask("de", many...); v.out.Detail != "vary-many" && v.out.Role != RoleParallel {
				t.Errorf("%s %s", v.out.Role, v.out.Detail)
			}
			if err := g.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
				t.Fatal(err)
			}
			for _, lang := range []string{"de", "fr"} { // the handler has mended its ways
				ask(lang, "X-Lang")
				if v := ask(lang, "X-Lang"); v.out.Role != RoleHit || v.body != "for "+lang {
					t.Errorf("%s afterwards: %q as %s %s", lang, v.body, v.out.Role, v.out.Detail)
				}
			}
		})
	}
}

// grantsAll is a process whose lock excludes nobody.
func grantsAll(t *testing.T, client *redis.Client, namespace string) process {
	t.Helper()
	b, err := Redis(client, namespace).open()
	if err != nil {
		t.Fatal(err)
	}
	g := gateOn(t, opens{everybody(t, b)})
	g.namespace = namespace
	return process{g, g.Mount(FreshFor(time.Minute), LockFor(faultLock))}
}

// With a lock that grants everyone there are more computations, and never a mixed, torn or older response.
func TestGrantEveryoneNeverMixes(t *testing.T) {
	server := redistest.Shared(t)
	c := server.Client()
	ns := unique("everyone")
	procs := []process{grantsAll(t, server.Client(), ns), grantsAll(t, server.Client(), ns)}
	var runs atomic.Int64
	whole := func(target string) func(context.Context, *page) {
		return func(_ context.Context, p *page) {
			id := fmt.Sprintf("<%s#%d>", target, runs.Add(1))
			pause(time.Duration(rand.IntN(5)) * time.Millisecond)
			p.header.Set("X-Id", id)
			p.write(200, strings.Repeat(id, 1000+rand.IntN(1000)))
		}
	}
	rounds, doubly, overtaken := 60, false, 0
	for i := range rounds {
		target := fmt.Sprintf("/%d", i)
		was := runs.Load()
		visits := herd(20, func(x host.Exchange) { procs[rand.IntN(2)].serve(x) }, func(int) *visit { return get(target, whole(target)) })
		doubly = doubly || runs.Load() > was+1
		for _, p := range procs {
			visits = append(visits, get(target, whole(target)).send(p.serve))
		}
		for _, v := range visits {
			if v.out.Role == RoleDegraded { // replaced again and again: an honest answer, and never to the last two
				overtaken++
				continue
			}
			id := v.got.Get("X-Id")
			if v.status != 200 || !strings.HasPrefix(id, "<"+target+"#") || v.body == "" || strings.ReplaceAll(v.body, id, "") != "" {
				t.Fatalf("a response that is not one computation's: %d as %s, X-Id %q, %d bytes beginning %.40q", v.status, v.out.Role, id, len(v.body), v.body)
			}
		}
		if last := visits[len(visits)-2:]; last[0].got.Get("X-Id") == "" || last[0].body != last[1].body {
			t.Errorf("two processes read different responses: %s and %s", last[0].got.Get("X-Id"), last[1].got.Get("X-Id"))
		}
	}
	if overtaken > rounds {
		t.Errorf("%d of %d requests were degraded", overtaken, 20*rounds)
	}
	if !doubly {
		t.Error("the lock that grants everyone never granted twice: the test shows nothing")
	}
	unlocked(t, c, ns)
}

// Whoever comes after Invalidate has returned, in whatever process, gets nothing older.
func TestNothingOlderAfterInvalidate(t *testing.T) {
	kinds := map[string]func(t *testing.T) (procs []process, after func()){
		"redis": func(t *testing.T) ([]process, func()) {
			server, ns := redistest.Shared(t), unique("fresh")
			return []process{processOn(t, server.Client(), ns), processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)},
				func() { unlocked(t, server.Client(), ns) }
		},
		"cluster": func(t *testing.T) ([]process, func()) {
			cluster, ns := redistest.SharedCluster(t), unique("fresh")
			return []process{processOn(t, cluster.Client(), ns), processOn(t, cluster.Client(), ns)},
				func() { unlocked(t, cluster.Client(), ns) }
		},
		"redis, grant everyone": func(t *testing.T) ([]process, func()) {
			server, ns := redistest.Shared(t), unique("fresh")
			return []process{grantsAll(t, server.Client(), ns), grantsAll(t, server.Client(), ns)},
				func() { unlocked(t, server.Client(), ns) }
		},
		"memory": func(t *testing.T) ([]process, func()) {
			m := memoryFor(t)
			a, b := gateOn(t, opens{m}), gateOn(t, opens{m})
			return []process{{a, a.Mount(FreshFor(time.Minute))}, {b, b.Mount(FreshFor(time.Minute))}}, func() {
				if n := m.locked(); n != 0 {
					t.Errorf("%d locks are left", n)
				}
			}
		},
	}
	for name, world := range kinds {
		for _, vary := range []string{"", "X-Lang"} {
			t.Run(name+" "+vary, func(t *testing.T) {
				procs, after := world(t)
				var source, confirmed atomic.Int64
				handler := func(_ context.Context, p *page) {
					version := source.Load()
					pause(time.Duration(rand.IntN(10)) * time.Millisecond)
					if vary != "" {
						p.header.Set("Vary", vary)
					}
					p.write(200, fmt.Sprint(version))
				}
				stop := begin()
				var wg sync.WaitGroup
				var mu sync.Mutex
				var wrong []string
				roles := map[Role]int{}
				for i := range 12 {
					wg.Go(func() {
						for !stop.closed() {
							least := confirmed.Load()
							v := get("/", handler, with("X-Lang", fmt.Sprint(i%2))).send(procs[i%len(procs)].serve)
							var got int64
							_, err := fmt.Sscan(v.body, &got)
							mu.Lock()
							roles[v.out.Role]++
							if v.status == 200 && (err != nil || got < least) && len(wrong) < 5 {
								wrong = append(wrong, fmt.Sprintf("version %q after the invalidation to %d: %s %s %s", v.body, least, v.out.Role, v.out.Cause, v.out.Detail))
							}
							mu.Unlock()
							pause(time.Millisecond)
						}
					})
				}
				for i := range 150 {
					version := source.Add(1)
					if err := procs[i%len(procs)].gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err == nil {
						confirmed.Store(version)
					}
					pause(time.Duration(rand.IntN(15)) * time.Millisecond)
				}
				stop.close()
				wg.Wait()
				if len(wrong) > 0 {
					t.Errorf("%d times Redis was too slow; roles %v; older responses:\n%s", untimely(procs...), roles, strings.Join(wrong, "\n"))
				}
				if roles[RoleHit] == 0 || roles[RoleWinner] == 0 || roles[RoleLocalWaiter] == 0 {
					t.Errorf("roles %v: the test shows nothing", roles)
				}
				after()
			})
		}
	}
}

// ending is a channel that is closed once.
type ending struct{ c chan struct{} }

func begin() ending { return ending{make(chan struct{})} }

func (e ending) close() { close(e.c) }

func (e ending) closed() bool {
	select {
	case <-e.c:
		return true
	default:
		return false
	}
}

// On fresh keys, one after the other, there is exactly one computation each, however many processes ask. A round in which
// Redis did not answer in time is not counted; there are few.
func TestOneComputationPerKey(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		server := redistest.Shared(t)
		oneComputationPerKey(t, 500, func() redis.UniversalClient { return server.Client() })
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.SharedCluster(t)
		oneComputationPerKey(t, 200, func() redis.UniversalClient { return cluster.Client() })
	})
}

func oneComputationPerKey(t *testing.T, rounds int64, client func() redis.UniversalClient) {
	ns := unique("rounds")
	var procs []process
	for range 3 {
		procs = append(procs, processOn(t, client(), ns))
	}
	var o origin
	var late uint64
	for i, clean := int64(0), int64(0); clean < rounds; i++ {
		if i-clean > rounds/20 {
			t.Fatalf("Redis was too slow in %d of %d rounds", i-clean, i)
		}
		target := fmt.Sprintf("/%d", i)
		body := "body of " + target
		runs := o.runs()
		visits := herd(9, func(x host.Exchange) { procs[x.Native().(*visit).header.Get("X-Process")[0]-'0'].serve(x) }, func(j int) *visit {
			return get(target, o.answers(2*time.Millisecond, body), with("X-Process", fmt.Sprint(j%3)))
		})
		for _, v := range visits {
			if v.status != 200 || v.body != body {
				t.Fatalf("round %d: %d %q as %s %s", i, v.status, v.body, v.out.Role, v.out.Detail)
			}
		}
		was := late
		if late = untimely(procs...); late > was {
			continue // it shows nothing
		}
		if n := o.runs() - runs; n != 1 {
			t.Fatalf("round %d: %d computations, want 1", i, n)
		}
		clean++
	}
	unlocked(t, client(), ns)
}
