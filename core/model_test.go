package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/redistest"
)

// The model of the protocol: a few workers take their steps (acquire, extend, finish) in a random order against
// the real backend, and everything happens to them that the protocol is made for: a pause between any two steps, locks
// that run out or are evicted, requests and replies that get lost, commands that are sent again, workers that die, keys that are
// invalidated at any moment, also between the two commands of a finish.
//
// After every step the oracle looks at what is stored:
//
//   - no stale overwrite: an entry is never replaced by one that was granted earlier
//   - no resurrection: nothing is readable after an invalidation that was granted before it returned
//   - no mixing: what is readable at a place was computed for it by one worker, and an answer tells the truth about it
//   - one holder: while a lock stands, nobody else is granted it (not with the lock that grants everyone)
//   - no orphan: when all have ended, no lock is left but those of workers that died
//   - every key in Redis has a TTL
//
// It is repeatable: a failure prints the seed, which HERDGATE_MODEL_SEED takes, and the steps of the run.
type model struct {
	t    *testing.T
	rng  *rand.Rand
	b    backend
	peek backend // the same, without the faults
	raw  *redis.Client
	mem  *memory

	grantsAll bool
	places    []place // the base, then variants
	workers   []*worker
	seq       int // of grants and invalidations
	barrier   int // the last invalidation
	current   map[string]int
	holder    map[string]*worker // who has the lock at a location, as far as the protocol promises exclusion
	dead      map[token]bool
	seqs      map[token]int
	trace     []string
	violation string
	depth     int  // of steps inside a step
	over      bool // nothing new is begun
	cut       bool // the next script is lost
}

// A worker is one process's part, between two steps.
type worker struct {
	id     int
	phase  string // "", "asking", "working", "ending"
	lease  lease
	asked  query
	seq    int
	done   completion
	unsure bool // acquire's answer is not known
}

const modelNames = "Accept"

var errCut = errors.New("the connection was cut")

func newModel(t *testing.T, rng *rand.Rand, b, peek backend, run int) *model {
	m := &model{t: t, rng: rng, b: b, peek: peek, current: map[string]int{}, holder: map[string]*worker{}, dead: map[token]bool{}, seqs: map[token]int{}}
	base := place{base: fmt.Sprintf("model:v1:{%d}", run), key: "key"}
	m.places = []place{base}
	for i := range 2 {
		p := base
		p.variant, p.vary, p.names = fmt.Sprintf("%016x", i+1), fmt.Sprint(i), []string{modelNames}
		m.places = append(m.places, p)
	}
	for i := range 2 + rng.IntN(2) {
		m.workers = append(m.workers, &worker{id: i})
	}
	return m
}

func (m *model) say(format string, args ...any) {
	m.trace = append(m.trace, strings.Repeat("  ", m.depth)+fmt.Sprintf(format, args...))
}

func (m *model) violated(format string, args ...any) {
	if m.violation == "" {
		m.violation = fmt.Sprintf(format, args...)
		m.say("VIOLATION: %s", m.violation)
	}
}

// run takes the given number of steps, then lets everybody come to an end.
func (m *model) run(ctx context.Context, steps int) {
	for range steps {
		if m.violation != "" {
			return
		}
		m.step(ctx)
	}
	m.say("the end")
	m.over = true
	for _, w := range m.workers {
		for range 20 {
			if w.phase == "" || m.violation != "" {
				break
			}
			m.proceed(ctx, w, false)
		}
	}
	if m.violation == "" {
		m.orphans(ctx)
	}
}

func (m *model) step(ctx context.Context) {
	switch n := m.rng.IntN(100); {
	case n < 6:
		m.invalidate(ctx)
	case n < 12:
		m.lockRunsOut(ctx)
	case n < 15:
		m.forget(ctx)
	default:
		m.proceed(ctx, m.workers[m.rng.IntN(len(m.workers))], true)
	}
}

