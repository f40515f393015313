package core

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// pulledBy reads one key to its end.
func pulledBy(ctx context.Context, c *guarded, key string) fetched {
	w := want{key: key, end: -1}
	c.fetch(ctx, &w)
	return w.got
}

// Who comes before a batch is closed is in it; who comes after that, or when it is full, makes the next.
func TestBatches(t *testing.T) {
	var s batches
	wants := make([]*want, batchSize+2)
	joined := make([]*batch, len(wants))
	for i := range wants {
		wants[i] = &want{key: fmt.Sprint(i)}
		var leads bool
		joined[i], leads = s.join(wants[i])
		if leads != (i == 0 || i == batchSize) {
			t.Errorf("want %d leads: %v", i, leads)
		}
	}
	full, next := joined[0], joined[batchSize]
	if len(full.wants) != batchSize || len(next.wants) != 2 {
		t.Errorf("batches of %d and %d", len(full.wants), len(next.wants))
	}
	s.close(full)
	if b, _ := s.join(&want{}); b != next {
		t.Error("closing the full batch closed the next")
	}
	s.close(next)
	if b, leads := s.join(&want{}); b == next || !leads {
		t.Error("joined a batch that was closed")
	}
	for i, w := range wants {
		if !w.sent.Load() {
			t.Errorf("want %d could still be shared", i)
		}
	}
}

// batchOf has what is wanted asked for in one pipeline, which nobody else joins.
func batchOf(ctx context.Context, c *guarded, wants ...*want) {
	b := &batch{wants: wants}
	c.send(ctx, c.nodeOf(ctx, wants[0].key), b)
}

// Each want gets what belongs to it, in whatever company: values, nothing, another kind of value, a key beside it.
func TestBatchKeepsResultsApart(t *testing.T) {
	for name, nodes := range map[string]func(*testing.T) redis.UniversalClient{
		"one node": func(t *testing.T) redis.UniversalClient { return redistest.Shared(t).Client() },
		"cluster":  func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			raw := nodes(t)
			client, _, end, err := bounded(raw, newTroubles())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = end() }()
			ns := unique("batch")
			var wants []*want
			for i := range batchSize { // over all nodes: the client does not know yet which is where
				w := &want{key: fmt.Sprintf("%s:{%d}", ns, i), end: 5}
				var err error
				switch i % 4 {
				case 0:
					err = raw.Set(t.Context(), w.key, fmt.Sprintf("%05d, and more", i), time.Minute).Err()
				case 1:
					w.beside = w.key + ":beside"
					err = errors.Join(raw.Set(t.Context(), w.key, fmt.Sprintf("%05d, and more", i), time.Minute).Err(),
						raw.Set(t.Context(), w.beside, i, time.Minute).Err())
				case 2:
					err = raw.SAdd(t.Context(), w.key, "another kind").Err()
				}
				if err != nil {
					t.Fatal(err)
				}
				wants = append(wants, w)
			}
			batchOf(t.Context(), client, wants...)
			for i, w := range wants {
				got, err := w.got.value.Result()
				switch i % 4 {
				case 0, 1:
					if want := fmt.Sprintf("%05d,", i); got != want || err != nil {
						t.Errorf("%d: %q, %v", i, got, err)
					}
				case 2:
					if !isWrongType(err) {
						t.Errorf("%d: %q, %v", i, got, err)
					}
				case 3:
					if got != "" || err != nil {
						t.Errorf("%d: %q, %v", i, got, err)
					}
				}
				if i%4 == 1 && w.got.beside.Val() != fmt.Sprint(i) {
					t.Errorf("%d: beside it %q", i, w.got.beside.Val())
				}
			}
		})
	}
}

