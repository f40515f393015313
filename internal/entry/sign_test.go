package entry

import (
	"bytes"
	"slices"
	"testing"
)

func TestSignature(t *testing.T) {
	signer := &Signer{Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}}
	raw := sample(10).Encode()
	signed := signer.Seal("shop:v1:{a}", slices.Clone(raw))
	if len(signed) != len(raw)+SignatureLen {
		t.Errorf("%d bytes became %d", len(raw), len(signed))
	}
	if got, ok := signer.Open("shop:v1:{a}", signed); !ok || !bytes.Equal(got, raw) || cap(got) != len(raw) {
		t.Errorf("Open: %v, %d bytes with capacity %d", ok, len(got), cap(got))
	}

	if _, ok := signer.Open("shop:v1:{b}", signed); ok {
		t.Error("a value was accepted at another location")
	}
	for bit := range len(signed) * 8 {
		damaged := slices.Clone(signed)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, ok := signer.Open("shop:v1:{a}", damaged); ok {
			t.Fatalf("bit %d flipped, and accepted", bit)
		}
	}
	for n := range signed {
		if _, ok := signer.Open("shop:v1:{a}", signed[:n]); ok {
			t.Fatalf("accepted when cut to %d bytes", n)
		}
	}
	if _, ok := signer.Open("shop:v1:{a}", raw); ok {
		t.Error("an unsigned value was accepted")
	}
	if _, err := Decode(signed, 1<<20); err == nil {
		t.Error("a reader without keys accepted a signed value")
	}
}

// Rotation: first every process accepts the new key, then every process signs with it, then the old one goes.
func TestRotation(t *testing.T) {
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	for _, test := range []struct {
		writer, reader [][]byte
		ok             bool
	}{
		{[][]byte{one}, [][]byte{one, two}, true},
		{[][]byte{one, two}, [][]byte{two, one}, true},
		{[][]byte{two, one}, [][]byte{one, two}, true},
		{[][]byte{two}, [][]byte{two, one}, true},
		{[][]byte{one}, [][]byte{two}, false},
		{[][]byte{one, two}, [][]byte{two}, false},
	} {
		signed := (&Signer{Keys: test.writer}).Seal("a", []byte("value"))
		if _, ok := (&Signer{Keys: test.reader}).Open("a", signed); ok != test.ok {
			t.Errorf("written with %v, read with %v: %v", test.writer, test.reader, ok)
		}
	}
}

func TestNoSigner(t *testing.T) {
	var none *Signer
	if got, ok := none.Open("a", none.Seal("a", []byte("value"))); !ok || string(got) != "value" {
		t.Errorf("%q, %v", got, ok)
	}
}