// proceed takes the next step of a worker. Without faults it goes straight to its end.
func (m *model) proceed(ctx context.Context, w *worker, faults bool) {
	switch w.phase {
	case "":
		if faults {
			m.ask(ctx, w)
		}
	case "asking":
		if w.unsure && (!faults || m.rng.IntN(2) == 0) {
			m.release(ctx, w, faults)
			return
		}
		if !faults {
			w.phase = ""
			return
		}
		m.ask(ctx, w)
	case "working":
		switch n := m.rng.IntN(10); {
		case n < 3 && faults:
			m.extend(ctx, w)
		case n == 3 && faults:
			m.die(w)
		default:
			m.decide(w)
			m.end(ctx, w, faults)
		}
	case "ending":
		m.end(ctx, w, faults)
	}
}

// ask is acquire: a new one, or the one before sent again.
func (m *model) ask(ctx context.Context, w *worker) {
	if w.phase == "" {
		p := m.places[m.rng.IntN(len(m.places))]
		l := lease{place: p, token: newToken(), lock: time.Minute, hold: time.Minute}
		if m.rng.IntN(5) == 0 {
			l.class = credentialed
		}
		got, err := m.peek.read(ctx, p.loc())
		if err != nil {
			m.t.Fatal(err)
		}
		if got.record != nil {
			p = m.places[1+m.rng.IntN(len(m.places)-1)]
			l.place = p
			if got, err = m.peek.read(ctx, p.loc()); err != nil {
				m.t.Fatal(err)
			}
		}
		w.asked = query{lease: l, seen: got.head(), waits: m.rng.IntN(2) == 0, hasStale: m.rng.IntN(2) == 0}
		w.phase = "asking"
	}
	fault := m.rng.IntN(8)
	if fault == 0 { // lost on its way there
		w.unsure = true
		m.say("%d acquire %s lost", w.id, m.name(w.asked.place))
		return
	}
	a, err := m.b.acquire(ctx, w.asked)
	if err != nil {
		m.t.Fatal(err)
	}
	loc := w.asked.loc()
	won := a.state == stateWon
	m.say("%d acquire %s: state %d claimed %v%s", w.id, m.name(w.asked.place), a.state, a.claimed, lostIf(fault == 1))
	if other := m.holder[loc]; won && other != nil && other != w && !m.grantsAll {
		m.violated("%d was granted the lock at %s that %d holds", w.id, m.name(w.asked.place), other.id)
	}
	if won {
		m.holder[loc] = w
	}
	if fault == 1 { // the answer is lost
		w.unsure = true
		return
	}
	w.unsure = false
	if !won && !a.claimed {
		w.phase = ""
		return
	}
	m.seq++
	w.seq, w.phase = m.seq, "working"
	m.seqs[w.asked.token] = m.seq
	w.lease = w.asked.lease
	w.lease.grant, w.lease.generation = a.grant, a.generation
}

// release cleans up after an acquire whose outcome is not known.
func (m *model) release(ctx context.Context, w *worker, faults bool) {
	if faults && m.rng.IntN(4) == 0 {
		m.say("%d release lost", w.id)
		return // it is tried again
	}
	if _, err := m.b.release(ctx, w.asked.lease); err != nil {
		m.t.Fatal(err)
	}
	m.say("%d release %s", w.id, m.name(w.asked.place))
	m.free(w, w.asked.loc())
	if faults && m.rng.IntN(4) == 0 {
		return // its answer is lost: once more
	}
	w.phase, w.unsure = "", false
}

func (m *model) extend(ctx context.Context, w *worker) {
	found, err := m.b.extend(ctx, w.lease)
	if err != nil {
		m.t.Fatal(err)
	}
	m.say("%d extend %s: %d", w.id, m.name(w.lease.place), found)
	if found == tenureHeld && m.holder[w.lease.loc()] != w && !m.grantsAll {
		m.violated("%d extended a lock at %s that is not its own", w.id, m.name(w.lease.place))
	}
}

func (m *model) die(w *worker) {
	m.say("%d dies", w.id)
	m.dead[w.lease.token] = true
	w.phase = ""
	m.free(w, w.lease.loc()) // its lock runs out; until then it may stand
}

