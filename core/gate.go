package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/herdgate/herdgate/internal/host"
)

// maxWaiters is how many requests of a gate may wait at a time. Above it a loser gets a degraded answer at once.
const maxWaiters = 10_000

// maxKnownVaries bounds the memory of what keys vary on.
const maxKnownVaries = 1 << 16

// A Gate is one cache with its locks: one per service is usual, shared by all its
// routes. It is safe for concurrent use. Close it after the server has shut down.
type Gate struct {
	backend     backend // nil: everything passes through
	namespace   string
	credentials []string
	log         *slog.Logger
	stats       stats
	warned      sync.Map // route and reason, once each
	waiting     atomic.Int64
	maxWaiters  int64
	refreshes   chan struct{}
	varies      *otter.Cache[string, []string] // key hash -> what its responses vary on
	tier        *tier                          // nil: none

	ctx    context.Context // of everything that goes on off the requests
	cancel context.CancelFunc

	closed  atomic.Bool // set with mu held
	mu      sync.Mutex
	owned   sync.WaitGroup
	flights map[string]*flight
	recipes map[string]*recipe
}

// New makes a gate. It does no I/O, so it succeeds while Redis is down. Its error joins
// everything that is wrong with the backend and the options; it never panics.
func New(b Backend, opts ...GateOption) (*Gate, error) {
	g := &Gate{
		credentials: credentialHeaders,
		log:         slog.Default(),
		maxWaiters:  maxWaiters,
		refreshes:   make(chan struct{}, refreshSlots),
		flights:     make(map[string]*flight),
		recipes:     make(map[string]*recipe),
	}
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("herdgate: a gate option is nil: remove it"))
			continue
		}
		if err := opt(g); err != nil {
			errs = append(errs, err)
		}
	}
	opening := b
	if f, ok := b.(faultyOption); ok {
		b = f.Backend
	}
	if b == nil {
		errs = append(errs, errors.New("herdgate: New needs a backend: core.Redis(client, namespace), core.Memory(bytes) or core.Off()"))
	} else {
		opened, err := opening.open()
		if err != nil {
			errs = append(errs, err)
		}
		g.backend = opened
		if _, ok := b.(memoryOption); ok && g.tier != nil {
			errs = append(errs, errTierOfMemory)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if r, ok := b.(redisOption); ok {
		g.namespace = r.namespace
	}
	g.varies = otter.Must(&otter.Options[string, []string]{MaximumSize: maxKnownVaries, Executor: inline})
	g.ctx, g.cancel = context.WithCancel(context.Background())
	if g.backend != nil {
		g.backend.announcements(g.announced)
		g.backend.report(g.log, g.count)
	}
	if b, ok := beneath(g.backend).(*redisBackend); ok && g.tier != nil {
		b.tells(g.tier)
	}
	return g, nil
}

// Off is a backend that keeps nothing: every request passes through to its handler, with the reason in
// Cache-Status. It is for switching the cache off without touching routes.
func Off() Backend { return offOption{} }

type offOption struct{}

func (offOption) open() (backend, error) { return nil, nil }

// Close ends everything that the gate runs in the background and waits for it, until ctx is
// done: computations in progress are finished and their locks given back. Its error says what was still in progress then; locks
// that are left end with LockFor. From its beginning on the middleware passes everything through. The Redis client stays open. Close
// may be called more than once, and concurrently.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	again := g.closed.Swap(true)
	g.mu.Unlock()

	done := make(chan struct{})
	go func() {
		g.owned.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("herdgate: Close: work is still in progress: %w", ctx.Err())
	}
	g.cancel()
	if again || g.backend == nil {
		return err
	}
	return errors.Join(err, g.backend.close(ctx))
}

// goOwned runs f in a goroutine that Close waits for. It returns false after Close.
func (g *Gate) goOwned(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.goOwnedLocked(f)
}

func (g *Gate) goOwnedLocked(f func()) bool {
	if g.closed.Load() {
		return false
	}
	g.owned.Go(f)
	return true
}

// Mount makes the middleware of one route. It is for the adapters of this module: its types are
// internal. It panics on a nil gate or an invalid option, as http.ServeMux does on an
// invalid pattern: both are mistakes in the program that show when it starts.
func (g *Gate) Mount(opts ...RouteOption) host.Middleware {
	if g == nil {
		panic("herdgate: Cache was given a nil gate: check the error of core.New")
	}
	cfg, err := configure(opts)
	if err != nil {
		panic(err)
	}
	m := &middleware{gate: g, cfg: cfg, recipe: newRecipe(cfg, g.isCredential), hidden: g.hides(cfg)}
	if g.backend != nil {
		g.backend.admit(cfg.MaxBody)
	}
	g.mu.Lock()
	g.recipes[m.recipe.fingerprint] = &m.recipe
	g.mu.Unlock()
	if cfg.WaitFor < cfg.LockFor {
		g.log.Info("herdgate: WaitFor is shorter than LockFor: losers do not outlive a holder that dies, they get a degraded answer",
			"route", cfg.Name, "waitFor", cfg.WaitFor, "lockFor", cfg.LockFor)
	}
	return m.serve
}

// Invalidate removes what is stored for a key, in every representation and on every route of this
// gate that serves it. It is hard: nothing that was computed or began to be computed before it returned is stored or served from
// the cache after it returned, in any process. (A request that was already waiting then may get the older
// response, as may the client whose own request computed it.)
//
// It asks Redis once for each way in which routes of the gate make keys, and blocks until it has answered or ctx is done: give ctx a
// deadline. Its error means that the backend did not confirm it: try again. Responses of routes with KeyBy go only for the value
// of Key.By. It is safe for concurrent use. With Off, or without a route, there is nothing to do.
func (g *Gate) Invalidate(ctx context.Context, key Key) error {
	if g.backend == nil {
		return nil
	}
	g.mu.Lock()
	recipes := make([]*recipe, 0, len(g.recipes))
	for _, r := range g.recipes {
		recipes = append(recipes, r)
	}
	g.mu.Unlock()
	bases := make([]string, 0, len(recipes))
	for _, r := range recipes {
		bases = append(bases, g.base(r.key(nil, key)))
	}
	if err := g.dropAll(ctx, bases); err != nil {
		g.forget(bases...) // here it need not be confirmed
		return fmt.Errorf("herdgate: Invalidate was not confirmed, older responses may still be served: %w", err)
	}
	return nil
}

// abandon closes the flights of a key: who comes now does not join what began before.
func (g *Gate) abandon(base string) {
	g.mu.Lock()
	var of []*flight
	for _, f := range g.flights {
		if f.place.base == base {
			of = append(of, f)
		}
	}
	g.mu.Unlock()
	for _, f := range of {
		f.close(tidings{kind: tidingsAgain})
	}
}

// announced takes what the inbox brings.
func (g *Gate) announced(loc string, why result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if loc != everywhere {
		if f := g.flights[loc]; f != nil {
			f.hear(why)
		}
		return
	}
	for _, f := range g.flights {
		f.hear(why)
	}
}
