package core

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
)

// The scripts are constant: none is made per key. Script.Run sends EVALSHA and falls back to EVAL
// when the server does not know the script (SCRIPT FLUSH, restart, failover).
var (
	//go:embed scripts/acquire.lua
	acquireSource string
	//go:embed scripts/extend.lua
	extendSource string
	//go:embed scripts/finish.lua
	finishSource string
	//go:embed scripts/release.lua
	releaseSource string
	//go:embed scripts/invalidate.lua
	invalidateSource string
	//go:embed scripts/drop.lua
	dropSource string

	acquireScript    = redis.NewScript(acquireSource)
	extendScript     = redis.NewScript(extendSource)
	finishScript     = redis.NewScript(finishSource)
	releaseScript    = redis.NewScript(releaseSource)
	invalidateScript = redis.NewScript(invalidateSource)
	dropScript       = redis.NewScript(dropSource)
)

const (
	// tmpFor is how long an encoded entry waits under its temporary key for the script that moves it.
	tmpFor = time.Minute
	// failMemory is how long failures count as being in a row.
	failMemory = 2 * time.Minute
	// generationSuffix makes the key of the generation to which a key's variants belong.
	generationSuffix = ":gen"
	// variantsPerKey is enforced by acquire.lua.
	variantsPerKey = 64
)

var namespacePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// Redis keeps responses and locks in Redis, for a whole fleet. The client is a
// *redis.Client (single node, or NewFailoverClient for Sentinel) or a
// *redis.ClusterClient; New refuses others, because herdgate could not bound the time that
// they wait. The client stays the caller's: Gate.Close does not close it. What asks Redis is a client made from it; see
// Instrument for hooks.
//
// Every key begins with the namespace ([a-zA-Z0-9._-], 1 to 64 characters). Services that share a
// namespace share responses; two that do not belong together need two.
//
// With ACLs the user needs the keys <namespace>:*, the channels
// <namespace>:v1:* (PUBLISH and SUBSCRIBE; the default of Redis 7 grants none), and the commands get, set, mget, getrange, del,
// rename, exists, pttl, pexpire, sadd, scard, srem, smembers, time, publish, subscribe, unsubscribe, eval and evalsha.
// Without the channels losers find out by polling.
func Redis(client redis.UniversalClient, namespace string, opts ...RedisOption) Backend {
	return redisOption{client: client, namespace: namespace, opts: opts}
}

type redisOption struct {
	client    redis.UniversalClient
	namespace string
	opts      []RedisOption
	signer    *entry.Signer
	compress  int // bodies of so many bytes; 0: none

	instruments []func(redis.UniversalClient) error
}

func (o redisOption) open() (backend, error) {
	var errs []error
	if !namespacePattern.MatchString(o.namespace) {
		errs = append(errs, fmt.Errorf("herdgate: core.Redis: namespace %q: use 1 to 64 of a-z, A-Z, 0-9, '.', '_', '-'", o.namespace))
	}
	for _, opt := range o.opts {
		if opt == nil {
			errs = append(errs, errors.New("herdgate: core.Redis: an option is nil: remove it"))
		} else if err := opt(&o); err != nil {
			errs = append(errs, err)
		}
	}
	trouble := newTroubles()
	client, nodes, end, err := bounded(o.client, trouble, o.instruments...)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, end())...)
	}
	prefix := o.namespace + ":v1:"
	b := &redisBackend{
		client:   client,
		nodes:    nodes,
		trouble:  trouble,
		calls:    func(ctx context.Context) error { return client.close(ctx, nodes()) },
		end:      end,
		signer:   o.signer,
		compress: o.compress,
		clock:    newFleetClock(),
		inbox:    newInbox(client, prefix+"inbox:", prefix+"invalidations", trouble),
	}
	b.limit.Store(headerRoom)
	return b, nil
}