// decide draws what became of the work.
func (m *model) decide(w *worker) {
	w.phase = "ending"
	at := w.lease.place
	switch n := m.rng.IntN(20); {
	case n < 12:
		if m.rng.IntN(2) == 0 && (at.variant == "" || m.rng.IntN(3) == 0) { // it belongs to a variant, this or another
			at = m.places[1+m.rng.IntN(len(m.places)-1)]
		}
		w.done = completion{result: resultStored, at: at, ttl: time.Minute, entry: &entry.Entry{
			Grant: w.lease.grant, Token: w.lease.token, Key: at.key, Vary: at.names, VaryKey: at.vary, Generation: m.generation(w.lease, at), Fresh: time.Minute, Status: 200,
			Body: fmt.Appendf(nil, "%d %s", w.seq, m.name(at)),
		}}
	case n < 14:
		w.done = completion{result: resultUncacheable}
	case n < 15:
		w.done = completion{result: resultPersonal}
	case n < 17:
		w.done = completion{result: resultFailed}
	default:
		w.done = completion{result: resultGaveUp}
	}
}

// end is finish, once or until it is answered.
func (m *model) end(ctx context.Context, w *worker, faults bool) {
	fault := 9
	if faults {
		fault = m.rng.IntN(10)
	}
	if fault == 0 {
		m.say("%d finish lost", w.id)
		return
	}
	m.cut = fault == 3
	v, err := m.b.finish(ctx, w.lease, w.done)
	m.cut = false
	if errors.Is(err, errCut) {
		m.say("%d finish %s cut off after the body", w.id, w.done.result)
		return
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.say("%d finish %s %s at %s (seq %d): %d%s", w.id, m.name(w.lease.place), w.done.result, m.name(w.done.at), w.seq, v, lostIf(fault == 1))
	m.free(w, w.lease.loc())
	if fault == 2 { // the watchdog's last command has taken another way and comes late
		m.extend(ctx, w)
	}
	m.look(ctx)
	if w.done.result == resultStored {
		got, err := m.peek.read(ctx, w.done.at.loc())
		if err != nil {
			m.t.Fatal(err)
		}
		mine := got.entry != nil && got.entry.Token == w.lease.token
		if mine != (v == verdictDone) {
			m.violated("%d was told %d about what it stored at %s, and it is there: %v", w.id, v, m.name(w.done.at), mine)
		}
	}
	if fault != 1 {
		w.phase = ""
	}
}

// generation is what a winner writes into what it stores at a place.
func (m *model) generation(l lease, at place) string {
	if at.variant == "" {
		return ""
	}
	return l.generation
}

func (m *model) invalidate(ctx context.Context) {
	if err := m.b.invalidate(ctx, m.places[0].base); err != nil {
		m.t.Fatal(err)
	}
	m.seq++
	m.barrier = m.seq
	m.say("invalidate (seq %d)", m.seq)
	clear(m.holder)
	m.look(ctx)
}

// lockRunsOut is a lock whose lifetime has ended, or that was evicted.
func (m *model) lockRunsOut(ctx context.Context) {
	p := m.places[m.rng.IntN(len(m.places))]
	m.say("the lock at %s runs out", m.name(p))
	delete(m.holder, p.loc())
	if m.mem != nil {
		m.mem.dropLock(p.base, p.loc())
		return
	}
	m.del(ctx, p.loc()+":lock")
}

// forget is what else ends with time: marks, failure counts, what the key varies on, or by eviction: claims, lists of inboxes.
func (m *model) forget(ctx context.Context) {
	p := m.places[m.rng.IntN(len(m.places))]
	what := []string{"mark", "markc", "fail", "failc", "wait", "claim", "idx", "gen"}[m.rng.IntN(8)]
	m.say("%s at %s is forgotten", what, m.name(p))
	if what == "claim" {
		delete(m.holder, p.loc()) // a lock without a claim is free
		for _, w := range m.workers {
			if w.unsure && w.asked.loc() == p.loc() {
				m.dead[w.asked.token] = true // nor will an acquire that is sent again know it: it is left to its lifetime
			}
		}
	}
	if m.mem != nil {
		m.mem.forget(p.base, p.loc(), what)
		return
	}
	if what == "idx" || what == "gen" {
		m.del(ctx, p.base+":"+what)
		return
	}
	m.del(ctx, p.loc()+":"+what)
}

func (m *model) del(ctx context.Context, key string) {
	if err := m.raw.Del(ctx, key).Err(); err != nil {
		m.t.Fatal(err)
	}
}

// free notes that a worker does not hold the lock any more.
func (m *model) free(w *worker, loc string) {
	if m.holder[loc] == w {
		delete(m.holder, loc)
	}
}

// look is the oracle: what is stored now, compared with what was.
func (m *model) look(ctx context.Context) {
	for _, p := range m.places {
		got, err := m.peek.read(ctx, p.loc())
		if err != nil {
			m.t.Fatal(err)
		}
		was := m.current[p.loc()]
		switch {
		case got.entry != nil:
			var seq int
			var at string
			if _, err := fmt.Sscan(string(got.entry.Body), &seq, &at); err != nil || at != m.name(p) {
				m.violated("%q is stored at %s", got.entry.Body, m.name(p))
			}
			if seq < was {
				m.violated("stale overwrite at %s: grant %d replaced grant %d", m.name(p), seq, was)
			}
			if seq < m.barrier {
				m.violated("resurrection at %s: grant %d is readable after the invalidation %d", m.name(p), seq, m.barrier)
			}
			m.current[p.loc()] = seq
		case got.record != nil:
			if seq := m.seqs[got.record.Token]; seq < was {
				m.violated("stale overwrite at %s: the vary record of grant %d replaced the entry of grant %d", m.name(p), seq, was)
			}
			delete(m.current, p.loc())
		default:
			delete(m.current, p.loc())
		}
	}
}

// orphans checks what is left when all have come to their end.
func (m *model) orphans(ctx context.Context) {
	if m.mem != nil {
		for loc, tok := range m.mem.lockTokens(m.places[0].base) {
			if !m.dead[tok] {
				m.violated("orphan lock at %s", loc)
			}
		}
		return
	}
	for _, p := range m.places {
		v, err := m.raw.Get(ctx, p.loc()+":lock").Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			m.t.Fatal(err)
		case !m.dead[token([]byte(v))]:
			m.violated("orphan lock at %s", m.name(p))
		}
	}
	if m.rng.IntN(10) > 0 && m.violation == "" {
		return
	}
	suffixes := []string{"", ":lock", ":claim", ":mark", ":markc", ":fail", ":failc", ":wait", ":idx", ":gen"}
	ttls := map[string]*redis.DurationCmd{}
	_, err := m.raw.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, place := range m.places {
			for _, s := range suffixes {
				ttls[place.loc()+s] = p.PTTL(ctx, place.loc()+s)
			}
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	for key, ttl := range ttls {
		if ttl.Val() == -1 {
			m.violated("%s has no TTL", key)
		}
	}
}

func (m *model) name(p place) string {
	for i, known := range m.places {
		if known.loc() == p.loc() {
			return fmt.Sprint("p", i)
		}
	}
	return "-"
}

func lostIf(lost bool) string {
	if lost {
		return ", answer lost"
	}
	return ""
}

// forget drops what has to do with one location, as time does.
func (m *memory) forget(base, loc, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(base, loc)
	switch what {
	case "mark":
		l.marks[anonymous] = memoryCount{}
	case "markc":
		l.marks[credentialed] = memoryCount{}
	case "fail":
		l.fails[anonymous] = memoryCount{}
	case "failc":
		l.fails[credentialed] = memoryCount{}
	case "claim":
		l.claim = memoryToken{}
	}
}

func (m *memory) lockTokens(base string) map[string]token {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, now := map[string]token{}, m.micros()
	if k := m.keys[base]; k != nil {
		for loc, l := range k.variants {
			if l.lock.expires > now {
				found[loc] = l.lock.token
			}
		}
	}
	return found
}

// A meddler is the client of the Redis backend in the model. Between the two commands of a finish it lets
// others take steps, and it can replace a script by one with a mistake.
type meddler struct {
	redisClient
	between func()
	cut     func() bool              // before each script: it is lost
	mutants map[string]*redis.Script // by the hash of the script that they replace
}

func (c *meddler) Set(ctx context.Context, key string, value any, ttl time.Duration) *redis.StatusCmd {
	cmd := c.redisClient.Set(ctx, key, value, ttl)
	if c.between != nil {
		c.between()
	}
	return cmd
}

func (c *meddler) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if c.cut != nil && c.cut() {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(errCut)
		return cmd
	}
	if mutant := c.mutants[sha]; mutant != nil {
		return mutant.Run(ctx, c.redisClient, keys, args...)
	}
	return c.redisClient.EvalSha(ctx, sha, keys, args...)
}

