package core

import (
	"context"
	"sync"
	"time"
)

// reads shares GETs: of all who want a location at the same time, one asks. Whoever comes before a GET is sent
// shares it. Whoever comes while it is under way waits for the next one and shares that: its own request began after
// the GET was sent, and it must not get a copy that was invalidated in between.
type reads struct {
	mu  sync.Mutex
	now map[string]*sharedRead
}

// reader reads a location within a bounded time, which does not end with ctx, and marks the want as sent before.
type reader func(ctx context.Context, loc string, w *want) (stored, error)

type sharedRead struct {
	want want
	done chan struct{} // closed when got and err are set; nil until somebody waits for it
	got  stored
	err  error
	next *sharedRead // for those who come while this one is under way
}

// ended returns what a waiter waits for. The caller holds reads.mu.
func (s *sharedRead) ended() <-chan struct{} {
	if s.done == nil {
		s.done = make(chan struct{})
	}
	return s.done
}

// do returns what read returns for loc, asked by whoever leads. It returns early with the cause of ctx.
func (r *reads) do(ctx context.Context, loc string, read reader) (stored, error) {
	r.mu.Lock()
	current, busy := r.now[loc]
	switch {
	case !busy:
		if r.now == nil {
			r.now = make(map[string]*sharedRead)
		}
		current = &sharedRead{}
		r.now[loc] = current
		r.mu.Unlock()
		r.lead(ctx, loc, current, read)
		return current.got, current.err
	case !current.want.sent.Load():
		return r.share(ctx, current)
	case current.next != nil:
		return r.share(ctx, current.next)
	}
	next := &sharedRead{}
	current.next = next
	ended := current.ended()
	r.mu.Unlock()
	began := time.Now()
	<-ended // bounded: a read is
	err := current.err
	if err == nil && time.Since(began) > readBudget*3/2 { // the first of a process asks for the time before
		err = errTooBrief
	}
	if err != nil { // who has waited for one budget does not wait for a second
		read = func(context.Context, string, *want) (stored, error) { return stored{}, err }
	}
	r.lead(ctx, loc, next, read)
	return next.got, next.err
}

// share waits for what somebody else leads. The caller holds reads.mu, and share gives it back.
func (r *reads) share(ctx context.Context, s *sharedRead) (stored, error) {
	ended := s.ended()
	r.mu.Unlock()
	select {
	case <-ended:
		return s.got, s.err
	case <-ctx.Done():
		return stored{}, ctx.Err()
	}
}

// lead asks for everybody: the leader's client may leave, the GET goes on.
func (r *reads) lead(ctx context.Context, loc string, s *sharedRead, read reader) {
	s.err = errNotAsked // should a hook of the user's end the goroutine
	defer r.end(loc, s)
	s.got, s.err = read(ctx, loc, &s.want)
}

func (r *reads) end(loc string, s *sharedRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.next != nil {
		r.now[loc] = s.next
	} else {
		delete(r.now, loc)
	}
	if s.done != nil {
		close(s.done)
	}
}
