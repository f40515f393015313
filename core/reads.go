package core

import (
	"context"
	"sync"
)

// reads shares GETs: of all who want a location at the same time, one asks. Whoever comes while a
// GET is under way waits for the next one and shares that: its own request began after the GET was sent, and
// it must not get a copy that was invalidated in between.
type reads struct {
	mu  sync.Mutex
	now map[string]*sharedRead
}

type sharedRead struct {
	done chan struct{} // closed when got and err are set; nil until somebody waits for it
	got  stored
	err  error
	next *sharedRead // for those who come while this one is under way

	inherited bool // err is that of the read before
}

// ended returns what a waiter waits for. The caller holds reads.mu.
func (s *sharedRead) ended() <-chan struct{} {
	if s.done == nil {
		s.done = make(chan struct{})
	}
	return s.done
}

// do returns what read returns for loc, asked by whoever leads. It returns early with the cause of ctx.
func (r *reads) do(ctx context.Context, loc string, read func(context.Context, string) (stored, error)) (stored, error) {
	r.mu.Lock()
	current, busy := r.now[loc]
	if !busy {
		if r.now == nil {
			r.now = make(map[string]*sharedRead)
		}
		current = &sharedRead{}
		r.now[loc] = current
		r.mu.Unlock()
		r.lead(ctx, loc, current, read)
		return current.got, current.err
	}
	if current.next == nil {
		next := &sharedRead{}
		current.next = next
		ended := current.ended()
		r.mu.Unlock()
		<-ended // bounded: a read is
		if err := current.err; err != nil && !current.inherited {
			next.inherited = true // who has waited for one budget does not wait for a second
			read = func(context.Context, string) (stored, error) { return stored{}, err }
		}
		r.lead(ctx, loc, next, read)
		return next.got, next.err
	}
	next := current.next
	ended := next.ended()
	r.mu.Unlock()
	select {
	case <-ended:
		return next.got, next.err
	case <-ctx.Done():
		return stored{}, ctx.Err()
	}
}

// lead asks for everybody: the leader's client may leave, the GET goes on.
func (r *reads) lead(ctx context.Context, loc string, s *sharedRead, read func(context.Context, string) (stored, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBudget)
	defer cancel()
	s.got, s.err = read(ctx, loc)

	r.mu.Lock()
	if s.next != nil {
		r.now[loc] = s.next
	} else {
		delete(r.now, loc)
	}
	done := s.done
	r.mu.Unlock()
	if done != nil {
		close(done)
	}
}
