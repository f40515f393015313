package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

func sample(body int) *Entry {
	return &Entry{
		Grant:        1_700_000_000_000_001,
		Token:        [16]byte([]byte("0123456789abcdef")),
		Key:          "12:shop.example12:/products/42",
		Vary:         []string{"Accept-Encoding", "Accept-Language"},
		VaryKey:      strings.Repeat("k", 32),
		Received:     1_700_000_000_200_000,
		Age:          3 * time.Second,
		Fresh:        5 * time.Minute,
		Stale:        5 * time.Minute,
		StaleIfError: time.Minute,
		OverStale:    time.Hour,
		Scope:        Everyone,
		Status:       200,
		Header: []headers.Field{
			{Op: headers.Set, Name: "Cache-Control", Value: "max-age=300, public"},
			{Op: headers.Set, Name: "Content-Type", Value: "application/json"},
			{Op: headers.Mute, Name: "Date"},
			{Op: headers.Set, Name: "Etag", Value: `"abc"`},
			{Op: headers.Del, Name: "Server"},
			{Op: headers.Add, Name: "Vary", Value: "Accept-Encoding, Accept-Language"},
		},
		Body: bytes.Repeat([]byte("x"), body),
	}
}

func TestRoundTrip(t *testing.T) {
	empty := &Entry{Status: 100, Body: []byte{}}
	extreme := &Entry{
		Grant: math.MinInt64, Received: math.MaxInt64, Status: 999, MustNotStale: true, Body: []byte{0},
		Age: MaxDuration, Fresh: MaxDuration, Stale: MaxDuration, StaleIfError: MaxDuration, OverStale: MaxDuration,
	}
	for name, e := range map[string]*Entry{"sample": sample(1000), "empty": empty, "extreme": extreme, "no body": sample(0)} {
		t.Run(name, func(t *testing.T) {
			raw := e.Encode()
			if len(raw) != cap(raw) {
				t.Errorf("%d bytes in an allocation of %d", len(raw), cap(raw))
			}
			if IsRecord(raw) {
				t.Error("taken for a record")
			}
			got, err := Decode(raw, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, e) {
				t.Errorf("decoded\n%+v, want\n%+v", got, e)
			}
		})
	}
}

