package conformance

import (
	"net/http"
	"time"

	"github.com/herdgate/herdgate/core"
)

// lockCases are about one computation for all: DESIGN 5, 6 and 8.
func lockCases() []Case {
	winner := map[core.Role]int{core.RoleWinner: 1}
	both := func(c Case) []Case { // in one process, and over two
		fleet := c
		fleet.ID, fleet.Gates, fleet.Cluster = c.ID+"-fleet", 2, true
		return []Case{c, fleet}
	}
	var cases []Case
	for _, c := range []Case{
		{
			ID: "lock/herd", What: "gofiber/fiber#2182: N misses were N computations", Lists: []int{34, 35},
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 40, Spread: true}, Until{Running: 1, Waiting: 39}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 1}, hit(get("/a"), 1),
			},
		},
		{
			ID: "lock/rounds", What: "DESIGN 2: exactly one computation per expiry", Lists: []int{34},
			Route: fresh(),
			Steps: []Step{Rounds{N: 20, Clients: 30}},
		},
		{
			ID: "lock/keys", What: "gofiber/fiber#4358: a lock held over I/O capped the whole app: many keys compute at once", Lists: []int{70},
			Route: fresh(core.KeyHeader("X-Lang")), Origin: Script{Hold: true},
			Steps: steps(many(20), []Step{Until{Running: 20}, Release{}}, manyDone(20)),
		},
		{
			ID: "lock/winner-leaves", What: "hmchangw/newchat#16: the leader's client left, and all got its error", Lists: []int{38},
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Start{Name: "losers", Request: get("/a"), N: 10, Spread: true}, Until{Waiting: 10},
				Leave{Name: "winner"}, Pass(20 * time.Millisecond), Release{},
				Expect{Name: "losers", Want: Want{Run: 1}, Runs: 1}, hit(get("/a"), 1), Saw{1, []string{"context alive"}},
			},
		},
		{
			ID: "lock/winner-leaves-alone", What: "DESIGN 6: the work belongs to the key: it is stored though nobody waits", Lists: []int{38},
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Leave{Name: "winner"}, Pass(20 * time.Millisecond), Release{},
				Until{Idle: true}, hit(get("/a"), 1), Saw{1, []string{"context alive"}},
			},
		},
		{
			ID: "lock/long", What: "langgenius/dify#38226: the lifetime of the lock was the bound of the wait; redis/rueidis#923: long locks were lost", Lists: []int{46, 50},
			Route: fresh(core.LockFor(300*time.Millisecond), core.PollEvery(5*time.Millisecond, 10*time.Millisecond)), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10, Spread: true}, Until{Running: 1, Waiting: 9}, Pass(1200 * time.Millisecond),
				Release{}, Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 1},
			},
		},
		{
			ID: "lock/waiters-time-out", What: "flyingsquirrel0419/layercache#65: waiters timed out and all computed", Lists: []int{45},
			Route: fresh(core.WaitFor(300 * time.Millisecond)), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Send{Request: get("/a"), N: 10, Spread: true, Want: Want{Status: 503, Run: -1, Role: core.RoleDegraded, Roles: map[core.Role]int{core.RoleDegraded: 10}, Cache: "fwd=uri-miss detail=wait", Header: []string{"!Age"}}, Runs: 1},
				Release{}, Expect{Name: "winner", Want: Want{Run: 1, Cache: "stored"}, Runs: 1}, hit(get("/a"), 1),
			},
		},
		{
			ID: "lock/uncacheable-herd", What: "microcache: uncacheable responses were made one after another", Lists: []int{40},
			Route: fresh(), Origin: Script{Hold: true, Header: []string{"Cache-Control: no-store"}},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 61, Spread: true}, Until{Running: 1, Waiting: 60},
				Release{1}, Until{Running: 60}, Release{}, // all sixty run at the same time
				Expect{Name: "all", Want: Want{Distinct: true, Cache: "!stored"}, Runs: 61},
				// And so do those who come now: the key is known.
				Does{Then: Script{Hold: true, Header: []string{"Cache-Control: no-store"}}},
				Start{Name: "more", Request: get("/a"), N: 20, Spread: true}, Until{Running: 20}, Release{},
				Expect{Name: "more", Want: Want{Distinct: true, Cache: "!stored"}, Runs: 81},
			},
		},
		{
			ID: "lock/uncacheable-cleared", What: "DESIGN 15: the mark is cleared by a cacheable answer",
			Route: fresh(), Origin: Script{Header: []string{"Cache-Control: no-store"}},
			Steps: []Step{
				alone(get("/a"), 1, "no-store"), Send{Request: get("/a"), Want: Want{Run: 2, Cache: "!stored"}, Runs: 2},
				Does{}, Send{Request: get("/a"), Want: Want{Run: 3, Cache: "stored"}, Runs: 3}, hit(get("/a"), 3),
			},
		},
		{
			ID: "lock/poll", What: "goware/cachestore: back-off arithmetic panicked", Lists: []int{57},
			Route: fresh(core.PollEvery(time.Millisecond, time.Millisecond), core.LockFor(300*time.Millisecond)), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10, Spread: true}, Until{Running: 1, Waiting: 9}, Pass(300 * time.Millisecond), Release{},
				Expect{Name: "all", Want: Want{Run: 1}, Runs: 1},
			},
		},
		{
			ID: "lock/hold-cap", What: "DESIGN 5: a hung handler does not hold a key for ever",
			Route: fresh(core.LockFor(100*time.Millisecond), core.HoldFor(250*time.Millisecond)), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "hung", Request: get("/a")}, Until{Running: 1},
				Start{Name: "losers", Request: get("/a"), N: 6, Spread: true}, Until{Running: 2}, Release{2},
				Expect{Name: "losers", Want: Want{Run: 2, Roles: winner}, Runs: 2}, hit(get("/a"), 2),
				Release{1}, Expect{Name: "hung", Want: Want{Run: 1, Cache: "!stored"}}, hit(get("/a"), 2),
			},
		},
		{
			ID: "lock/invalidated", What: "ZiggyCreatures/FusionCache#628, logto-io/logto#9428: invalidated during the computation, the old value was stored", Lists: []int{65},
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "old", Request: get("/a")}, Until{Running: 1}, Invalidate{Target: "/a"},
				Start{Name: "new", Request: get("/a")}, Until{Running: 2}, // it does not join the old flight
				Release{1}, Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}},
				Release{2}, Expect{Name: "new", Want: Want{Run: 2, Cache: "stored"}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		{
			ID: "lock/invalidated-late", What: "FusionCache#628: the old computation ends last", Lists: []int{44, 65},
			Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "old", Request: get("/a")}, Until{Running: 1}, Invalidate{Target: "/a"},
				Start{Name: "new", Request: get("/a")}, Until{Running: 2},
				Release{2}, Expect{Name: "new", Want: Want{Run: 2, Cache: "stored"}, Runs: 2}, hit(get("/a"), 2),
				Release{1}, Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}}, hit(get("/a"), 2),
			},
		},
		{
			ID: "lock/invalidate", What: "DESIGN 11: a hard invalidation, in every variant and of no other key",
			Route: fresh(), Origin: Script{Header: []string{"Vary: X-Lang"}},
			Steps: []Step{
				miss(get("/a", "X-Lang: de"), 1), miss(get("/a", "X-Lang: fr"), 2), miss(get("/b"), 3), miss(get("/a?x=1"), 4),
				Invalidate{Target: "/a"},
				hit(get("/b"), 3), hit(get("/a?x=1"), 4), miss(get("/a", "X-Lang: de"), 5), miss(get("/a", "X-Lang: fr"), 6), hit(get("/a", "X-Lang: de"), 5),
				Invalidate{Target: "/nothing"}, hit(get("/b"), 3),
			},
		},
	} {
		cases = append(cases, both(c)...)
	}

	for _, when := range []When{Before, Between, After} {
		for name, script := range map[string]Script{
			"panic":  {Panic: when},
			"goexit": {Goexit: when},
			"abort":  {Abort: when},
		} {
			needs, first := []Capability(nil), Want{Status: 500, Run: -1}
			switch name {
			case "goexit":
				needs, first = []Capability{Goexits}, Want{Cut: true}
			case "abort":
				needs, first = []Capability{Aborts}, Want{Cut: true}
			}
			script.Hold, script.Chunks = true, []string{"one {n} ", "two {n}"}
			then := Script{Chunks: script.Chunks, Hold: true}
			cases = append(cases, both(Case{
				ID:   "lock/" + name + "-" + [...]string{"", "before", "between", "after"}[when],
				What: "golang/go#33519: panic or Goexit in the leader: the others hung, or the process died", Lists: []int{36},
				Needs: needs, Route: fresh(),
				Steps: []Step{
					Does{Next: []Script{script}, Then: then},
					Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
					Start{Name: "losers", Request: get("/a"), N: 6, Spread: true}, Until{Waiting: 6}, Release{1},
					Expect{Name: "winner", Want: first}, Until{Runs: 2, Running: 1}, Release{},
					Expect{Name: "losers", Want: Want{Run: 2, Body: "one 2 two 2", Roles: winner}, Runs: 2}, hit(get("/a"), 2),
				},
			})...)
		}
	}

	return append(cases,
		Case{
			ID: "lock/stores", What: "chenyahui/gin-cache#1: every waiter wrote to the store", Lists: []int{35},
			Route: fresh(), Gates: 2, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 30, Spread: true}, Until{Running: 1, Waiting: 29}, Release{},
				Expect{Name: "all", Want: Want{Run: 1}, Runs: 1}, Stores(1), hit(get("/a").to(1), 1), Stores(1),
			},
		},
		Case{
			ID: "lock/announced", What: "ledgetech/ledge#140, redisson#1763: announced before the subscription was up", Lists: []int{43},
			Route: deaf(), Gates: 2, Cluster: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Start{Name: "loser", Request: get("/a").to(1)}, Until{Waiting: 1}, Entered{}, Release{},
				Expect{Name: "winner", Want: Want{Run: 1}}, Expect{Name: "loser", Want: Want{Run: 1}, Runs: 1},
				Does{}, Rounds{N: 5, Clients: 10},
			},
		},
		told("uncacheable", Script{Header: []string{"Cache-Control: no-store"}}, get("/a")),
		told("failed", Script{Status: 500}, get("/a")),
		told("personal", Script{Header: []string{"Cache-Control: max-age=60"}}, get("/a", "Authorization: a")),
		told("panic", Script{Panic: Between, Chunks: []string{"one {n} ", "two {n}"}}, get("/a")),
		Case{
			ID: "lock/renewed", What: "redisson#7272, redisson#3521, madelson/DistributedLock#169, linagora/cozy-stack#4929: the watchdog outlived the work", Lists: []int{47, 48, 54},
			Route: fresh(core.LockFor(100 * time.Millisecond)), Redis: true,
			Steps: []Step{Rounds{N: 30, Clients: 1}, Quiet{200 * time.Millisecond}},
		},
		Case{
			ID: "lock/renewed-long", What: "redisson#3521, after work that was renewed", Lists: []int{47, 48, 54},
			Route: fresh(core.LockFor(100 * time.Millisecond)), Redis: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Pass(250 * time.Millisecond), TTLs{}, Release{},
				Expect{Name: "winner", Want: Want{Run: 1, Cache: "stored"}}, Quiet{200 * time.Millisecond},
			},
		},
		Case{
			ID: "lock/ttl", What: "spring-data-redis#2598: a lock without TTL", Lists: []int{53},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Hold: true, Header: []string{"Vary: X-Lang"}},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 6, Spread: true}, Until{Running: 1, Waiting: 5}, TTLs{}, Release{},
				Expect{Name: "all", Want: Want{Run: 1}}, TTLs{}, Does{Then: Script{Status: 500}}, Send{Request: get("/b"), Want: Want{Status: 500}}, TTLs{},
				Does{Then: Script{NoStore: true}}, Send{Request: get("/c"), Want: Want{Cache: "!stored"}}, TTLs{}, Invalidate{Target: "/a"}, TTLs{},
			},
		},
		Case{
			ID: "lock/lost", What: "eclipse-leshan/leshan#837, laravel/framework#26213: an expired holder deleted the next one's lock, or overwrote its value", Lists: []int{44, 52},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "old", Request: get("/a")}, Until{Running: 1}, Lose{},
				Start{Name: "new", Request: get("/a").to(1)}, Until{Running: 2},
				Release{1}, Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}}, // it neither stores nor ends the new lock:
				Start{Name: "third", Request: get("/a")}, Until{Waiting: 1}, Pass(100 * time.Millisecond), Until{Runs: 2, Waiting: 1},
				Release{}, Expect{Name: "new", Want: Want{Run: 2, Cache: "stored"}}, Expect{Name: "third", Want: Want{Run: 2}, Runs: 2}, hit(get("/a"), 2),
			},
		},
		Case{
			ID: "lock/lost-late", What: "eclipse-leshan/leshan#837: the expired holder ends last", Lists: []int{44},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "old", Request: get("/a")}, Until{Running: 1}, Lose{},
				Start{Name: "new", Request: get("/a").to(1)}, Until{Running: 2},
				Release{2}, Expect{Name: "new", Want: Want{Run: 2, Cache: "stored"}}, Release{1}, Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}},
				hit(get("/a"), 2), hit(get("/a").to(1), 2),
			},
		},
		Case{
			ID: "lock/overrun", What: "DESIGN 5: a holder that lost its lock still stores when nobody came after it",
			Route: fresh(), Redis: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Lose{}, Release{}, Expect{Name: "winner", Want: Want{Run: 1, Cache: "stored"}}, hit(get("/a"), 1),
			},
		},
		Case{
			ID: "lock/loops", What: "apache/trafficserver#12845: a request that looped between waiting and locking", Lists: []int{55},
			Route: fresh(), Gates: 2, Origin: Script{Status: 500, Body: "sorry {n}"},
			Steps: []Step{
				// Every computation fails. Whoever computed gets its own failure, the others give up in bounded time.
				Start{Name: "all", Request: get("/a"), N: 20, Spread: true},
				Until{Done: 20, Name: "all"}, Until{Idle: true}, Expect{Name: "all", Want: Want{Status: -1, Cache: "!stored !hit"}},
			},
		},
		Case{
			ID: "lock/pool", What: "magento/magento2#22829: waiters filled the worker pool: they hold no connection to Redis", Lists: []int{56},
			Route: fresh(), Gates: 2, Pool: 3, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 100, Spread: true}, Until{Running: 1, Waiting: 99},
				Does{Then: Script{}}, miss(get("/b"), 2), hit(get("/b").to(1), 2), hit(get("/b"), 2),
				Release{}, Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 2},
			},
		},
		Case{
			ID: "lock/hold-cancels", What: "DESIGN 5: HoldCancels makes the hold cap a deadline of the handler",
			Route: fresh(core.LockFor(100*time.Millisecond), core.HoldFor(150*time.Millisecond), core.HoldCancels()), Origin: Script{Chunks: []string{"a", "b"}, HoldContext: true},
			Steps: []Step{
				Start{Name: "hung", Request: get("/a")}, Expect{Name: "hung", Want: Want{Run: 1, Cache: "!stored"}, Runs: 1}, Saw{1, []string{"context done"}},
			},
		},
		Case{
			ID: "lock/no-deadline", What: "DESIGN 5: without it the hold cap does not touch the handler",
			Route: fresh(core.LockFor(100*time.Millisecond), core.HoldFor(100*time.Millisecond)), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "slow", Request: get("/a")}, Until{Running: 1}, Pass(250 * time.Millisecond), Release{},
				Expect{Name: "slow", Want: Want{Run: 1, Cache: "!stored"}, Runs: 1}, Saw{1, []string{"context alive"}},
			},
		},
		Case{
			ID: "lock/waiter-leaves", What: "DESIGN 8: a waiter leaves on its own context",
			Needs: []Capability{SeesLeave}, Route: fresh(), Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Start{Name: "loser", Request: get("/a"), N: 3}, Until{Waiting: 3},
				Leave{Name: "loser", N: 2}, Until{Waiting: 1}, Release{}, Expect{Name: "loser", Want: Want{Run: 1}}, Expect{Name: "winner", Want: Want{Run: 1}, Runs: 1},
			},
		},
		Case{
			ID: "lock/waiter-leaves-fleet", What: "DESIGN 8: with its last waiter the other process's flight ends",
			Needs: []Capability{SeesLeave}, Route: fresh(), Gates: 2, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Start{Name: "loser", Request: get("/a").to(1), N: 2}, Until{Waiting: 2},
				Leave{Name: "loser", N: 2}, Until{Waiting: -1, Running: 1}, Release{}, Expect{Name: "winner", Want: Want{Run: 1}, Runs: 1}, hit(get("/a").to(1), 1),
			},
		},
		Case{
			ID: "lock/placeholder", What: "DESIGN 8: Placeholder; always no-store",
			Route:  fresh(core.WaitFor(250*time.Millisecond), core.Degrade(core.Placeholder(202, http.Header{"X-Hint": {"later"}, "Cache-Control": {"max-age=60"}}, []byte("soon")))),
			Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Send{Request: get("/a"), Want: Want{Status: 202, Body: "soon", Role: core.RoleDegraded, Header: []string{"X-Hint: later"}}, Runs: 1},
				Release{}, Expect{Name: "winner", Want: Want{Run: 1}}, hit(get("/a"), 1),
			},
		},
		Case{
			ID: "lock/over-stale", What: "DESIGN 8: OverStale: a copy beyond its stale window, before a degraded answer",
			Route: []core.RouteOption{core.FreshFor(time.Hour), core.StaleFor(0), core.StaleIfError(0), core.WaitFor(250 * time.Millisecond),
				core.Degrade(core.OverStale(time.Hour), core.Placeholder(202, nil, nil))},
			Origin: soon(Script{}),
			Steps: []Step{
				miss(get("/a"), 1), Pass(60 * time.Millisecond), Does{Then: Script{Hold: true}}, Start{Name: "winner", Request: get("/a")}, Until{Running: 1},
				Send{Request: get("/a"), Want: Want{Run: 1, Role: core.RoleStale, Cache: "hit detail=wait"}, Runs: 2},
				Start{Name: "other", Request: get("/b")}, Until{Running: 2}, Send{Request: get("/b"), Want: Want{Status: 202, Role: core.RoleDegraded}, Runs: 3}, Release{},
			},
		},
		Case{
			ID: "lock/nested", What: "DESIGN 4: the inner of two Caches of one gate passes through",
			Route: fresh(), Caches: 2, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10}, Until{Running: 1, Waiting: 9}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 1}, hit(get("/a"), 1),
				Does{Then: Script{NoStore: true}}, Send{Request: get("/b"), Want: Want{Run: 2}}, Send{Request: get("/b"), Want: Want{Run: 3}},
				Does{Then: Script{}}, Send{Request: do("POST", "/a"), Want: Want{Run: 4, Cache: "fwd=method"}},
				miss(get("/c"), 5), Send{Request: get("/c"), Want: Want{Run: 5, Role: core.RoleHit, Cache: "hit !detail"}},
			},
		},
		Case{
			ID: "lock/closed", What: "DESIGN 13: after Close the middleware passes through",
			Route: fresh(),
			Steps: []Step{miss(get("/a"), 1), Close{}, bypass(get("/a"), 2, "closed"), bypass(get("/b"), 3, "closed")},
		},
		Case{
			ID: "lock/invalidate-by", What: "DESIGN 11: routes with KeyBy are invalidated by the value",
			Route: fresh(), KeyBy: "X-Tenant",
			Steps: []Step{
				miss(get("/a", "X-Tenant: a"), 1), miss(get("/a", "X-Tenant: b"), 2), Invalidate{Target: "/a", By: "a"},
				miss(get("/a", "X-Tenant: a"), 3), hit(get("/a", "X-Tenant: b"), 2),
			},
		},
		Case{
			ID: "lock/invalidated-elsewhere", What: "FusionCache#628: invalidated by another process during the computation", Lists: []int{65},
			Route: fresh(), Gates: 2, Cluster: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "old", Request: get("/a")}, Until{Running: 1}, Invalidate{Target: "/a", At: 1}, Release{},
				Expect{Name: "old", Want: Want{Run: 1, Cache: "!stored"}}, miss(get("/a"), 2), hit(get("/a").to(1), 2),
				Invalidate{Target: "/a", At: 1}, miss(get("/a"), 3),
			},
		},
	)
}