type redisBackend struct {
	client   *guarded
	signer   *entry.Signer
	compress int          // bodies of so many bytes; 0: none
	limit    atomic.Int64 // no value that a route of this gate stores is longer
	nodes    func() []*node
	trouble  *troubles
	calls    func(ctx context.Context) error // waits for those under way
	end      func() error
	clock    *fleetClock
	inbox    *inbox
	reads    reads
}

func (b *redisBackend) report(log *slog.Logger, count func(cause)) { b.trouble.report(log, count) }

func (b *redisBackend) noLock(found answer, err error) { b.trouble.noLock(found.reason, err) }

func (b *redisBackend) breakers() []Breaker {
	var all []Breaker
	for _, n := range b.nodes() {
		all = append(all, n.breakers()...)
	}
	return all
}

func (b *redisBackend) announcements(deliver func(loc string, why result)) { b.inbox.deliver = deliver }

func (b *redisBackend) missed() { b.inbox.doubt() }

// tells makes the tier hear of invalidations, once it has something to lose by them.
func (b *redisBackend) tells(t *tier) { b.inbox.tier, t.listen = t, b.inbox.start }

func (b *redisBackend) close(ctx context.Context) error {
	return errors.Join(b.inbox.close(ctx), b.calls(ctx), b.end())
}

func (b *redisBackend) now() int64 {
	if now, known := b.clock.now(); known {
		return now
	}
	return time.Now().UnixMicro() // Redis has not answered yet: the wall clock is the best there is
}

func (b *redisBackend) read(ctx context.Context, loc string) (stored, error) {
	return b.reads.do(ctx, loc, b.get)
}

// get is a read that is not shared.
func (b *redisBackend) get(ctx context.Context, loc string, w *want) (stored, error) {
	began := time.Now()
	if _, known := b.clock.now(); !known { // once per process, before the first entry is judged
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBudget)
		t, err := b.client.Time(ctx).Result()
		cancel()
		if err != nil && !isReply(err) {
			return stored{}, err
		}
		if err == nil {
			b.clock.observe(t.UnixMicro())
		}
	}
	raw, generation, err := b.value(ctx, loc, w)
	switch {
	case isWrongType(err):
		b.trouble.count(causeCorrupt) // somebody else's value in our place: the next store replaces it
		return stored{}, nil
	case raw == nil || err != nil:
		return stored{}, err
	}
	s := b.decode(loc, raw)
	if s.entry == nil && s.record == nil {
		b.trouble.count(causeCorrupt)
	}
	if s.entry != nil && s.entry.Generation != generation {
		s.entry = nil // the key was invalidated when the index had forgotten this variant
	}
	if s.entry == nil && s.record == nil { // damaged: scripts would go on comparing with it
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBudget-time.Since(began))
		defer cancel()
		if dropScript.Run(ctx, b.client, []string{loc}, s.head()).Err() == nil {
			s.seen = nil
		}
	}
	return s, nil
}

// value returns what is stored at loc, nil for nothing, with the generation of the key's variants if it is one of these. Of a
// value that is longer than a route could have stored it reads no more than shows that.
func (b *redisBackend) value(ctx context.Context, loc string, w *want) (raw []byte, generation string, err error) {
	w.key, w.end = loc, b.limit.Load()
	if base := baseOf(loc); base != loc {
		w.beside = base + generationSuffix
	}
	b.client.fetch(ctx, w)
	raw, err = w.got.value.Bytes()
	if beside := w.got.beside; w.beside != "" {
		if generation = beside.Val(); err == nil && !isReply(beside.Err()) { // none, or another kind of value: no generation
			err = beside.Err()
		}
	}
	if len(raw) == 0 || err != nil {
		return nil, "", err
	}
	return raw, generation, nil
}

// headerRoom is how much longer than its body a stored value may be.
const headerRoom = 256 << 10

func (b *redisBackend) admit(body int64) {
	for limit := body + headerRoom; ; {
		was := b.limit.Load()
		if limit <= was || b.limit.CompareAndSwap(was, limit) {
			return
		}
	}
}

// baseOf returns the base location of a location: all up to the end of the hash tag.
func baseOf(loc string) string { return loc[:strings.IndexByte(loc, '}')+1] }

