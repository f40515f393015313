package entry

import "github.com/herdgate/herdgate/internal/headers"

// MaxRecord is the greatest length of a Record's stored form, in bytes: scripts read no more of one. A response that
// varies on more headers than fit in is not stored.
const MaxRecord = 4 << 10

// Record is stored under a key whose responses vary: it names the request headers that select the
// variant (RFC 9111 4.1). It has the same head as an Entry.
type Record struct {
	Grant int64    // fleet time in µs of the grant that stored it
	Token [16]byte // of that grant
	Names []string // canonical, sorted
}

// IsRecord reports whether a stored value is a Record, of whatever version.
func IsRecord(raw []byte) bool { return isKind(raw, kindRecord) }

// Encode returns the stored form of the record, in one allocation of the exact size.
func (r *Record) Encode() []byte {
	size := stringsSize(r.Names)
	out := begin(size, kindRecord, r.Grant, r.Token)
	out = appendStrings(out, r.Names)
	return seal(out, size)
}

// Fits reports whether the record is not longer than MaxRecord.
func (r *Record) Fits() bool { return metadataAt+stringsSize(r.Names) <= MaxRecord }

// DecodeRecord is the inverse of Record.Encode. The record keeps no reference to raw. It fails with
// ErrVersion or ErrCorrupt (also beyond MaxRecord) and never panics.
func DecodeRecord(raw []byte) (*Record, error) {
	if len(raw) > MaxRecord {
		return nil, ErrCorrupt
	}
	f, err := open(raw, kindRecord)
	if err != nil {
		return nil, err
	}
	in := newReader(f.metadata)
	r := &Record{Grant: f.grant, Token: f.token, Names: in.names()}
	if !in.done() || len(f.body) != 0 {
		return nil, ErrCorrupt
	}
	return r, nil
}

// names reads a list of header names.
func (r *reader) names() []string {
	n := r.count(2) // length and one byte each
	if n == 0 {
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = r.string()
		r.check(headers.IsToken(names[i]))
	}
	return names
}
