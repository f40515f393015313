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
	done chan struct{} // closed when got and err are set
	got  stored
	err  error
	next *sharedRead // for those who come while this one is under way

	inherited bool // err is that of the read before
}

// do returns what read returns for loc, asked by whoever leads. It returns early with the cause of ctx.
func (r *reads) do(ctx context.Context, loc string, read func(context.Context) (stored, error)) (stored, error) {
	r.mu.Lock()
	current, busy := r.now[loc]
	if !busy {
		if r.now == nil {
			r.now = make(map[string]*sharedRead)
		}
		current = &sharedRead{done: make(chan struct{})}
		r.now[loc] = current
		r.mu.Unlock()
		r.lead(ctx, loc, current, read)
		return current.got, current.err
	}
	next, leads := current.next, false
	if next == nil {
		next, leads = &sharedRead{done: make(chan struct{})}, true
		current.next = next
	}
	r.mu.Unlock()

	if leads {
		<-current.done // bounded: a read is
		if err := current.err; err != nil && !current.inherited {
			next.inherited = true // who has waited for one budget does not wait for a second
			read = func(context.Context) (stored, error) { return stored{}, err }
		}
		r.lead(ctx, loc, next, read)
		return next.got, next.err
	}
	select {
	case <-next.done:
		return next.got, next.err
	case <-ctx.Done():
		return stored{}, ctx.Err()
	}
}

// lead asks for everybody: the leader's client may leave, the GET goes on.
func (r *reads) lead(ctx context.Context, loc string, s *sharedRead, read func(context.Context) (stored, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBudget)
	defer cancel()
	s.got, s.err = read(ctx)

	r.mu.Lock()
	if s.next != nil {
		r.now[loc] = s.next
	} else {
		delete(r.now, loc)
	}
	r.mu.Unlock()
	close(s.done)
}
