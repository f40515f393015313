package core

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/redistest"
)

// What a large fleet costs Redis, on paper: the real way of a request and the real flights, over a fake backend that counts, on a
// fake clock. docs/scale.md has the table that TestScale prints.
const (
	scaleProcesses = 1000
	scaleKeys      = 100_000
	scaleRate      = 1e6 // requests per second, of the whole fleet
	scaleFresh     = time.Minute
	scaleWork      = 200 * time.Millisecond
	scaleTrip      = 500 * time.Microsecond // to Redis and back
)

// costs are Redis commands, those inside scripts included, as a real Redis counts them.
type costs struct {
	won, held, heldWaiting, heldAgain, changed, stored int64
}

// crowd is what the processes of a fleet share: entries and locks, those who wait, and the count.
type crowd struct {
	*memory
	costs costs

	mu      sync.Mutex
	waiting map[string]map[*member]bool // by location

	gets, scripts, published, computations atomic.Int64
}

// member is the backend of one process: the crowd, half a trip away.
type member struct {
	*crowd
	reads   reads
	deliver func(loc string, why result)
}

func (c *crowd) open() (backend, error) { return &member{crowd: c}, nil }

func (m *member) announcements(deliver func(loc string, why result)) { m.deliver = deliver }

func (m *member) read(ctx context.Context, loc string) (stored, error) {
	return m.reads.do(ctx, loc, func(ctx context.Context, loc string, w *want) (stored, error) {
		w.sent.Store(true)
		m.gets.Add(1)
		pause(scaleTrip / 2)
		defer pause(scaleTrip / 2)
		return m.memory.read(ctx, loc)
	})
}

func (m *member) acquire(ctx context.Context, q query) (answer, error) {
	pause(scaleTrip / 2)
	defer pause(scaleTrip / 2)
	found, err := m.memory.acquire(ctx, q)
	switch found.state {
	case stateHeld:
		m.scripts.Add(m.enter(q))
	case stateChanged:
		m.scripts.Add(m.costs.changed)
	default:
		m.scripts.Add(m.costs.won)
	}
	return found, err
}

// enter enters a process among those who wait, and returns what an answer of "held" cost.
func (m *member) enter(q query) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.waiting[q.loc()]
	switch {
	case !q.waits:
		return m.costs.held
	case at[m]:
		return m.costs.heldAgain
	case at == nil:
		at = make(map[*member]bool)
		m.waiting[q.loc()] = at
	}
	at[m] = true
	return m.costs.heldWaiting
}

func (m *member) finish(ctx context.Context, l lease, c completion) (verdict, error) {
	pause(scaleTrip / 2)
	defer pause(scaleTrip / 2)
	v, err := m.memory.finish(ctx, l, c)
	m.scripts.Add(m.costs.stored)
	m.mu.Lock()
	told := m.waiting[l.loc()]
	delete(m.waiting, l.loc())
	m.mu.Unlock()
	m.published.Add(int64(len(told)))
	for waits := range told {
		time.AfterFunc(scaleTrip, func() { waits.deliver(l.loc(), c.result) })
	}
	return v, err
}

// assemble makes the processes of a fleet.
func assemble(t *testing.T, c costs, n int, opts ...GateOption) (*crowd, []host.Middleware) {
	t.Helper()
	backend, err := (memoryOption{64 << 20}).open()
	if err != nil {
		t.Fatal(err)
	}
	backend.announcements(func(string, result) {})
	shared := &crowd{memory: backend.(*memory), costs: c, waiting: make(map[string]map[*member]bool)}
	fleet := make([]host.Middleware, n)
	for i := range fleet {
		fleet[i] = gateOn(t, shared, opts...).Mount(FreshFor(scaleFresh), WaitFor(10*time.Second))
	}
	return shared, fleet
}

// ask sends a request after a while.
func (c *crowd) ask(wg *sync.WaitGroup, serve host.Middleware, target string, after time.Duration) {
	wg.Go(func() {
		pause(after)
		v := get(target, func(_ context.Context, p *page) {
			c.computations.Add(1)
			pause(scaleWork)
			p.write(200, "page")
		})
		v.app = serve
		serve(v)
	})
}

