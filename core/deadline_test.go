package core

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A read has its own budget, whatever those that began shortly before it share, and its client's values but not its end.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		var d deadlines
		for range 50 {
			client, leave := context.WithCancel(context.WithValue(t.Context(), name{}, "ada"))
			ctx := d.bound(client)
			leave()
			began := time.Now()
			if ctx.Err() != nil || ctx.Value(name{}) != "ada" {
				t.Errorf("%v, value %v", ctx.Err(), ctx.Value(name{}))
			}
			go func() {
				child, cancel := context.WithCancel(&ctx)
				defer cancel()
				<-child.Done()
				if took := time.Since(began); took > readBudget || took < readBudget*9/10 || !errors.Is(child.Err(), context.DeadlineExceeded) {
					t.Errorf("ended after %v: %v", took, child.Err())
				}
			}()
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(readBudget)
		synctest.Wait()
	})
}