// modelOn is a world for runs of the model.
type modelOn struct {
	raw       *redis.Client
	client    *meddler
	redis     *redisBackend
	mem       *memory
	grantsAll bool
}

func modelRedis(t *testing.T, raw *redis.Client) *modelOn {
	t.Helper()
	b := opened(t, Redis(raw, "model")).(*redisBackend)
	c := &meddler{redisClient: direct{raw}} // with the user's timeouts: a busy machine is not a fault of the protocol
	b.client.redisClient = c
	return &modelOn{raw: raw, client: c, redis: b}
}

// play takes runs of the model and returns the violation that was found first, with its trace.
func (on *modelOn) play(t *testing.T, seed uint64, runs, steps int) (violation string, after int, trace []string) {
	t.Helper()
	ctx := context.Background()
	for run := range runs {
		var b backend
		if on.mem != nil {
			b = on.mem
		} else {
			b = on.redis
		}
		peek := b
		if on.grantsAll {
			b = everybody(t, b)
		}
		m := newModel(t, rand.New(rand.NewPCG(seed, uint64(run))), b, peek, run)
		m.raw, m.mem, m.grantsAll = on.raw, on.mem, on.grantsAll
		if on.client != nil {
			on.client.cut = func() bool {
				cut := m.cut
				m.cut = false
				return cut
			}
			on.client.between = func() {
				if m.over || m.depth > 0 || m.rng.IntN(2) > 0 {
					return
				}
				cut := m.cut // that of the step outside
				m.depth++
				m.cut = false
				defer func() { m.depth--; m.cut = cut }()
				for range 1 + m.rng.IntN(3) {
					m.stepBeside(ctx)
				}
			}
		}
		m.run(ctx, steps)
		if m.violation != "" {
			return m.violation, run, m.trace
		}
	}
	return "", runs, nil
}

