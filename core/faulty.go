package core

import (
	"context"
	"errors"
	"time"

	"github.com/herdgate/herdgate/internal/fault"
)

// Faulty is a backend with faults that a test switches on and off. It is for package herdgatetest: its types are
// internal.
func Faulty(b Backend, s *fault.Switches) Backend { return faultyOption{b, s} }

type faultyOption struct {
	Backend
	s *fault.Switches
}

func (o faultyOption) open() (backend, error) {
	b, err := o.Backend.open()
	if err != nil || b == nil {
		return b, err
	}
	return &faulty{backend: b, s: o.s}, nil
}

// faulty is a backend as a gate sees it when Redis, or the network, is in trouble.
type faulty struct {
	backend
	s *fault.Switches
}

// beneath is the backend below the faults.
func beneath(b backend) backend {
	if f, ok := b.(*faulty); ok {
		return f.backend
	}
	return b
}

var errFaulty = errors.New("herdgatetest: failed on purpose")

// inTrouble makes a call, or fails it, or makes it late or twice.
func inTrouble[T any](ctx context.Context, s *fault.Switches, budget time.Duration, call func(context.Context) (T, error)) (answer T, err error) {
	if s.Fail.Load() {
		return answer, errFaulty
	}
	if stall := time.Duration(s.Stall.Load()); stall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
		if !sleep(ctx, stall) {
			return answer, ctx.Err()
		}
	}
	if s.Duplicate.Load() {
		if answer, err = call(ctx); err != nil {
			return answer, err
		}
	}
	return call(ctx)
}

func (f *faulty) read(ctx context.Context, loc string) (stored, error) {
	return inTrouble(ctx, f.s, readBudget, func(ctx context.Context) (stored, error) { return f.backend.read(ctx, loc) })
}

func (f *faulty) acquire(ctx context.Context, q query) (answer, error) {
	return inTrouble(ctx, f.s, lookBudget, func(ctx context.Context) (answer, error) {
		a, err := f.backend.acquire(ctx, q)
		if err == nil && a.state == stateHeld && f.s.GrantEveryone.Load() {
			theirs := q.lease
			copy(theirs.token[:], a.holder)
			if _, err := f.backend.release(ctx, theirs); err != nil {
				return answer{}, err
			}
			a, err = f.backend.acquire(ctx, q)
		}
		return a, err
	})
}

func (f *faulty) extend(ctx context.Context, l lease) (tenure, error) {
	if f.s.LoseLocks.Load() {
		return tenureLost, nil
	}
	return inTrouble(ctx, f.s, readBudget, func(ctx context.Context) (tenure, error) { return f.backend.extend(ctx, l) })
}

func (f *faulty) finish(ctx context.Context, l lease, c completion) (verdict, error) {
	return inTrouble(ctx, f.s, callFor, func(ctx context.Context) (verdict, error) { return f.backend.finish(ctx, l, c) })
}

func (f *faulty) release(ctx context.Context, l lease) (bool, error) {
	return inTrouble(ctx, f.s, callFor, func(ctx context.Context) (bool, error) { return f.backend.release(ctx, l) })
}

func (f *faulty) invalidate(ctx context.Context, base string) error {
	_, err := inTrouble(ctx, f.s, callFor, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.backend.invalidate(ctx, base) })
	return err
}

func (f *faulty) announcements(deliver func(loc string, why result)) {
	f.backend.announcements(func(loc string, why result) {
		if !f.s.DropAnnouncements.Load() {
			deliver(loc, why)
		}
	})
}