// decode returns what a value is, and neither entry nor record if it is none that belongs at loc.
func (b *redisBackend) decode(loc string, raw []byte) stored {
	s := stored{seen: raw[:min(len(raw), entry.HeadLen)], size: len(raw)}
	limit := b.limit.Load()
	if int64(len(raw)) > limit {
		return s
	}
	raw, ok := b.signer.Open(loc, raw)
	switch {
	case !ok:
	case !entry.IsRecord(raw):
		if s.entry, _ = entry.Decode(raw, limit-headerRoom); s.entry != nil && s.entry.Expanded {
			s.seen = bytes.Clone(s.seen) // not all of raw stays because of it
			s.size += len(s.entry.Body)
		}
	case baseOf(loc) == loc: // a variant has none
		s.record, _ = entry.DecodeRecord(raw)
	}
	return s
}

// namesPart is what acquire.lua compares of a vary record: all that follows its head and its checksum.
func namesPart(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return string((&entry.Record{Names: names}).Encode()[entry.HeadLen+4:])
}

func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

func (b *redisBackend) acquire(ctx context.Context, q query) (answer, error) {
	loc, inbox := q.loc(), ""
	if q.waits {
		inbox = *b.inbox.name.Load()
		b.inbox.start()
	}
	reply, err := acquireScript.Run(ctx, b.client,
		[]string{loc + ":lock", loc + ":claim", loc + q.class.markSuffix(), loc + q.class.failSuffix(), loc + ":wait", loc, q.base, q.base + ":idx", q.base + generationSuffix},
		q.token[:], ms(q.lock), ms(q.hold+q.lock), q.seen, namesPart(q.names), inbox, ms(2*q.lock+time.Second), q.variant, flag(q.hasStale),
	).Slice()
	if err != nil {
		return answer{}, err
	}
	return b.parseAcquire(reply)
}

func (b *redisBackend) parseAcquire(reply []any) (answer, error) {
	word, _ := at[string](reply, 0)
	n, _ := at[int64](reply, 1)
	remains := time.Duration(n) * time.Millisecond
	switch word {
	case "won":
		b.clock.observe(n)
		generation, _ := at[string](reply, 2)
		return answer{state: stateWon, grant: n, generation: generation}, nil
	case "held":
		holder, _ := at[string](reply, 2)
		return answer{state: stateHeld, remains: remains, holder: holder}, nil
	case "changed":
		head, _ := at[string](reply, 1)
		return answer{state: stateChanged, head: head}, nil
	case "uncacheable":
		claimed, _ := at[int64](reply, 2)
		grant, _ := at[int64](reply, 3)
		generation, _ := at[string](reply, 4)
		b.clock.observe(grant)
		return answer{state: stateUncacheable, remains: remains, claimed: claimed == 1, grant: grant, generation: generation}, nil
	case "failing":
		return answer{state: stateFailing, remains: remains}, nil
	case "nolock":
		reason, _ := at[string](reply, 1)
		return answer{state: stateNoLock, reason: reason}, nil
	}
	return answer{}, fmt.Errorf("herdgate: acquire.lua answered %v", reply)
}

func (b *redisBackend) extend(ctx context.Context, l lease) (tenure, error) {
	loc, generation := l.loc(), ""
	if l.variant != "" {
		generation = l.generation
	}
	word, err := extendScript.Run(ctx, b.client, []string{loc + ":lock", loc + ":claim", l.base + generationSuffix}, l.token[:], ms(l.lock), generation).Text()
	switch {
	case err != nil:
		return 0, err
	case word == "held":
		return tenureHeld, nil
	case word == "lost":
		return tenureLost, nil
	}
	return tenureRevoked, nil
}

