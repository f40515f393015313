// Package entry is the stored form of a response.
package entry

import (
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// HeadLen is the length of the head with which every stored value begins: magic and format version
// (4 bytes), grant stamp (8 bytes, big endian), token (16 bytes). Scripts compare heads without
// reading the body.
const HeadLen = 28

// MaxDuration bounds every age, lifetime and window: 2^31 seconds, what RFC 9111 1.2.2 prescribes
// for anything larger. The sum of any four of them still fits a time.Duration.
const MaxDuration = 1 << 31 * time.Second

// Scope says for whom a stored response is shareable besides requests without credentials.
type Scope uint8

// The scopes, each including those before it.
const (
	Anonymous     Scope = iota // requests without (uncovered) credentials only
	Authorization              // also requests whose only credential is Authorization (must-revalidate, RFC 9111 3.5)
	Everyone                   // every request (public, s-maxage)
)

// Entry is one stored response and what a reader needs to judge it.
type Entry struct {
	Grant int64    // fleet time in µs at which the computation was granted
	Token [16]byte // of the grant that stored it

	Key     string   // the canonical key: a reader compares it, so that a swapped value is a miss
	Vary    []string // canonical names, sorted
	VaryKey string   // what the request had for them, hashed

	Generation string // of the key's variants to which it belongs, "" if it is none or the store forgets nothing

	Received     int64         // fleet time in µs at which the response was complete, never negative
	Age          time.Duration // its age at that moment (upstream caches)
	Fresh        time.Duration // freshness lifetime, counted from age 0
	Stale        time.Duration // how long after that it may be served while one refreshes
	StaleIfError time.Duration // how long after Fresh it may stand in for a failure
	OverStale    time.Duration // how long after Fresh the route may serve it instead of a 503
	MustNotStale bool          // nobody may have it stale, whoever would be content with that (RFC 9111 4.2.4). The windows are zero
	Scope        Scope

	Status int
	Header []headers.Field // stripped: every field is headers.Valid
	Body   []byte

	Expanded bool // Decode made Body: it was compressed. Not stored
}

// AgeAt returns the age of the response at the fleet time now (RFC 9111 4.2.3): between Age and
// MaxDuration, also when the clock went back.
func (e *Entry) AgeAt(now int64) time.Duration {
	const most = int64(MaxDuration / time.Microsecond)
	resident := time.Duration(min(max(0, now-e.Received), most)) * time.Microsecond
	return min(e.Age+resident, MaxDuration)
}

// FreshAt returns how long the entry is still fresh at the fleet time now. It is stale from zero
// on: a response is fresh while its lifetime exceeds its age (RFC 9111 4.2).
func (e *Entry) FreshAt(now int64) time.Duration { return e.Fresh - e.AgeAt(now) }