// stepBeside is a step inside another: not of the worker that is in the middle of its own.
func (m *model) stepBeside(ctx context.Context) {
	free := []*worker{}
	for _, w := range m.workers {
		if w.phase != "ending" {
			free = append(free, w)
		}
	}
	all := m.workers
	m.workers = free
	defer func() { m.workers = all }()
	if len(free) == 0 {
		return
	}
	m.step(ctx)
}

func modelSeed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("HERDGATE_MODEL_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed
	}
	return rand.Uint64()
}

func TestModel(t *testing.T) {
	server := redistest.Start(t)
	for name, c := range map[string]struct {
		on   func(t *testing.T) *modelOn
		runs int
	}{
		"memory":                 {func(t *testing.T) *modelOn { return &modelOn{mem: memoryFor(t)} }, 2000},
		"memory, grant everyone": {func(t *testing.T) *modelOn { return &modelOn{mem: memoryFor(t), grantsAll: true} }, 1000},
		"redis":                  {func(t *testing.T) *modelOn { return modelRedis(t, server.Client()) }, 1500},
		"redis, grant everyone": {func(t *testing.T) *modelOn {
			on := modelRedis(t, server.Client())
			on.grantsAll = true
			return on
		}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			seed := modelSeed(t)
			t.Logf("HERDGATE_MODEL_SEED=%d", seed)
			server.Do("FLUSHALL")
			violation, run, trace := c.on(t).play(t, seed, c.runs, 30)
			if violation != "" {
				t.Fatalf("seed %d, run %d: %s\n%s", seed, run, violation, strings.Join(trace, "\n"))
			}
			redistest.CheckTTLs(t, server.Client())
		})
	}
}