// Slots have moved, and the client does not know it yet: each read of a batch is answered by where its key is now.
func TestBatchFollowsItsSlots(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	client, nodes, end, err := bounded(cluster.Client(), newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	var wants []*want
	for i := range batchSize {
		wants = append(wants, &want{key: fmt.Sprint("key-", i), end: -1})
	}
	warm := &want{key: wants[0].key, end: -1}
	if batchOf(t.Context(), client, warm); warm.got.err() != nil {
		t.Fatal(warm.got.err())
	}
	cluster.Empty(1, 2)
	raw := cluster.Client()
	for _, w := range wants {
		if err := raw.Set(t.Context(), w.key, w.key, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	batchOf(ctx, client, wants...)
	for _, w := range wants {
		if got, err := w.got.value.Result(); got != w.key || err != nil {
			t.Errorf("%s is %q, %v", w.key, got, err)
		}
	}
	for _, n := range nodes() {
		if got := n.reads.circuit.State().String(); got != "closed" {
			t.Errorf("reads of %s are %s", n.name, got)
		}
	}
}

// A batch that fails is one failure, and those after it are of one read each, for a while: what is slow shows by itself.
func TestFailedBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var slow atomic.Bool
		slow.Store(true)
		var pulls []int
		client, n := readsBy(true, func(ctx context.Context, wants []*want) pulled {
			pulls = append(pulls, len(wants))
			if slow.Load() {
				<-ctx.Done()
				return failedPull(len(wants), ctx.Err())
			}
			return answeredPull(wants)
		})
		read := func(count int) {
			ctx, cancel := context.WithTimeout(t.Context(), readBudget)
			defer cancel()
			var wants []*want
			var led []*batch
			for i := range count {
				w := &want{key: fmt.Sprint(i)}
				wants = append(wants, w)
				if b, leads := n.batches.join(w); leads {
					led = append(led, b)
				}
			}
			for _, b := range led {
				client.send(ctx, n, b)
			}
			for _, w := range wants {
				if err := w.got.err(); slow.Load() != timedOut(err) {
					t.Errorf("%s: %v", w.key, err)
				}
			}
		}
		read(batchSize)
		if got := n.reads.circuit.Counts().ConsecutiveFailures; got != 1 {
			t.Errorf("%d failures, want 1", got)
		}
		slow.Store(false)
		read(3)
		time.Sleep(apartFor)
		read(3)
		time.Sleep(time.Millisecond)
		read(3)
		if want := []int{batchSize, 1, 1, 1, 1, 1, 1, 3}; !slices.Equal(pulls, want) {
			t.Errorf("reads in each pipeline: %v, want %v", pulls, want)
		}
	})
}

// What a probe repeats is the first read that got no answer.
func TestUnanswered(t *testing.T) {
	answered := redis.NewStringResult("an answer", nil)
	lost := redis.NewStringResult("", context.DeadlineExceeded)
	for _, row := range []struct {
		of   pulled
		want int
	}{
		{pulled{{value: answered}, {value: lost}, {value: lost}}, 1},
		{pulled{{value: answered}, {value: answered, beside: lost}}, 1},
		{pulled{{value: answered}}, 0}, // but too late
		{pulled{{value: lost}, {value: lost}, {value: lost}}, 0},
	} {
		if got := row.of.unanswered(); got != row.want {
			t.Errorf("the first of %v without an answer: %d, want %d", row.of, got, row.want)
		}
	}
}

// A value that is too large for the network does not take the others along.
func TestSlowValueIsSlowAlone(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	p := processOn(t, server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), unique("large"))
	var o origin
	large := strings.Repeat("x", 64<<10)
	eventually(t, func() bool { return get("/large", o.answers(0, large)).send(p.serve).out.Role == RoleHit })
	small := func(i int) *visit { return get(fmt.Sprint("/small-", i), o.answers(0, "small")) }
	const others, rounds = 10, 2 * breakAfter
	for i := range others {
		eventually(t, func() bool { return small(i).send(p.serve).out.Role == RoleHit })
	}
	proxy.Limit(128 << 10)
	hits := 0
	for range rounds {
		for i, v := range herd(others+1, p.serve, func(i int) *visit {
			if i == 0 { // it comes first: the others are behind it
				return get("/large", o.answers(0, large))
			}
			return small(i - 1)
		}) {
			if i > 0 && v.out.Role == RoleHit {
				hits++
			}
		}
	}
	if hits < others*rounds/2 { // all but those of the first round, on a machine that has nothing else to do
		t.Errorf("%d hits of %d", hits, others*rounds)
	}
	if got := p.state("reads"); got != "closed" {
		t.Errorf("reads are %s", got)
	}
}

