package core

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// A connection that is silent for good looks like one on which nothing happens: the inbox asks, at once when it has reason to and
// now and then without, and subscribes anew if there is no answer.
func TestDeafInboxSubscribesAnew(t *testing.T) {
	for name, doubts := range map[string]bool{"in doubt": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			proxy := redistest.StartProxy(t, server.Addr)
			ns := unique("deaf")
			b := newInbox(direct{server.Client(func(o *redis.Options) { o.Addr = proxy.Addr })}, ns+":inbox:", ns+":invalidations", newTroubles())
			heard := make(chan string, 10)
			b.deliver = func(loc string, why result) { heard <- string(why) + " " + loc }
			b.start()
			t.Cleanup(func() {
				if err := b.close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			hears := func(want string) {
				t.Helper()
				select {
				case got := <-heard:
					if got != want {
						t.Errorf("heard %q, want %q", got, want)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("never heard %q", want)
				}
			}
			hears("gave-up ") // subscribed
			first := *b.name.Load()
			hold := proxy.HoldRequests(1, redistest.Command("ping"))
			within := 20 * time.Second
			if doubts {
				b.doubt()
				within = pingAfter - time.Second // it would ask then in any case
			}
			select {
			case <-hold.Held():
			case <-time.After(within):
				t.Fatal("it does not ask")
			}
			hears("gave-up ")
			second := *b.name.Load()
			if second == first || !strings.HasPrefix(second, ns+":inbox:") {
				t.Errorf("it was %q and is %q", first, second)
			}
			server.Do("PUBLISH", second, "stored there")
			hears("stored there")
		})
	}
}

// A waiter that finds out by polling that the lock has ended tells the inbox that it may be deaf.
func TestMissedAnnouncementIsNoticed(t *testing.T) {
	server := redistest.Shared(t)
	ns := unique("missed")
	a, b := processOn(t, server.Client(), ns), processOn(t, server.Client(), ns)
	inbox := b.gate.backend.(*redisBackend).inbox
	inbox.once.Do(func() {}) // hears nothing
	var o origin
	goOn := make(chan struct{})
	winner := get("/", o.handles(func(_ context.Context, p *page) { <-goOn; p.write(200, "body") }))
	done := winner.start(a.serve)
	eventually(t, func() bool { return o.runs() == 1 })
	loser := get("/", o.answers(0, "never"))
	answered := loser.start(b.serve)
	eventually(t, func() bool { return server.Do("EXISTS", b.base("/")+":wait") == int64(1) })
	if len(inbox.missed) != 0 {
		t.Error("missed while the lock was held")
	}
	close(goOn)
	<-done
	<-answered
	loser.want(t, RoleRemoteWaiter, "body")
	if len(inbox.missed) != 1 {
		t.Error("nobody noticed")
	}
}

// Polls slow down while one computation goes on, and begin anew with the next: what a waiter waited for has ended, and
// nobody said so.
func TestPollsBeginAnewWithAnotherHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o origin
		s := &spy{backend: memoryFor(t)}
		holders := []string{"a", "a", "a", "b", "b"}
		var polls []time.Time
		s.onAcquire = func(ctx context.Context, q query) (answer, error) {
			polls = append(polls, time.Now())
			if n := len(polls); n <= len(holders) {
				return answer{state: stateHeld, remains: time.Second, holder: holders[n-1]}, nil
			}
			return s.backend.acquire(ctx, q)
		}
		serve := gateOn(t, opens{s}).Mount(FreshFor(time.Minute))
		get("/", o.answers(0, "body")).send(serve).want(t, RoleWinner, "body")
		synctest.Wait()
		low, high := 20*time.Millisecond, 50*time.Millisecond
		for i, grown := range []int{1, pollGrowth, 0, 1, pollGrowth} {
			pause := polls[i+1].Sub(polls[i])
			if grown == 0 && pause != pollCeiling || grown > 0 && (pause < time.Duration(grown)*low || pause > time.Duration(grown)*high) {
				t.Errorf("pause %d, with holder %s: %v", i+1, holders[i], pause)
			}
		}
	})
}

// dials is a hook of the user's that panics when a connection is made.
type dials struct {
	panics
	tries atomic.Int64
	now   atomic.Bool
}

func (d *dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if d.tries.Add(1); d.now.Load() {
			panic("a hook")
		}
		return next(ctx, network, addr)
	}
}

// A hook of the user's that panics ends neither the process nor the inbox: it subscribes when that has stopped.
func TestInboxOutlivesAHookThatPanics(t *testing.T) {
	server := redistest.Shared(t)
	proxy := redistest.StartProxy(t, server.Addr)
	hook := &dials{}
	client := server.Client(func(o *redis.Options) { o.Addr = proxy.Addr })
	client.AddHook(hook)
	ns := unique("panics")
	b := newInbox(direct{client}, ns+":inbox:", ns+":invalidations", newTroubles())
	heard := make(chan string, 10)
	b.deliver = func(loc string, why result) { heard <- string(why) + " " + loc }
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.close(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, breaks := range []func(){b.start, proxy.CutAll} {
		hook.now.Store(true)
		breaks()
		was := hook.tries.Load()
		eventually(t, func() bool { return hook.tries.Load() > was })
		hook.now.Store(false)
		select {
		case <-heard: // subscribed
		case <-time.After(10 * time.Second):
			t.Fatal("it does not subscribe any more")
		}
	}
}

// An inbox that is entered again is in the list once.
func TestInboxIsListedOnce(t *testing.T) {
	server := redistest.Shared(t)
	p := testPlace("listed")
	one, two := opened(t, Redis(server.Client(), "one")).(*redisBackend), opened(t, Redis(server.Client(), "two")).(*redisBackend)
	ask(t, one, query{lease: testLease(p)})
	var want []string
	for _, b := range []*redisBackend{one, two} {
		b.inbox.once.Do(func() {}) // hears nothing
		want = append(want, *b.inbox.name.Load())
	}
	for _, b := range []*redisBackend{one, two, one, two} {
		if a := ask(t, b, query{lease: testLease(p), waits: true}); a.state != stateHeld {
			t.Fatalf("%+v", a)
		}
	}
	if got := server.Do("GET", p.loc()+":wait"); got != strings.Join(want, "\n") {
		t.Errorf("%q wait, want %q", got, want)
	}
}