// deaf are options of a route whose losers learn of the end of a computation by its announcement, or not in the time that a case may take.
func deaf(more ...core.RouteOption) []core.RouteOption {
	return fresh(append(more, core.PollEvery(time.Minute, time.Minute), core.LockFor(time.Minute), core.HoldFor(2*time.Minute), core.WaitFor(time.Minute))...)
}

// told is a computation that ends in nothing for others, and a loser in another process that is told so and computes for itself.
func told(how string, script Script, winner Request) Case {
	script.Hold = true
	return Case{
		ID: "lock/announced-" + how, What: "DESIGN 5: the announcement says why the lock ended, and losers act on it at once", Lists: []int{43},
		Route: deaf(), Gates: 2, Cluster: true,
		Steps: []Step{
			// After this the process listens: it looks again by itself when its subscription has come up.
			Does{Next: []Script{{Hold: true}, script}}, Start{Name: "first", Request: get("/warm")}, Until{Running: 1},
			Start{Name: "listens", Request: get("/warm").to(1)}, Until{Waiting: 1}, Entered{}, Release{1}, Expect{Name: "listens", Want: Want{Run: 1}},

			Start{Name: "winner", Request: winner}, Until{Running: 1},
			Start{Name: "losers", Request: get("/a").to(1), N: 3}, Until{Waiting: 3}, Entered{}, Release{2},
			Expect{Name: "winner", Want: Want{Status: -1}}, Expect{Name: "losers", Want: Want{Status: 200}},
		},
	}
}

// many starts a request for each of n keys, manyDone waits for them.
func many(n int) (steps []Step) {
	for i := range n {
		steps = append(steps, Start{Name: string(rune('a' + i)), Request: get("/" + string(rune('a'+i)))})
	}
	return steps
}

func manyDone(n int) (steps []Step) {
	for i := range n {
		steps = append(steps, Expect{Name: string(rune('a' + i)), Want: Want{Cache: "fwd"}, Runs: n})
	}
	return steps
}