// pulls is a client that answers reads as a test says.
type pulls struct {
	redisClient
	pulled func(ctx context.Context, wants []*want) pulled
}

func (p pulls) pull(ctx context.Context, wants []*want) pulled { return p.pulled(ctx, wants) }

// readsBy is a client in front of a single node whose reads are answered like that.
func readsBy(prompt bool, answer func(ctx context.Context, wants []*want) pulled) (*guarded, *node) {
	n := newNode("node", prompt, newTroubles())
	return &guarded{redisClient: pulls{pulled: answer}, nodeOf: func(context.Context, string) *node { return n }}, n
}

func answeredPull(wants []*want) pulled {
	p := make(pulled, len(wants))
	for i, w := range wants {
		p[i].value = redis.NewStringResult(w.key, nil)
	}
	return p
}

// Whoever comes when a batch may be under way must not share what it brings.
func TestBatchIsSentBeforeItIsPulled(t *testing.T) {
	client, _ := readsBy(true, func(_ context.Context, wants []*want) pulled {
		for _, w := range wants {
			if !w.sent.Load() {
				t.Errorf("%s is under way, and could still be shared", w.key)
			}
		}
		return answeredPull(wants)
	})
	batchOf(t.Context(), client, &want{key: "a"}, &want{key: "b"})
}

// The client of who leads may leave: the others have what they want, within the budget of a read.
func TestBatchOutlivesItsLeader(t *testing.T) {
	client, _ := readsBy(true, func(ctx context.Context, wants []*want) pulled {
		if until, limited := ctx.Deadline(); !limited || time.Until(until) > readBudget {
			t.Errorf("it may take until %v, %v", until, limited)
		}
		if ctx.Err() != nil {
			return failedPull(len(wants), ctx.Err())
		}
		return answeredPull(wants)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := want{key: "key"}
	if client.fetch(ctx, &w); w.got.err() != nil {
		t.Error(w.got.err())
	}
}

// A probe makes one read, the first that was not answered. It holds on neither to the others nor to what was read.
func TestProbeMakesOneReadOfABatch(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			var probed [][]*want
			var sent []*want
			client, n := readsBy(prompt, func(ctx context.Context, wants []*want) pulled {
				if n := len(sent); n == 0 || wants[0] != sent[0] {
					probed = append(probed, wants)
					return answeredPull(wants)
				}
				<-ctx.Done()
				p := failedPull(len(wants), ctx.Err())
				answered := redis.NewStringResult("answered", nil)
				p[0] = fetched{answered, answered}
				return p
			})
			ctx, cancel := context.WithTimeout(t.Context(), readBudget)
			defer cancel()
			for i := range 3 {
				sent = append(sent, &want{key: fmt.Sprint(i), end: int64(i), beside: fmt.Sprint("beside ", i)})
			}
			for range breakAfter - 1 { // others had failed before
				done, _ := n.reads.circuit.Allow()
				done(context.DeadlineExceeded)
			}
			batchOf(ctx, client, sent...)
			time.Sleep(probeEvery + time.Millisecond)
			if err := pulledBy(t.Context(), client, "in its place").err(); !errors.Is(err, errNotAsked) {
				t.Errorf("the read in whose place the probe went out: %v", err)
			}
			synctest.Wait()
			if len(probed) != 1 || len(probed[0]) != 1 || cap(probed[0]) != 1 {
				t.Fatalf("probed %v, want one read", probed)
			}
			again, first := probed[0][0], sent[0]
			if prompt { // what was answered before the time was over is known
				first = sent[1]
			}
			if again == first || again.key != first.key || again.end != first.end || again.beside != first.beside {
				t.Errorf("probed %+v, want a copy of %+v", again, first)
			}
			if got := n.reads.circuit.State().String(); got != "closed" {
				t.Errorf("reads are %s after the probe was answered", got)
			}
			time.Sleep(callFor) // an abandoned call goes on so long
		})
	}
}