func TestEncodeBoundsDurations(t *testing.T) {
	got, err := Decode((&Entry{Status: 200, Received: -1, Age: -1, Fresh: MaxDuration + 1}).Encode(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got.Received != 0 || got.Age != 0 || got.Fresh != MaxDuration {
		t.Errorf("Received %d, Age %v, Fresh %v", got.Received, got.Age, got.Fresh)
	}
}

// The body is the caller's memory and must not grow into what follows it.
func TestDecodeBodyIsCapped(t *testing.T) {
	raw := sample(10).Encode()
	buffer := append(slices.Clone(raw), "of somebody else"...)
	e, err := Decode(buffer[:len(raw)], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if &e.Body[0] != &buffer[len(raw)-10] {
		t.Error("the body was copied")
	}
	_ = append(e.Body, "grown"...)
	if got := string(buffer[len(raw):]); got != "of somebody else" {
		t.Errorf("an append to the body wrote %q", got)
	}
}

func TestHead(t *testing.T) {
	e := sample(10)
	raw := e.Encode()
	head := Head(raw)
	if len(head) != HeadLen || head != string(raw[:HeadLen]) {
		t.Errorf("Head = %q", head)
	}
	if got := int64(binary.BigEndian.Uint64([]byte(head[4:]))); got != e.Grant {
		t.Errorf("grant stamp in the head: %d", got)
	}
	if got := head[12:]; got != string(e.Token[:]) {
		t.Errorf("token in the head: %q", got)
	}
	for _, short := range []string{"", "hge", strings.Repeat("x", HeadLen-1)} {
		if got := Head([]byte(short)); got != short {
			t.Errorf("Head(%q) = %q", short, got)
		}
	}
}

// Any flipped bit and any truncation or extension is noticed, in entries and in records.
func TestDamage(t *testing.T) {
	record := &Record{Grant: 1, Token: [16]byte{2}, Names: []string{"Accept", "Accept-Language"}}
	for name, raw := range map[string][]byte{"entry": sample(300).Encode(), "entry without body": sample(0).Encode(), "record": record.Encode()} {
		t.Run(name, func(t *testing.T) {
			decode := func(raw []byte) error {
				_, err1 := Decode(raw, 1<<20)
				_, err2 := DecodeRecord(raw)
				if err1 == nil || err2 == nil {
					return nil
				}
				return errors.Join(err1, err2)
			}
			if err := decode(raw); err != nil {
				t.Fatal(err)
			}
			for bit := range len(raw) * 8 {
				damaged := slices.Clone(raw)
				damaged[bit/8] ^= 1 << (bit % 8)
				if err := decode(damaged); err == nil {
					t.Errorf("bit %d of byte %d flipped: no error", bit%8, bit/8)
				}
			}
			for n := range raw {
				if err := decode(raw[:n]); err == nil {
					t.Errorf("truncated to %d bytes: no error", n)
				}
				if n >= metadataAt {
					if err := decode(sealed(raw[:n])); err == nil {
						t.Errorf("truncated to %d bytes, with a right sum: no error", n)
					}
				}
			}
			if err := decode(sealed(append(slices.Clone(raw), 'x'))); err == nil {
				t.Error("extended, with a right sum: no error")
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	other := sample(1).Encode()
	other[3]++
	record := (&Record{}).Encode()
	otherRecord := (&Record{}).Encode()
	otherRecord[3]++
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, ErrCorrupt},
		{"another program's value", []byte(strings.Repeat("{}", 100)), ErrCorrupt},
		{"a record", record, ErrCorrupt},
		{"another version", other, ErrVersion},
		{"another version, with a right sum", sealed(other), ErrVersion},
		{"another version, of which only the first bytes are known", other[:4], ErrVersion},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Decode(tt.raw, 1<<20); !errors.Is(err, tt.want) {
				t.Errorf("Decode: %v, want %v", err, tt.want)
			}
		})
	}
	if _, err := DecodeRecord(otherRecord); !errors.Is(err, ErrVersion) {
		t.Errorf("DecodeRecord of another version: %v", err)
	}
	if !IsRecord(otherRecord) {
		t.Error("a record of another version is none")
	}
	if _, err := DecodeRecord(other); !errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodeRecord of an entry: %v", err)
	}
}

// Values with a right sum that still say what no Encode of a proper entry says.
func TestDecodeValidates(t *testing.T) {
	field := func(op headers.Op, name, value string) []headers.Field {
		return []headers.Field{{Op: op, Name: name, Value: value}}
	}
	for name, e := range map[string]*Entry{
		"status too small":           {Status: 99},
		"status too large":           {Status: 1000},
		"unknown scope":              {Status: 200, Scope: Everyone + 1},
		"unknown operation":          {Status: 200, Header: field('x', "A", "1")},
		"no name":                    {Status: 200, Header: field(headers.Set, "", "12345")},
		"name that is no token":      {Status: 200, Header: field(headers.Set, "A: b\r\nC", "1")},
		"value that ends the field":  {Status: 200, Header: field(headers.Add, "A", "1\r\nB: 2")},
		"value with NUL":             {Status: 200, Header: field(headers.Set, "A", "\x00")},
		"deletion with a value":      {Status: 200, Header: field(headers.Del, "A", "1")},
		"vary name that is no token": {Status: 200, Vary: []string{"A, B"}},
		"vary name of nothing":       {Status: 200, Vary: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(e.Encode(), 1<<20); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Decode: %v", err)
			}
		})
	}
	if _, err := DecodeRecord((&Record{Names: []string{"*,"}}).Encode()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodeRecord: %v", err)
	}
	if _, err := DecodeRecord(frameOf(kindRecord, []byte{0}, "body")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodeRecord with a body: %v", err)
	}
}

