package core

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines makes contexts that end readBudget from now, or a little earlier: all that begin within a twentieth of it end
// together, by one timer. A timer of its own for each is much of what a read costs.
type deadlines struct{ latest atomic.Pointer[deadline] }

type deadline struct {
	context.Context
	stop context.CancelFunc // not called: it would end the others
	open time.Time          // for those that begin until then
}

// boundedContext ends at a deadline, and not with the context that it has its values from.
type boundedContext struct {
	context.Context // the deadline's
	values          context.Context
}

func (c *boundedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // its only one is for package context itself: contexts made from this one end with it
		return v
	}
	return c.values.Value(key)
}

func (d *deadlines) bound(values context.Context) boundedContext {
	now := time.Now()
	latest := d.latest.Load()
	if latest == nil || now.After(latest.open) {
		ctx, cancel := context.WithTimeout(context.Background(), readBudget) //nolint:gosec // the others end with it: it ends by itself
		latest = &deadline{Context: ctx, stop: cancel, open: now.Add(readBudget / 20)}
		d.latest.Store(latest)
	}
	return boundedContext{Context: latest.Context, values: values}
}