func (b *redisBackend) finish(ctx context.Context, l lease, c completion) (verdict, error) {
	loc := l.loc()
	tmp := l.base + ":tmp:" + hex.EncodeToString(l.token[:])
	at, record, refused := l.place, "", false
	if c.result == resultStored {
		at = c.at
		if len(at.names) > 0 {
			record = string(b.signer.Seal(l.base, (&entry.Record{Grant: l.grant, Token: l.token, Names: at.names}).Encode()))
		}
		value := b.signer.Seal(at.loc(), b.encode(c.entry))
		refused = int64(len(value)) > b.limit.Load() // nobody would read it
		if !refused {
			err := b.client.Set(ctx, tmp, body(value), tmpFor).Err()
			if err != nil && !isReply(err) && !errors.Is(err, errNotAsked) {
				return 0, err
			}
			refused = err != nil // out of memory, or the like, or no answer to those before
		}
		if refused {
			c.result = resultGaveUp // the lock must go all the same
		}
	}
	var marks, memories, pauses, barePauses string
	switch c.result {
	case resultUncacheable, resultPersonal:
		marks = series(6, markFor, 1, 1.2)
		memories = series(6, func(n int) time.Duration { return 2*markFor(n) + time.Minute }, 1, 1)
	case resultFailed:
		pauses = series(9, func(n int) time.Duration { return backoff(n, true) }, 0.75, 1)
		barePauses = series(6, func(n int) time.Duration { return backoff(n, false) }, 0.75, 1)
	case resultStored, resultGaveUp:
	}
	word, err := finishScript.Run(ctx, b.client,
		[]string{loc + ":lock", loc + ":claim", loc + l.class.markSuffix(), loc + l.class.failSuffix(), loc + ":wait",
			tmp, at.loc(), l.base, l.base + ":idx", l.base + generationSuffix},
		l.token[:], string(c.result), loc, ms(max(c.ttl, time.Millisecond)), record, at.variant, namesPart(l.names),
		marks, memories, pauses, barePauses, ms(failMemory), l.generation,
	).Text()
	switch {
	case err != nil:
		return 0, err
	case word == "replaced":
		return verdictReplaced, nil
	case word == "invalidated":
		return verdictInvalidated, nil
	case refused:
		return verdictRefused, nil
	case strings.HasPrefix(word, "refused:"):
		b.trouble.refused(strings.TrimPrefix(word, "refused:"))
		return verdictRefused, nil
	}
	return verdictDone, nil
}

// encode compresses what the option asks for. A body with a content coding is compressed already.
func (b *redisBackend) encode(e *entry.Entry) []byte {
	if b.compress > 0 && len(e.Body) >= b.compress && headers.Get(e.Header, "Content-Encoding") == "" {
		return e.EncodeCompressed()
	}
	return e.Encode()
}

func (b *redisBackend) release(ctx context.Context, l lease) (had bool, err error) {
	loc := l.loc()
	n, err := releaseScript.Run(ctx, b.client, []string{loc + ":lock", loc + ":claim"}, l.token[:]).Int()
	return n > 0, err
}

func (b *redisBackend) invalidate(ctx context.Context, base string) error {
	return invalidateScript.Run(ctx, b.client, []string{base, base + ":idx"}, b.inbox.invalidations).Err()
}

// body keeps instrumentation from recording whole responses: redisotel prints arguments.
type body []byte

// MarshalBinary is what go-redis sends.
func (b body) MarshalBinary() ([]byte, error) { return b, nil }

// String is what anybody who prints the command sees.
func (b body) String() string { return fmt.Sprintf("<%d bytes>", len(b)) }

// isReply reports whether the server answered, with an error, rather than the connection having failed.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// ms rounds up, so that no lifetime becomes zero.
func ms(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// series lists f(1) to f(n) in ms, each multiplied by a random factor between low and high.
func series(n int, f func(int) time.Duration, low, high float64) string {
	factor := low + rand.Float64()*(high-low)
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(int64(float64(f(i).Milliseconds())*factor), 10))
	}
	return b.String()
}

func at[T any](reply []any, i int) (v T, ok bool) {
	if i < len(reply) {
		v, ok = reply[i].(T)
	}
	return v, ok
}
