package core

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
)

// A herd that looks for one location is one GET for those who came before it was sent and one for the others. Nobody
// gets a copy from a GET that was sent before it asked: what it brings may have been invalidated since.
func TestReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reads
		var sent atomic.Int64
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				time.Sleep(time.Duration(i%30) * time.Millisecond)
				before := sent.Load()
				got, err := r.do(t.Context(), "loc", func(_ context.Context, _ string, w *want) (stored, error) {
					n := sent.Add(1)
					w.sent.Store(true)
					time.Sleep(10 * time.Millisecond)
					return stored{record: &entry.Record{Names: []string{strconv.FormatInt(n, 10)}}}, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				if n, _ := strconv.ParseInt(got.record.Names[0], 10, 64); n <= before {
					t.Errorf("got what GET %d brought, %d were sent already", n, before)
				}
			})
		}
		all.Wait()
		if n := sent.Load(); n > 6 { // every 10 ms, and none for nobody
			t.Errorf("%d GETs", n)
		}
		if len(r.now) != 0 {
			t.Errorf("%d reads are left", len(r.now))
		}
	})
}

// Until the GET is sent, everybody comes aboard.
func TestReadsAreSharedUntilSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &sharedRead{}
		r := reads{now: map[string]*sharedRead{"loc": first}}
		asks := func(ctx context.Context) (stored, error) {
			return r.do(ctx, "loc", func(context.Context, string, *want) (stored, error) {
				t.Error("a GET of its own")
				return stored{}, nil
			})
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if got, err := asks(t.Context()); err != nil || got.entry == nil {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := asks(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("its client had left: %v", err)
			}
		})
		synctest.Wait()
		r.lead(t.Context(), "loc", first, func(context.Context, string, *want) (stored, error) {
			return stored{entry: &entry.Entry{}}, nil
		})
		all.Wait()
	})
}

// Who has waited for one GET in vain does not wait for a second. The one after that is asked again.
func TestFailedReadIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reads
		var sent atomic.Int64
		var all sync.WaitGroup
		ask := func() {
			began := time.Now()
			_, err := r.do(t.Context(), "loc", func(_ context.Context, _ string, w *want) (stored, error) {
				w.sent.Store(true)
				sent.Add(1)
				time.Sleep(readBudget)
				return stored{}, context.DeadlineExceeded
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if waited := time.Since(began); waited > readBudget {
				t.Errorf("waited %v for a budget of %v", waited, readBudget)
			}
		}
		all.Go(ask)
		time.Sleep(readBudget / 2)
		for range 10 {
			all.Go(ask)
		}
		all.Wait()
		if n := sent.Load(); n != 1 {
			t.Errorf("%d GETs", n)
		}
		ask()
		if n := sent.Load(); n != 2 {
			t.Errorf("%d GETs after one more", n)
		}
	})
}

// The first read of a process may take two budgets, one of them for the time. Who has waited for that does not ask again.
func TestNobodyWaitsForTwoLongReads(t *testing.T) {
	for name, c := range map[string]struct {
		takes, waits time.Duration
		fails        error
	}{
		"long":  {2 * readBudget, 2 * readBudget, errTooBrief},
		"short": {readBudget, 2 * readBudget, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r reads
				ask := func() error {
					_, err := r.do(t.Context(), "loc", func(_ context.Context, _ string, w *want) (stored, error) {
						w.sent.Store(true)
						time.Sleep(c.takes)
						return stored{}, nil
					})
					return err
				}
				var first sync.WaitGroup
				first.Go(func() { _ = ask() })
				synctest.Wait()
				began := time.Now()
				if err := ask(); !errors.Is(err, c.fails) || time.Since(began) != c.waits {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), c.fails, c.waits)
				}
				first.Wait()
			})
		})
	}
}

// A read that ends its goroutine takes nobody along: who waits has an error, and the next is asked again.
func TestReadThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reads
		var all sync.WaitGroup
		all.Go(func() {
			_, _ = r.do(t.Context(), "loc", func(context.Context, string, *want) (stored, error) {
				time.Sleep(time.Millisecond)
				runtime.Goexit()
				return stored{}, nil
			})
		})
		synctest.Wait()
		if _, err := r.do(t.Context(), "loc", nil); !errors.Is(err, errNotAsked) {
			t.Errorf("who waited: %v", err)
		}
		all.Wait()
		if len(r.now) != 0 {
			t.Errorf("%d reads are left", len(r.now))
		}
	})
}

// slowScripts is a client whose reads take a while and bring what is damaged, and whose scripts are not answered.
type slowScripts struct{ pulls }

func (slowScripts) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	<-ctx.Done()
	return redis.NewCmdResult(nil, ctx.Err())
}

// To remove what is damaged is part of the read that found it: it has what is left of its budget.
func TestDamagedReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := readsBy(true, func(_ context.Context, wants []*want) pulled {
			time.Sleep(readBudget * 9 / 10)
			return answeredPull(wants)
		})
		client.redisClient = slowScripts{client.redisClient.(pulls)}
		b := &redisBackend{client: client, clock: newFleetClock(), trouble: newTroubles()}
		b.limit.Store(headerRoom)
		b.clock.observe(time.Now().UnixMicro())
		began := time.Now()
		got, err := b.read(t.Context(), "damaged:{0}")
		if err != nil || got.entry != nil || got.head() == "" {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took > readBudget {
			t.Errorf("it took %v", took)
		}
	})
}

// asksTime is a client that tells the time to whom has not left.
type asksTime struct{ pulls }

func (asksTime) Time(ctx context.Context) *redis.TimeCmd {
	return redis.NewTimeCmdResult(time.Now(), ctx.Err())
}

// The first read of a process goes on, too, when the client of who leads has left.
func TestFirstReadOutlivesItsLeader(t *testing.T) {
	client, _ := readsBy(true, func(context.Context, []*want) pulled { return answeredPull([]*want{{}}) })
	client.redisClient = asksTime{client.redisClient.(pulls)}
	b := &redisBackend{client: client, clock: newFleetClock(), trouble: newTroubles()}
	b.limit.Store(headerRoom)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.get(ctx, "left:{0}", &want{}); err != nil {
		t.Error(err)
	}
}
