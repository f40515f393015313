package core

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
)

// A Backend is where a gate keeps responses and locks: Redis, Memory or Off.
type Backend interface {
	// open makes the backend of one gate. It does no I/O.
	open() (backend, error)
}

// backend keeps entries, locks and claims. There are two: Redis, for a fleet, and
// memory, for one process. Both honour the same contract (backend_test.go):
//
//   - The lock decides who computes, the claim decides who may store. Neither is ever
//     without a lifetime.
//   - Every method is idempotent by token: a command that is sent twice does no harm and
//     gives the same answer.
//   - An error means that the outcome is unknown.
type backend interface {
	// read returns what is stored at a location. Damaged values are a miss.
	read(ctx context.Context, loc string) (stored, error)

	// acquire looks again and tries to take the lock, in one atomic step.
	acquire(ctx context.Context, q query) (answer, error)

	// extend renews the lock if it is still the token's, and never creates one.
	extend(ctx context.Context, l lease) (tenure, error)

	// finish stores what there is to store if the claim is still the token's, ends the lock
	// whatever fails, and announces why it ended to the processes that wait.
	finish(ctx context.Context, l lease, c completion) (verdict, error)

	// release gives back a lock whose acquire had an unknown outcome, and reports whether there was anything to
	// give back. (The acquire may still be on its way.)
	release(ctx context.Context, l lease) (had bool, err error)

	// invalidate removes every variant of the key at base, with its claim and its lock.
	invalidate(ctx context.Context, base string) error

	// admit says that a route stores bodies of up to so many bytes. What is longer than any route could have stored is
	// damaged, and is not read.
	admit(body int64)

	// now is the fleet's time in µs, without I/O.
	now() int64

	// announcements sets the function that is called with the location and the reason whenever a lock
	// ended for which this process waits. It is called before any other method.
	announcements(deliver func(loc string, why result))

	// missed takes that an announcement did not come: the lock for which this process was waiting has ended all the same.
	missed()

	// report sets where trouble is logged and counted. It is called before any other method.
	report(log *slog.Logger, count func(cause))

	// noLock takes why a caller goes on without a lock: what acquire answered, or its error.
	noLock(found answer, err error)

	// breakers returns the states of the breakers, none where there is nothing to break.
	breakers() []Breaker

	close(ctx context.Context) error
}

// stored is what a location holds: an entry, a record of what the key varies on, or neither.
type stored struct {
	entry  *entry.Entry
	record *entry.Record
	seen   []byte // the raw head as seen, for acquire: whether somebody stored since
	size   int
}

// head is the head of what was seen, "" if there was nothing.
func (s stored) head() string { return string(s.seen) }

// place is where the response to a request belongs: the key's base location, or the
// location of one of its variants.
type place struct {
	base    string   // <namespace>:v1:{<hash>}
	hash    string   // of the key
	variant string   // "" for the base location
	key     string   // the canonical key
	names   []string // the request headers that are known to make variants
	vary    string   // what the request has for them and for the chosen headers
}

func (p place) loc() string {
	if p.variant == "" {
		return p.base
	}
	return p.base + ":" + p.variant
}

type token [16]byte

// newToken returns 128 random bits. crypto/rand never fails without ending the
// process (since Go 1.24), so there is never a predictable token.
func newToken() (t token) {
	_, _ = rand.Read(t[:])
	return t
}

// lease is the right to compute, and maybe to store, what belongs at a place.
type lease struct {
	place
	token token
	grant int64 // fleet time at which it was granted
	// generation is that of the variants that the winner may store; an invalidation ends it. "" in memory, where nothing
	// forgets a variant before it is gone.
	generation string
	class      class
	lock       time.Duration // lifetime of the lock
	hold       time.Duration // hold cap: the claim lives as long as this and one lock more
}

// query is what acquire asks.
type query struct {
	lease
	seen     string // the head that the reader saw, "" for a miss
	waits    bool   // announce the end of somebody else's lock to this process
	hasStale bool   // a stale copy can stand in: the failure back-off may be long
}

// state is what acquire found.
type state uint8

const (
	stateWon         state = iota // compute: the lock and the claim are yours
	stateHeld                     // somebody else computes
	stateChanged                  // somebody stored since the reader looked: read again, no lock was taken
	stateUncacheable              // the key is known not to be cacheable: run the handler, do not wait
	stateFailing                  // the key's computation failed lately: leave it alone for a while
	stateNoLock                   // the backend cannot lock now (out of memory, read-only, no permission)
)

type answer struct {
	state   state
	remains time.Duration // held: of the lock; uncacheable, failing: of that state
	holder  string        // held: whose lock it is
	head    string        // changed: of what is stored now, "" if that is nothing or the vary record has changed
	claimed bool          // uncacheable: the response may be stored if it has become cacheable
	grant   int64         // won, or claimed: fleet time in µs

	generation string // likewise
	reason     string // no lock: what the backend said
}

// tenure is what extend found.
type tenure uint8

const (
	tenureHeld    tenure = iota // the lock is ours and was renewed
	tenureLost                  // the lock is not ours any more, the claim is
	tenureRevoked               // the claim is gone too: invalidated or replaced
)

// result says how a computation ended. It is announced to other processes by these words.
type result string

const (
	resultStored      result = "stored"      // a shareable response
	resultUncacheable result = "uncacheable" // the response is not shareable with anybody
	resultPersonal    result = "personal"    // not shareable because the request had credentials
	resultFailed      result = "failed"
	resultGaveUp      result = "gave-up" // no response: the client left before the work began, or the key was invalidated
)

// completion is what finish does.
type completion struct {
	result result
	entry  *entry.Entry // with resultStored
	at     place        // with resultStored: where the response belongs, once its Vary is known
	ttl    time.Duration
}

// verdict is what finish found.
type verdict uint8

const (
	verdictDone        verdict = iota // stored, or ended without anything to store
	verdictReplaced                   // not stored: a later grant holds the claim
	verdictInvalidated                // not stored: the claim is gone
	verdictRefused                    // not stored: the backend would not take it (out of memory); the claim was ours
	verdictUnknown                    // the backend did not answer
)

// backoff is the pause after the nth failure in a row of a key, before jitter.
func backoff(n int, hasStale bool) time.Duration {
	if !hasStale {
		if n < 3 {
			return 0
		}
		return min(250*time.Millisecond<<min(n-3, 2), time.Second)
	}
	return min(250*time.Millisecond<<min(max(n-1, 0), 7), 30*time.Second)
}

// markFor is how long a key counts as uncacheable after the nth such response in a row.
func markFor(n int) time.Duration {
	return min(5*time.Second<<min(max(n-1, 0), 5), 2*time.Minute)
}
