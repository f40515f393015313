package core

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// want is a value to be read, and what came of it.
type want struct {
	key    string
	end    int64       // how much of it
	beside string      // another key in the same slot, to be read right after it; "" for none
	sent   atomic.Bool // the GET may have gone out: whoever asks now must not share it
	got    fetched
}

// again is the same want by itself: it holds on to nothing that was read.
func (w *want) again() []*want { return []*want{{key: w.key, end: w.end, beside: w.beside}} }

// fetched is what was read for a want.
type fetched struct{ value, beside *redis.StringCmd }

func (f fetched) err() error {
	if err := f.value.Err(); err != nil || f.beside == nil {
		return err
	}
	return f.beside.Err()
}

// batches make one pipeline of all that is asked of a node at one moment: it costs a Redis, and this process, a system
// call where each GET on its own costs one.
//
// What comes behind a value that is too slow comes too late with it. So after a failure each read goes out alone for a
// while: where one value is too large for the network, the others are still served, and the breaker learns which it is.
type batches struct {
	mu    sync.Mutex
	open  *batch
	apart time.Time // no batches until then
	ends  deadlines
}

const (
	// batchSize is how many keys are asked for in one pipeline at most.
	batchSize = 64
	// apartFor is how long after a failure each read goes out alone.
	apartFor = 10 * time.Second
)

type batch struct {
	ctx   boundedContext
	wants []*want
	first [1]*want      // most batches are no longer
	done  chan struct{} // nil while nobody waits for who leads
}

// join puts w into the batch that is open. Whoever opened it sends it.
func (s *batches) join(w *want) (b *batch, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = s.open
	switch {
	case b == nil:
		b, leads = &batch{}, true
		b.wants = b.first[:0]
		if s.apart.IsZero() || time.Now().After(s.apart) {
			s.open = b
		}
	case b.done == nil:
		b.done = make(chan struct{})
	}
	b.wants = append(b.wants, w)
	if len(b.wants) == batchSize {
		s.open = nil
	}
	return b, leads
}

// part takes a failure.
func (s *batches) part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apart = time.Now().Add(apartFor)
}

// close ends the boarding of b.
func (s *batches) close(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == b {
		s.open = nil
	}
	for _, w := range b.wants {
		w.sent.Store(true)
	}
}

// pulled is the result of one pipeline.
type pulled []fetched

// Err returns the first error of the connection, if there is one, or else that of the first command that has one.
func (p pulled) Err() (err error) {
	for _, f := range p {
		if e := f.err(); e != nil && (err == nil || isReply(err)) {
			err = e
		}
	}
	return err
}

func failedPull(n int, err error) pulled {
	p := make(pulled, n)
	for i := range p {
		failed := redis.NewStringResult("", err)
		p[i] = fetched{failed, failed}
	}
	return p
}

// pull reads all that is wanted in one round trip, in order.
func (c direct) pull(ctx context.Context, wants []*want) pulled {
	p := make(pulled, len(wants))
	if w := wants[0]; len(wants) == 1 && w.beside == "" {
		p[0].value = c.GetRange(ctx, w.key, 0, w.end)
		return p
	}
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, w := range wants {
			p[i].value = pipe.GetRange(ctx, w.key, 0, w.end)
			if w.beside != "" {
				p[i].beside = pipe.Get(ctx, w.beside)
			}
		}
		return nil
	})
	if err != nil && p.Err() == nil { // that of the connection, if none could be had: no command has it
		return failedPull(len(wants), err)
	}
	return p
}

// fetch reads what is wanted, along with what others want of the same node at the same moment: those who are about to
// ask run first. It takes readBudget at most, and does not end with ctx: the client of who leads may leave, the others
// stay.
func (c *guarded) fetch(ctx context.Context, w *want) {
	n := c.nodeOf(ctx, w.key)
	b, leads := n.batches.join(w)
	if !leads {
		<-b.done // bounded: a read is
		return
	}
	runtime.Gosched()
	b.ctx = n.batches.ends.bound(ctx)
	c.send(&b.ctx, n, b)
}

// send sends a batch and hands out what has come of it when ctx ends.
func (c *guarded) send(ctx context.Context, n *node, b *batch) {
	n.batches.close(b)
	var p pulled
	defer func() {
		if p == nil { // a hook of the user's ended the goroutine
			p = failedPull(len(b.wants), errNotAsked)
		}
		for i, w := range b.wants {
			w.got = p[i]
		}
		if b.done != nil {
			close(b.done)
		}
	}()
	p = guard(ctx, c, &n.reads, b.wants[0].key,
		func(ctx context.Context) pulled { return c.pull(ctx, b.wants) },
		func(err error) pulled { return failedPull(len(b.wants), err) },
		func(p pulled) func(context.Context) error {
			n.batches.part()
			alone := b.wants[p.unanswered()].again()
			return func(ctx context.Context) error { return c.pull(ctx, alone).Err() }
		})
}

// unanswered returns the first that the server did not answer, or would not; 0 if there is none: all came too late.
func (p pulled) unanswered() int {
	return max(0, slices.IndexFunc(p, func(f fetched) bool { return !succeeded(f.err()) }))
}
