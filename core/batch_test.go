package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// pulledBy reads one key to its end.
func pulledBy(ctx context.Context, c *guarded, key string) got {
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

// Reads that fail together count as many failures, and what a probe repeats is the first that got no answer, alone.
func TestFailedBatch(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client, _, _, err := bounded(server.Client(func(o *redis.Options) { o.Addr = proxy.Addr }), newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readBudget)
	defer cancel()
	proxy.BlackHole()
	var wants []*want
	for i := range breakAfter {
		wants = append(wants, &want{key: fmt.Sprint(i), end: -1})
	}
	batchOf(ctx, client, wants...)
	for _, w := range wants {
		if !timedOut(w.got.err()) {
			t.Errorf("%s: %v", w.key, w.got.err())
		}
	}
	reads := &client.nodeOf(ctx, "").reads
	if got := reads.circuit.State().String(); got != "open" {
		t.Errorf("reads are %s after %d failures", got, breakAfter)
	}

	answered := redis.NewStringResult("an answer", nil)
	lost := redis.NewStringResult("", context.DeadlineExceeded)
	for _, row := range []struct {
		of            pulled
		first, others int
	}{
		{pulled{{value: answered}, {value: lost}, {value: lost}}, 1, 1},
		{pulled{{value: answered}, {value: answered, beside: lost}}, 1, 0},
		{pulled{{value: answered}}, 0, 0}, // but too late
		{pulled{{value: lost}, {value: lost}, {value: lost}}, 0, 2},
	} {
		if first, others := row.of.unanswered(); first != row.first || others != row.others {
			t.Errorf("unanswered: %d and %d, want %d and %d", first, others, row.first, row.others)
		}
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

// A hook that panics does so on the request that leads. Those who wait for it have an error, and the next read is asked again.
func TestPanicOfAHook(t *testing.T) {
	hook := &panics{}
	raw := redistest.Shared(t).Client()
	raw.AddHook(hook)
	client, _, _, err := bounded(raw, newTroubles())
	if err != nil {
		t.Fatal(err)
	}
	key := unique("panic")
	if got := pulledBy(t.Context(), client, key); got.err() != nil {
		t.Fatal(got.err())
	}
	hook.now = true
	var r reads
	read := func(ctx context.Context, loc string, w *want) (stored, error) {
		w.key, w.end = loc, -1
		other := &want{key: key + "-other", end: -1}
		var all sync.WaitGroup
		defer func() {
			all.Wait()
			if !errors.Is(other.got.err(), errNotAsked) {
				t.Errorf("who waited got %v", other.got.err())
			}
		}()
		n := client.nodeOf(ctx, loc)
		b, _ := n.batches.join(w)
		all.Go(func() { client.fetch(ctx, other) })
		eventually(t, func() bool {
			n.batches.mu.Lock()
			defer n.batches.mu.Unlock()
			return len(b.wants) == 2
		})
		client.send(ctx, n, b)
		return stored{}, nil
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = r.do(t.Context(), key, read)
	}()
	hook.now = false
	if got := pulledBy(t.Context(), client, key); got.err() != nil {
		t.Error(got.err())
	}
	if len(r.now) != 0 {
		t.Errorf("%d reads are left", len(r.now))
	}
}