// A server that lets nobody in has answered no read: "nothing is stored" is not what it said.
func TestBatchWithAWrongPassword(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	client, _, _, err := bounded(server.Client(func(o *redis.Options) { o.Password = "wrong" }), newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	var wants []*want
	for i := range breakAfter {
		wants = append(wants, &want{key: fmt.Sprint(i), end: -1})
	}
	batchOf(t.Context(), client, wants...)
	for _, w := range wants {
		if err := w.got.err(); !isReply(err) {
			t.Errorf("%s: %v", w.key, err)
		}
	}
	if got := client.nodeOf(t.Context(), "").reads.circuit.Counts().ConsecutiveFailures; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
}

// A hook of the user's that panics is one more fault below us: no slot is lost, no request and no process ends, and reads go on when it
// has stopped. One that ends its goroutine does that to the request that leads; those who wait have an error.
func TestHooksThatDoNotReturn(t *testing.T) {
	for name, c := range map[string]struct {
		prompt bool
		ends   func()
		want   error
	}{
		"panic":                            {true, func() { panic("a hook") }, errPanicked},
		"panic, on a goroutine of its own": {false, func() { panic("a hook") }, errPanicked},
		"Goexit":                           {true, runtime.Goexit, errNotAsked},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var well atomic.Bool
				client, n := readsBy(c.prompt, func(_ context.Context, wants []*want) pulled {
					if !well.Load() {
						c.ends()
					}
					return answeredPull(wants)
				})
				for range 2 * callSlots {
					first, second := &want{key: "first"}, &want{key: "second"}
					n.batches.apart = time.Time{}
					b, _ := n.batches.join(first)
					n.batches.join(second)
					go client.send(t.Context(), n, b)
					<-b.done
					for _, w := range []*want{first, second} {
						if err := w.got.err(); !errors.Is(err, c.want) && !errors.Is(err, errNotAsked) {
							t.Fatalf("%s: %v", w.key, err)
						}
					}
					if n.reads.circuit.State().String() != "closed" {
						time.Sleep(probeEvery + time.Millisecond) // the next is a probe
					}
				}
				well.Store(true)
				for pulledBy(t.Context(), client, "key").err() != nil {
					if time.Sleep(probeEvery); t.Context().Err() != nil {
						t.Fatal("no answer any more")
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := client.close(ctx, []*node{n}); err != nil {
					t.Errorf("slots are taken: %v", err)
				}
			})
		})
	}
}

// panics is a hook of the user's that does.
type panics struct{ now bool }

func (p *panics) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panics) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p.now {
			panic("a hook")
		}
		return next(ctx, cmd)
	}
}

func (p *panics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.now {
			panic("a hook")
		}
		return next(ctx, cmds)
	}
}

// The same through go-redis, by either kind of hook.
func TestPanicOfAHook(t *testing.T) {
	hook := &panics{}
	client, _, _, err := bounded(redistest.Shared(t).Client(), newTroubles(), func(own redis.UniversalClient) error {
		own.AddHook(hook)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hook.now = true
	first, second := &want{key: unique("panic"), end: -1}, &want{key: unique("panic"), end: -1}
	batchOf(t.Context(), client, first, second)
	for _, err := range []error{first.got.err(), second.got.err(), pulledBy(t.Context(), client, first.key).err()} {
		if !errors.Is(err, errPanicked) {
			t.Error(err)
		}
	}
	hook.now = false
	if err := pulledBy(t.Context(), client, first.key).err(); err != nil {
		t.Error(err)
	}
}
