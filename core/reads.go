package core

import (
	"context"
	"runtime"
	"sync"
)

// reads shares GETs: of all who want a location at the same time, one asks. Whoever comes before a GET is sent
// shares it. Whoever comes while it is under way waits for the next one and shares that: its own request began after
// the GET was sent, and it must not get a copy that was invalidated in between.
type reads struct {
	mu   sync.Mutex
	now  map[string]*sharedRead
	ends deadlines
}

type sharedRead struct {
	ctx  boundedContext
	sent bool          // whoever comes now must not share it
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
	case !current.sent:
		return r.share(ctx, current)
	case current.next != nil:
		return r.share(ctx, current.next)
	}
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

// lead asks for everybody: the leader's client may leave, the GET goes on. First it lets those run who are about to ask
// the same: a herd that comes at one moment is one GET.
func (r *reads) lead(ctx context.Context, loc string, s *sharedRead, read func(context.Context, string) (stored, error)) {
	runtime.Gosched()
	r.mu.Lock()
	s.sent = true
	r.mu.Unlock()
	s.ctx = r.ends.bound(ctx)
	s.got, s.err = read(&s.ctx, loc)

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