// reading returns the GETs for each request of one process that asks for a fresh key so often, in requests per second.
func reading(t *testing.T, c costs, rate float64, opts ...GateOption) float64 {
	t.Helper()
	var gets, requests int64
	bubble(t, func(t *testing.T) {
		crowd, fleet := assemble(t, c, 1, opts...)
		random := rand.New(rand.NewPCG(1, 2))
		for life := range 20 { // of a page: computed, and then asked for while it is fresh
			target, spent := fmt.Sprintf("/%d", life), time.Duration(0)
			var wg sync.WaitGroup
			crowd.ask(&wg, fleet[0], target, 0)
			wg.Wait()
			was := crowd.gets.Load()
			for range 100 {
				spent += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
				if spent >= scaleFresh {
					break
				}
				crowd.ask(&wg, fleet[0], target, spent)
				requests++
			}
			wg.Wait()
			gets += crowd.gets.Load() - was
		}
		if got := crowd.computations.Load(); got != 20 {
			t.Errorf("%d computations of 20 pages", got)
		}
	})
	if requests == 0 {
		return 1 // so seldom that each comes too late for a copy
	}
	return float64(gets) / float64(requests)
}

// expiry is what happens when a key expires that some processes ask for at a rate, in requests per second of each.
type expiry struct {
	computations, gets, scripts, published int64
}

// expire lets a key expire, or begins with one that nobody has asked for yet, and returns what those cost who come while the page
// is computed.
func expire(t *testing.T, c costs, processes int, rate float64, cold bool) (e expiry) {
	bubble(t, func(t *testing.T) {
		crowd, fleet := assemble(t, c, processes)
		random := rand.New(rand.NewPCG(3, 4))
		var wg sync.WaitGroup
		if !cold {
			crowd.ask(&wg, fleet[0], "/", 0)
			wg.Wait()
			pause(scaleFresh)
		}
		was := expiry{crowd.computations.Load(), crowd.gets.Load(), crowd.scripts.Load(), crowd.published.Load()}
		for _, serve := range fleet {
			// The first of each process comes for certain: how many processes that are was counted before.
			for at := random.Float64() * min(1/rate, scaleWork.Seconds()); at < scaleWork.Seconds(); at += random.ExpFloat64() / rate {
				crowd.ask(&wg, serve, "/", time.Duration(at*float64(time.Second)))
			}
		}
		wg.Wait()
		pause(time.Second)
		e = expiry{crowd.computations.Load() - was.computations, crowd.gets.Load() - was.gets, crowd.scripts.Load() - was.scripts, crowd.published.Load() - was.published}
	})
	return e
}

// Redis commands grow with the processes that want a key while it is computed, and not with their clients.
func TestScale(t *testing.T) {
	c := counted(t)
	t.Logf("commands of the steps: %+v", c)

	t.Log("| processes | clients | computations | commands | for each process | announcements |")
	herd := func(processes, clients int) int64 {
		e := expire(t, c, processes, float64(clients)/scaleWork.Seconds(), true)
		all := e.gets + e.scripts + e.published
		t.Logf("| %d | %d | %d | %d | %.1f | %d |", processes, processes*clients, e.computations, all, float64(all)/float64(processes), e.published)
		if e.computations != 1 {
			t.Errorf("%d processes: %d computations", processes, e.computations)
		}
		if e.published > int64(processes) {
			t.Errorf("%d announcements to %d processes", e.published, processes)
		}
		if all > int64(15*processes) {
			t.Errorf("%d processes: %d commands", processes, all)
		}
		return all
	}
	for _, processes := range []int{1, 10, 100} {
		few, many := herd(processes, 5), herd(processes, 50)
		if 4*many > 5*few {
			t.Errorf("%d processes: with ten times the clients %d commands instead of %d", processes, many, few)
		}
	}
	herd(scaleProcesses, 5)

	for _, popularity := range []struct {
		name string
		of   func(rank int) float64
	}{
		{"uniform", func(int) float64 { return 1 }},
		{"Zipf (1/rank)", func(rank int) float64 { return 1 / float64(rank) }},
	} {
		t.Run(popularity.name, func(t *testing.T) { scaleTable(t, c, popularity.of) })
	}
}