// Lengths that promise more than there is are refused before anything is allocated for them.
func TestDecodeAllocatesLittle(t *testing.T) {
	numbers := append(binary.AppendUvarint(nil, 200), make([]byte, 9)...) // Status, the other numbers zero
	huge := binary.AppendUvarint(nil, math.MaxUint64)
	large := binary.AppendUvarint(nil, math.MaxInt32)
	for name, metadata := range map[string][]byte{
		"key":                   slices.Concat(numbers, large),
		"key, overflowing":      slices.Concat(numbers, huge),
		"vary names":            slices.Concat(numbers, []byte{0, 0, 0}, large),
		"header fields":         slices.Concat(numbers, []byte{0, 0, 0, 0}, large),
		"header fields, padded": slices.Concat(numbers, []byte{0, 0, 0, 0}, binary.AppendUvarint(nil, 40_000), make([]byte, 100_000)),
		"number without end":    bytes.Repeat([]byte{0xff}, 100),
	} {
		t.Run(name, func(t *testing.T) {
			raw := frameOf(kindEntry, metadata, "")
			allocated := allocatedBy(func() {
				if _, err := Decode(raw, 1<<20); !errors.Is(err, ErrCorrupt) {
					t.Errorf("Decode: %v", err)
				}
			})
			if most := uint64(4*len(raw) + 4096); allocated > most {
				t.Errorf("%d bytes allocated for a value of %d", allocated, len(raw))
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	e := sample(64 << 10)
	raw := e.Encode()
	if got := testing.AllocsPerRun(100, func() { e.Encode() }); got > 1 {
		t.Errorf("Encode: %v allocations", got)
	}
	// The entry, its strings, its vary names, its fields.
	if got := testing.AllocsPerRun(100, func() { _, _ = Decode(raw, 1<<20) }); got > 4 {
		t.Errorf("Decode: %v allocations", got)
	}
	if got := allocatedBy(func() { _, _ = Decode(raw, 1<<20) }); got > 4096 {
		t.Errorf("Decode: %d bytes", got)
	}
}

// FuzzDecode gives Decode arbitrary bytes, and the same bytes with a right sum so that it also
// looks behind it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(sample(10).Encode())
	f.Add(sample(0).Encode())
	f.Add(sample(5000).EncodeCompressed())
	f.Add((&Entry{Status: 200}).Encode())
	f.Add((&Record{Names: []string{"Accept"}}).Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		check := func(raw []byte) {
			if e, err := Decode(raw, 1<<20); err == nil {
				again, err := Decode(e.Encode(), 1<<20)
				e.Expanded = false
				if err != nil || !reflect.DeepEqual(again, e) {
					t.Errorf("%+v becomes %+v, %v", e, again, err)
				}
			} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("unexpected error %v", err)
			}
			if r, err := DecodeRecord(raw); err == nil {
				again, err := DecodeRecord(r.Encode())
				if err != nil || !reflect.DeepEqual(again, r) {
					t.Errorf("%+v becomes %+v, %v", r, again, err)
				}
			}
		}
		check(raw)
		if len(raw) >= metadataAt {
			check(sealed(raw))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "64KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			e := sample(size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				e.Encode()
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "64KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			raw := sample(size).Encode()
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := Decode(raw, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// sealed returns a copy of a frame with the sum that belongs to it.
func sealed(raw []byte) []byte {
	raw = slices.Clone(raw)
	binary.BigEndian.PutUint32(raw[sumAt:], checksum(raw))
	return raw
}

func frameOf(kind byte, metadata []byte, body string) []byte {
	out := begin(len(metadata)+len(body), kind, 0, [16]byte{})
	out = append(append(out, metadata...), body...)
	return seal(out, len(metadata))
}

// allocatedBy returns how many bytes one call of f allocates: the least of several runs, because
// the runtime and the test framework allocate now and then, too.
func allocatedBy(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
