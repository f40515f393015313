package core

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// What is stored and cannot be read is computed once in this process, as without Redis: it neither is stored again nor ends
// in a 503.
func TestUnreadableEntryIsComputed(t *testing.T) {
	server := redistest.Shared(t)
	ns := unique("unread")
	proxy := redistest.StartProxy(t, server.Addr)
	a := processOn(t, server.Client(), ns)
	b := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), ns)
	var stored, alone origin
	kept := func() bool {
		v := get("/", stored.answers(0, "stored")).send(a.serve)
		return v.out.Role == RoleHit && v.body == "stored"
	}
	eventually(t, kept)
	proxy.DropReplies(-1, redistest.Command("getrange"))
	entered, goOn := make(chan struct{}), make(chan struct{})
	handler := alone.handles(func(_ context.Context, p *page) {
		entered <- struct{}{}
		<-goOn
		p.write(200, "alone")
	})
	first := get("/", handler)
	done := []<-chan struct{}{first.start(b.serve)}
	visits := []*visit{first}
	<-entered
	for range 10 { // they find it computing
		v := get("/", handler)
		visits, done = append(visits, v), append(done, v.start(b.serve))
	}
	eventually(t, func() bool { return b.gate.Stats().Waiting == 10 || alone.runs() > 1 })
	close(goOn)
	go func() {
		for range entered { // nobody, if all is well
		}
	}()
	for _, c := range done {
		<-c
	}
	close(entered)
	for _, v := range visits {
		if v.status != 200 || v.body != "alone" {
			t.Errorf("%d %q as %s %s", v.status, v.body, v.out.Role, v.out.Detail)
		}
		if v.out.Role == RoleWinner && v.out.Cause != string(causeNoRedis) {
			t.Errorf("computed because of %s", v.out.Cause)
		}
	}
	if n := alone.runs(); n != 1 {
		t.Errorf("%d computations in one process, want 1", n)
	}
	get("/", stored.answers(0, "never")).send(a.serve).want(t, RoleHit, "stored")
	proxy.Pass()
	eventually(t, func() bool { return get("/", alone.answers(0, "alone")).send(b.serve).body == "stored" })
}

// A Redis that falls silent while the handler runs delays the response by the budget for storing.
func TestSilenceBeforeFinish(t *testing.T) {
	for name, control := range map[string]string{"stored": "max-age=60", "not cacheable": "no-store"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Shared(t)
			proxy := redistest.StartProxy(t, server.Addr)
			p := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), unique("finish"), LockFor(time.Second))
			v := get("/", func(_ context.Context, p *page) {
				proxy.BlackHole()
				p.header.Set("Cache-Control", control)
				p.write(200, "body")
			}).send(p.serve)
			if v.want(t, RoleWinner, "body"); v.took > finishBudget+aSlack {
				t.Errorf("it took %v", v.took)
			}
			proxy.Pass()
		})
	}
}