// scaleTable computes what the whole fleet costs: keys do not know of each other, so it is the sum over them. Of the keys from each
// rank to its double one is simulated.
func scaleTable(t *testing.T, c costs, popularity func(rank int) float64) {
	var all float64
	for rank := 1; rank <= scaleKeys; rank++ {
		all += popularity(rank)
	}
	var bare, tiered, longer, locking, published, computing, least, most float64
	least = math.Inf(1)
	for from := 1; from <= scaleKeys; from *= 2 {
		until := min(2*from, scaleKeys+1)
		var rate float64
		for rank := from; rank < until; rank++ {
			rate += popularity(rank)
		}
		keys := float64(until - from)
		rate *= scaleRate / all / keys // of one key, in the fleet
		each := rate / scaleProcesses
		bare += keys * rate * reading(t, c, each)
		tiered += keys * rate * reading(t, c, each, MemoryTier(64<<20, 0))
		longer += keys * rate * reading(t, c, each, MemoryTier(64<<20, 10*time.Second))

		// A process takes part if a client of it comes while the page is computed.
		part := max(1, int(math.Round(scaleProcesses*(1-math.Exp(-each*scaleWork.Seconds())))))
		e := expire(t, c, part, min(max(each, 1), 10), false) // more clients in a process change nothing: see above
		if e.computations != 1 {
			t.Errorf("%d computations of a key that expired in %d processes", e.computations, part)
		}
		expiries := keys / (scaleFresh.Seconds() + 1/rate)
		locking += expiries * float64(e.scripts)
		published += expiries * float64(e.published)
		computing += expiries
		least, most = min(least, float64(part)), max(most, float64(part))
	}
	t.Logf("| GETs/s | %.0f |", bare)
	t.Logf("| GETs/s with a memory tier, maxAge 1 s | %.0f |", tiered)
	t.Logf("| GETs/s with a memory tier, maxAge 10 s | %.0f |", longer)
	t.Logf("| computations/s | %.0f |", computing)
	t.Logf("| processes that want a key while it is computed | %.0f to %.0f |", least, most)
	t.Logf("| commands of locking and storing/s | %.0f |", locking)
	t.Logf("| announcements/s | %.0f |", published)
	if bare > 1.001*scaleRate {
		t.Errorf("more than one GET for a hit: %.0f/s", bare)
	}
	if tiered > bare {
		t.Errorf("the memory tier costs GETs: %.0f/s instead of %.0f/s", tiered, bare)
	}
	if locking > scaleRate/10 {
		t.Errorf("%.0f commands of locking/s", locking)
	}
}

// counted asks a real Redis what the steps cost.
func counted(t *testing.T) (c costs) {
	t.Helper()
	server := redistest.Start(t)
	client := server.Client()
	opened, err := Redis(client, unique("scale")).open()
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*redisBackend)
	b.announcements(func(string, result) {})
	defer func() { _ = b.close(context.Background()) }()
	ctx := t.Context()
	lease := func(base string) lease {
		return lease{place: place{base: base, hash: "x"}, token: newToken(), lock: time.Minute, hold: time.Minute}
	}
	of := func(step func() error) int64 {
		t.Helper()
		was := commandsOf(t, client)
		if err := step(); err != nil {
			t.Fatal(err)
		}
		return commandsOf(t, client) - was
	}
	acquire := func(q query, want state) int64 {
		t.Helper()
		return of(func() error {
			found, err := b.acquire(ctx, q)
			if err == nil && found.state != want {
				err = fmt.Errorf("acquire: %v, want %v", found.state, want)
			}
			return err
		})
	}
	for _, base := range []string{"ns:v1:{warm}", "ns:v1:{key}"} { // the first time the server does not know the scripts
		holder := lease(base)
		c.won = acquire(query{lease: holder}, stateWon)
		c.held = acquire(query{lease: lease(base)}, stateHeld)
		waits := lease(base)
		b.inbox.once.Do(func() {}) // no subscription in between
		c.heldWaiting = acquire(query{lease: waits, waits: true}, stateHeld)
		c.heldAgain = acquire(query{lease: waits, waits: true}, stateHeld)
		c.stored = of(func() error {
			e := &entry.Entry{Token: holder.token, Key: "k", Status: 200, Fresh: time.Minute}
			_, err := b.finish(ctx, holder, completion{result: resultStored, entry: e, at: holder.place, ttl: time.Minute})
			return err
		}) - 1 // the announcement to one who waits: they are counted apart
		c.changed = acquire(query{lease: lease(base)}, stateChanged)
	}
	return c
}

// commandsOf returns how many commands a server has executed, those in scripts included.
func commandsOf(t *testing.T, client *redis.Client) (calls int64) {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		command, rest, ok := strings.Cut(line, ":calls=")
		if !ok || command == "cmdstat_info" || command == "cmdstat_hello" || strings.HasPrefix(command, "cmdstat_client") {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		calls += n
	}
	return calls
}