// TestModelBites shows that the oracle finds what it is for: each of these mistakes in a script is found.
func TestModelBites(t *testing.T) {
	server := redistest.Start(t)
	for name, c := range map[string]struct {
		script    *redis.Script
		source    string
		old, new  string
		want      string // the violation
		grantsAll bool
	}{
		"finish does not check the claim": {
			finishScript, finishSource, "local mine = claim == token", "local mine = true", "", false},
		"the same with a lock that grants everyone": {
			finishScript, finishSource, "local mine = claim == token", "local mine = true", "", true},
		"finish does not compare grants across variants": {
			finishScript, finishSource, "if kind == 'hge' and theirs > ours then return true end", "", "stale overwrite", false},
		"finish does not delete the lock": {
			finishScript, finishSource, "if lock == token then gone[#gone + 1] = KEYS[1] end", "", "orphan", false},
		"finish deletes any lock": {
			finishScript, finishSource, "if lock == token then gone[#gone + 1] = KEYS[1] end", "gone[#gone + 1] = KEYS[1]", "holds", false},
		"invalidate leaves claims": {
			invalidateScript, invalidateSource, "loc .. ':claim', ", "", "resurrection", false},
		"release does not compare": {
			releaseScript, releaseSource, "have[i] == ARGV[1]", "true", "holds", false},
		"release forgets the lock": {
			releaseScript, releaseSource, "for i = 1, 2 do", "for i = 2, 2 do", "orphan", false},
		"acquire takes a held lock": {
			acquireScript, acquireSource, "if lock and lock == claim then", "if false then", "holds", false},
		"acquire does not know its own token": {
			acquireScript, acquireSource, "if lock == token and claim == token then", "if false then", "", false},
		"acquire writes no claim": {
			acquireScript, acquireSource, "set = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[3])", "", "", false},
		"a claim without a TTL": {
			acquireScript, acquireSource, "set = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[3])", "set = redis.pcall('SET', KEYS[2], token)", "TTL", false},
		"finish does not check the generation": {
			finishScript, finishSource, "or outdated()", "or nil", "", false},
		"invalidate leaves the generation": {
			invalidateScript, invalidateSource, "redis.call('DEL', KEYS[2], KEYS[1] .. ':gen')", "redis.call('DEL', KEYS[2])", "", false},
		"a generation without a TTL": {
			acquireScript, acquireSource, "SET', KEYS[9], token, 'NX', 'PX', ARGV[3])", "SET', KEYS[9], token, 'NX')", "TTL", false},
		"a vary record replaces a later entry": {
			finishScript, finishSource, "elseif kind == 'hge' and theirs > ours then", "elseif false then", "vary record", false},
		"extend makes a lock": {
			extendScript, extendSource, "return 'revoked'", "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 'revoked'", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(c.source, c.old) == 0 {
				t.Fatalf("the script does not contain %q any more: the mutant must follow it", c.old)
			}
			seed := modelSeed(t)
			server.Do("FLUSHALL")
			on := modelRedis(t, server.Client())
			on.grantsAll = c.grantsAll
			on.client.mutants = map[string]*redis.Script{c.script.Hash(): redis.NewScript(strings.Replace(c.source, c.old, c.new, 1))}
			violation, run, trace := on.play(t, seed, 2000, 30)
			if violation == "" || !strings.Contains(violation, c.want) {
				t.Fatalf("seed %d: %q in 2,000 runs, want a violation with %q", seed, violation, c.want)
			}
			t.Logf("seed %d, run %d: %s (%d steps)", seed, run, violation, len(trace))
		})
	}
}
