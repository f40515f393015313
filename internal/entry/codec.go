package entry

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// The metadata of an entry: the numbers of Entry.numbers, Key, VaryKey, Generation, Vary, Header. Numbers and
// lengths are uvarints, a string is its length and its bytes, a list its length and its elements, a
// field its operation, name and value. The length of the body among the numbers is what it has when it is not compressed.

// Encode returns the stored form of the entry, in one allocation of the exact size. Durations
// outside 0 to MaxDuration are brought into that range. The entry must be one that Decode accepts:
// a Status of three digits, Vary names that are tokens, a Header that went through headers.Strip.
func (e *Entry) Encode() []byte { return e.encode(e.Body) }

// EncodeCompressed is Encode with a compressed body, where that makes it an eighth shorter at least.
func (e *Entry) EncodeCompressed() []byte {
	if small := compress(e.Body); small != nil {
		return e.encode(small)
	}
	return e.Encode()
}

func (e *Entry) encode(body []byte) []byte {
	numbers := e.numbers()
	size := stringSize(e.Key) + stringSize(e.VaryKey) + stringSize(e.Generation) + stringsSize(e.Vary) + numberSize(uint64(len(e.Header)))
	for _, n := range numbers {
		size += numberSize(n)
	}
	for i := range e.Header {
		size += 1 + stringSize(e.Header[i].Name) + stringSize(e.Header[i].Value)
	}

	out := begin(size+len(body), kindEntry, e.Grant, e.Token)
	for _, n := range numbers {
		out = binary.AppendUvarint(out, n)
	}
	out = appendString(out, e.Key)
	out = appendString(out, e.VaryKey)
	out = appendString(out, e.Generation)
	out = appendStrings(out, e.Vary)
	out = binary.AppendUvarint(out, uint64(len(e.Header)))
	for i := range e.Header {
		out = append(out, byte(e.Header[i].Op))
		out = appendString(out, e.Header[i].Name)
		out = appendString(out, e.Header[i].Value)
	}
	out = append(out, body...)
	return seal(out, size)
}

// Decode is the inverse of Encode and EncodeCompressed. The entry takes raw over: Body is its last part, with no
// capacity beyond, so raw may neither be modified nor reused as long as the entry lives, and the
// entry is read-only to everybody who shares it. The strings share one copy of the metadata. A compressed
// body has an allocation of its own, and is at most so many bytes long.
//
// It fails with ErrVersion (written by another version) or ErrCorrupt (anything else). It never
// panics, and allocates no more than a small multiple of len(raw), and most, whatever raw claims.
func Decode(raw []byte, most int64) (*Entry, error) {
	f, err := open(raw, kindEntry)
	if err != nil {
		return nil, err
	}
	in := newReader(f.metadata)
	e := &Entry{ // calls are evaluated in the order in which they are written here
		Grant:        f.grant,
		Token:        f.token,
		Status:       int(in.number(999)),
		Scope:        Scope(in.number(uint64(Everyone))),
		Received:     int64(in.number(math.MaxInt64)),
		Age:          in.duration(),
		Fresh:        in.duration(),
		Stale:        in.duration(),
		StaleIfError: in.duration(),
		OverStale:    in.duration(),
		MustNotStale: in.number(1) == 1,
		Body:         f.body,
	}
	in.check(e.Status >= 100)
	size, stored := in.number(math.MaxInt64), uint64(len(f.body))
	in.check(size == stored || size > stored && size <= uint64(max(0, most)))
	e.Key = in.string()
	e.VaryKey = in.string()
	e.Generation = in.string()
	e.Vary = in.names()
	e.Header = in.header()
	if !in.done() {
		return nil, ErrCorrupt
	}
	if size != stored {
		if e.Body, e.Expanded = expand(f.body, int(size)); !e.Expanded {
			return nil, ErrCorrupt
		}
	}
	return e, nil
}

// numbers returns the numbers of the metadata, in the order in which Decode reads them.
func (e *Entry) numbers() [10]uint64 {
	var mustNotStale uint64
	if e.MustNotStale {
		mustNotStale = 1
	}
	return [...]uint64{
		uint64(e.Status), uint64(e.Scope), uint64(max(0, e.Received)),
		bounded(e.Age), bounded(e.Fresh), bounded(e.Stale), bounded(e.StaleIfError), bounded(e.OverStale), mustNotStale,
		uint64(len(e.Body)),
	}
}

func bounded(d time.Duration) uint64 { return uint64(min(max(0, d), MaxDuration)) }

func numberSize(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }
func stringSize(s string) int { return numberSize(uint64(len(s))) + len(s) }
func stringsSize(s []string) int {
	size := numberSize(uint64(len(s)))
	for i := range s {
		size += stringSize(s[i])
	}
	return size
}

func appendString(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

func appendStrings(out []byte, s []string) []byte {
	out = binary.AppendUvarint(out, uint64(len(s)))
	for i := range s {
		out = appendString(out, s[i])
	}
	return out
}

// reader takes metadata apart. The first thing that does not fit makes it bad; from then on it
// returns zero values, so that its user asks once, at the end.
type reader struct {
	rest []byte
	text string // the same bytes as a string: what is read from it needs no allocation of its own
	bad  bool
}

func newReader(metadata []byte) reader { return reader{rest: metadata, text: string(metadata)} }

// done reports whether everything was read and nothing was wrong.
func (r *reader) done() bool { return !r.bad && len(r.rest) == 0 }

func (r *reader) check(ok bool) {
	if !ok {
		r.bad, r.rest, r.text = true, nil, ""
	}
}

func (r *reader) skip(n int) { r.rest, r.text = r.rest[n:], r.text[n:] }

// number reads a number, at most the given one.
func (r *reader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.check(n > 0 && v <= most); r.bad {
		return 0
	}
	r.skip(n)
	return v
}

func (r *reader) duration() time.Duration { return time.Duration(r.number(uint64(MaxDuration))) }

// count reads the length of a list whose elements take at least size bytes each. It is bounded by
// what is left, so that a list may be allocated before it is read.
func (r *reader) count(size int) int {
	n := r.number(math.MaxInt32)
	if r.check(n <= uint64(len(r.rest)/size)); r.bad {
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.number(math.MaxInt32)
	if r.check(n <= uint64(len(r.rest))); r.bad {
		return ""
	}
	s := r.text[:n]
	r.skip(int(n))
	return s
}

func (r *reader) op() headers.Op {
	if r.check(len(r.rest) > 0); r.bad {
		return 0
	}
	op := headers.Op(r.rest[0])
	r.skip(1)
	return op
}

func (r *reader) header() []headers.Field {
	n := r.count(4) // operation, two lengths and one byte of a name each
	if n == 0 {
		return nil
	}
	fields := make([]headers.Field, n)
	for i := range fields {
		f := headers.Field{Op: r.op(), Name: r.string(), Value: r.string()}
		r.check(validField(f))
		fields[i] = f
	}
	return fields
}

func validField(f headers.Field) bool {
	switch f.Op {
	case headers.Set, headers.Add:
		return headers.Valid(f.Name, f.Value)
	case headers.Del, headers.Mute:
		return headers.Valid(f.Name, "") && f.Value == ""
	}
	return false
}
