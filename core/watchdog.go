package core

import (
	"context"
	"time"
)

// A grant is the right to compute, once. Whoever is elected with it runs the handler on
// its own goroutine and reports how that ended, exactly once; the flight's goroutine
// is the watchdog meanwhile.
type grant struct {
	lease
	fleet  bool // the backend granted it: there is a claim to store by
	locked bool // there is a lock to renew
	cause  cause
	seen   string // the head of what was stored when it was granted

	// proven is when the backend was last asked whether the claim stands, and said yes; without a claim, when the computation
	// began. Who boarded before may have the response even if it is invalidated meanwhile.
	proven time.Time

	reports chan completion // buffered
	settled chan verdict    // buffered: what became of the report
}

func (gr *grant) report(c completion) { gr.reports <- c }

// attend elects who computes and oversees the work. It returns whether the flight goes on for the
// seats that are left.
func (f *flight) attend(gr *grant) (more bool) {
	if !f.elect(gr, nil) {
		f.m.gate.settle(gr, completion{result: resultGaveUp})
		return false
	}
	return f.oversee(gr)
}

// oversee watches over a grant until the report has come, and settles it. It returns whether the flight
// goes on for the seats that are left.
func (f *flight) oversee(gr *grant) (more bool) {
	g := f.m.gate
	c, capped := f.watch(gr)
	if capped {
		g.count(causeHoldCap)
		g.settle(gr, completion{result: resultFailed})
		gr.settled <- verdictInvalidated
		return true
	}

	if c.result != resultStored {
		v := g.settle(gr, c)
		// Before the winner's client is answered: its next request looks for itself.
		over := f.shutDownIfEmpty()
		if c.result == resultUncacheable {
			f.shutDown()
		}
		gr.settled <- v
		if over {
			return false
		}
		switch c.result {
		case resultUncacheable:
			f.close(tidings{kind: tidingsParallel})
			return false
		case resultPersonal:
			f.tell(tidings{kind: tidingsParallel}, func(s *seat) bool { return s.class != anonymous })
		default: // failed, gave up: the flight tries again for those who wait
		}
		return true
	}

	// The seats wait for the verdict on the store, because the key may have been invalidated, but not for a slow
	// Redis: those who were here when the claim was last proven can have the response in any case.
	answered := tidings{kind: tidingsAnswered, stored: stored{entry: c.entry}}
	early := time.AfterFunc(finishBudget, func() {
		gr.settled <- verdictUnknown
		f.tell(answered, gr.unaffected)
	})
	v := g.settle(gr, c)
	if !gr.fleet {
		f.keep(gr, c)
	}
	f.shutDown() // before the winner's client is answered: its next request must not board, it is a hit
	if early.Stop() {
		gr.settled <- v
	}
	switch {
	case v == verdictUnknown && gr.fleet:
		f.tell(answered, gr.unaffected)
		f.close(tidings{kind: tidingsAgain})
	case v == verdictReplaced, v == verdictInvalidated:
		g.count(causeDropped)
		f.close(tidings{kind: tidingsAgain})
	case !gr.fleet:
		f.tell(answered, gr.unaffected)
		f.unproven, f.beneath, f.budget = &answered, gr.seen, finishBudget
		return true
	default:
		f.close(answered)
	}
	return false
}

// keep keeps what was computed without a lock in the memory tier, if there is one: Redis does not have it.
func (f *flight) keep(gr *grant, c completion) {
	g := f.m.gate
	if g.tier != nil && len(c.at.names) > 0 {
		g.varies.Set(f.place.hash, c.at.names)
	}
	kept := stored{entry: c.entry, seen: head(c.entry.Token, c.entry.Grant), size: weight(c.entry)}
	g.tier.keep(c.at.loc(), kept, gr.proven, g.backend.now)
}

// unaffected reports whether a seat was taken before the claim was last proven.
func (gr *grant) unaffected(s *seat) bool { return s.boarded.Before(gr.proven) }

// watch renews the lock at a third of its lifetime, counted from the last success, until the report
// comes or the hold cap is reached. A renewal that failed is tried again faster while the lock may still
// be ours; one that was answered "not yours" was the last. It never makes a lock.
func (f *flight) watch(gr *grant) (c completion, capped bool) {
	hold := time.NewTimer(gr.hold)
	defer hold.Stop()
	ends := time.Now().Add(gr.lock)
	renew := time.NewTimer(gr.lock / 3)
	defer renew.Stop()
	if !gr.locked {
		renew.Stop()
	}
	for {
		select {
		case c := <-gr.reports:
			return c, false
		case <-hold.C:
			return completion{}, true
		case <-f.news:
			// Our own lock ended by another hand: the key was invalidated.
			renew.Reset(0)
			if !gr.locked {
				renew.Stop()
			}
		case <-renew.C:
			asked := time.Now()
			found, err := f.extend(gr)
			switch {
			case err != nil && time.Now().Before(ends):
				renew.Reset(gr.lock / 20)
			case err != nil:
				f.m.gate.count(causeLockLost)
			case found == tenureHeld:
				gr.proven, ends = asked, asked.Add(gr.lock)
				renew.Reset(time.Until(asked.Add(gr.lock / 3)))
			case found == tenureLost:
				f.m.gate.count(causeLockLost)
			default: // revoked: what is computed will not be stored, and who comes now must not get it
				f.m.gate.count(causeInvalidated)
				f.close(tidings{kind: tidingsAgain})
			}
		}
	}
}

func (f *flight) extend(gr *grant) (tenure, error) {
	ctx, cancel := context.WithTimeout(f.m.gate.ctx, readBudget) // the seats may be waiting for the report meanwhile
	defer cancel()
	return f.m.gate.backend.extend(ctx, gr.lease)
}

// settle finishes a grant. If the first try is not answered, the rest goes on in the background: the
// lock must go whatever happens.
func (g *Gate) settle(gr *grant, c completion) verdict {
	if !gr.fleet {
		return verdictUnknown
	}
	budget := readBudget
	if c.result == resultStored {
		budget = time.Second // a large body on a slow network
	}
	ctx, cancel := context.WithTimeout(g.ctx, budget)
	defer cancel()
	v, err := g.backend.finish(ctx, gr.lease, c)
	g.tier.drop(gr.base)
	if err == nil {
		return v
	}
	g.owned.Go(func() { // while closing too: this flight is among those that Close waits for
		g.untilDone(gr.lock, func(ctx context.Context) bool {
			_, err := g.backend.finish(ctx, gr.lease, c)
			// What could not be stored twice is not worth the wait of those who are not here: let the lock go.
			c = completion{result: resultGaveUp}
			return err == nil
		})
	})
	return verdictUnknown
}

// untilDone repeats a call until it is done or the lock that it is about has ended by itself.
func (g *Gate) untilDone(lock time.Duration, call func(context.Context) (done bool)) {
	ctx, cancel := context.WithTimeout(g.ctx, lock)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		try, end := context.WithTimeout(ctx, time.Second)
		done := call(try)
		end()
		if done || !sleep(ctx, pause) {
			return
		}
	}
}
