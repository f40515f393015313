package conformance

import (
	"time"

	"github.com/herdgate/herdgate/core"
)

// redisCases are about what is in Redis, and about Redis failing: DESIGN 5, 7 and 10.
func redisCases() []Case {
	winner := map[core.Role]int{core.RoleWinner: 1}
	corrupt := forEach([]Corrupt{"garbage", "cut", "flipped", "swapped", "empty", "type"}, func(how Corrupt) Case {
		return Case{
			ID: "redis/corrupt", What: "ContentSquare/chproxy#222: garbage in Redis broke every request", Lists: []int{24},
			Route: fresh(), Redis: true, Cluster: true,
			Steps: []Step{miss(get("/a"), 1), miss(get("/b"), 2), how, miss(get("/a"), 3), hit(get("/a"), 3), miss(get("/b"), 4), hit(get("/b"), 4)},
		}
	})
	return append(corrupt,
		Case{
			ID: "redis/version", What: "entries of another version of the format are a miss", Lists: []int{14},
			Route: fresh(), Redis: true, Cluster: true,
			Steps: []Step{miss(get("/a"), 1), Corrupt("version"), miss(get("/a"), 2), hit(get("/a"), 2)},
		},
		Case{
			ID: "redis/corrupt-vary", What: "ContentSquare/chproxy#222, with variants", Lists: []int{24},
			Route: fresh(), Redis: true, Origin: Script{Header: []string{"Vary: X-Lang"}, Body: "{n} {X-Lang}"},
			Steps: []Step{
				miss(get("/a", "X-Lang: de"), 1), miss(get("/a", "X-Lang: fr"), 2), Corrupt("swapped"),
				miss(get("/a", "X-Lang: de"), 3), miss(get("/a", "X-Lang: fr"), 4), hit(get("/a", "X-Lang: de"), 3), hit(get("/a", "X-Lang: fr"), 4),
			},
		},
		Case{
			ID: "redis/script-flush", What: "redis/go-redis#3228: NOSCRIPT after a flush, during a computation",
			Route: fresh(), Gates: 2, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 10, Spread: true}, Until{Running: 1, Waiting: 9}, Flush{}, Release{},
				Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 1}, Flush{}, hit(get("/a").to(1), 1), Flush{}, miss(get("/b"), 2),
			},
		},
		Case{
			ID: "redis/down", What: "ContentSquare/chproxy#390: busy and down were treated alike: without Redis a process collapses for itself", Lists: []int{42},
			Route: fresh(), Network: true,
			Steps: []Step{
				miss(get("/a"), 1), Network("refuse"), Does{Then: Script{Hold: true}},
				Start{Name: "all", Request: get("/b"), N: 10}, Until{Running: 1, Waiting: 9}, Release{},
				Expect{Name: "all", Want: Want{Run: 2, Roles: winner, Cache: "!stored"}, Runs: 2}, Until{Idle: true},
				Network("pass"), Again{Request: get("/c"), Want: Want{Status: 200}, Runs: 3}, Until{Idle: true},
			},
		},
		Case{
			ID: "redis/busy", What: "ContentSquare/chproxy#390: while somebody computes, the others wait", Lists: []int{42},
			Route: fresh(), Gates: 2, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "winner", Request: get("/a")}, Until{Running: 1}, Start{Name: "loser", Request: get("/a").to(1), N: 5}, Until{Waiting: 5},
				Pass(200 * time.Millisecond), Until{Runs: 1, Waiting: 5}, Release{}, Expect{Name: "loser", Want: Want{Run: 1, Role: core.RoleRemoteWaiter}, Runs: 1},
			},
		},
		Case{
			ID: "redis/silent", What: "DESIGN 2: no fault of Redis becomes an error of ours", Lists: []int{42},
			Route: fresh(), Network: true,
			Steps: []Step{
				miss(get("/a"), 1), Network("silent"), Send{Request: get("/b"), N: 5, Want: Want{Cache: "!stored"}},
				Network("pass"), Until{Idle: true}, Again{Request: get("/c"), Want: Want{Status: 200}, Runs: 3},
			},
		},
		Case{
			ID: "redis/renewal-lost", What: "redisson#775: one failed renewal ended the watchdog", Lists: []int{49},
			Route: fresh(core.LockFor(400*time.Millisecond), core.PollEvery(10*time.Millisecond, 20*time.Millisecond)), Gates: 2, Network: true, Origin: Script{Hold: true},
			Steps: []Step{
				Start{Name: "all", Request: get("/a"), N: 6, Spread: true}, Until{Running: 1, Waiting: 5}, Network("lose renewal"), Pass(1200 * time.Millisecond),
				Until{Runs: 1}, Release{}, Expect{Name: "all", Want: Want{Run: 1, Roles: winner}, Runs: 1},
			},
		},
		Case{
			ID: "redis/acquire-lost", What: "DESIGN 5: the reply to an acquire is lost: the lock is ours all the same, or is cleaned up",
			Route: fresh(), Gates: 2, Network: true,
			Steps: []Step{
				miss(get("/warm"), 1), hit(get("/warm").to(1), 1), Network("lose acquire"), Send{Request: get("/a"), Want: Want{Run: 2}, Runs: 2}, Until{Idle: true},
				Again{Request: get("/b"), Want: Want{Status: 200}, Runs: 3},
			},
		},
		Case{
			ID: "redis/finish-lost", What: "DESIGN 5: the reply to a finish is lost: sent again, it finds its own entry",
			Route: fresh(), Gates: 2, Network: true,
			Steps: []Step{
				miss(get("/warm"), 1), hit(get("/warm").to(1), 1), Network("lose finish"), Send{Request: get("/a"), Want: Want{Run: 2}, Runs: 2}, Until{Idle: true}, hit(get("/a").to(1), 2),
			},
		},
		Case{
			ID: "redis/cancelled-acquire", What: "redis/rueidis#1010: a cancel during acquire leaked the lock", Lists: []int{51},
			Route: fresh(), Network: true,
			Steps: steps([]Step{miss(get("/warm"), 1), Network("slow")}, leavers(20), []Step{Until{Idle: true}, Network("pass"), Quiet{50 * time.Millisecond}}),
		},
		Case{
			ID: "redis/slow-keys", What: "gofiber/fiber#4358: with a slow Redis, no key waits for another", Lists: []int{70},
			Route: fresh(), Network: true, Origin: Script{Hold: true},
			Steps: steps([]Step{Network("slow")}, many(20), []Step{Until{Running: 20}, Release{}}, manyDone(20)),
		},
	)
}

// leavers are clients that leave while their request is on its way.
func leavers(n int) (steps []Step) {
	for i := range n {
		name := string(rune('a' + i))
		steps = append(steps, Start{Name: name, Request: get("/" + name), N: 3}, Pass(time.Duration(i)*time.Millisecond), Leave{Name: name})
	}
	return steps
}
