package entry

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestCompressedRoundTrip(t *testing.T) {
	noise := make([]byte, 10_000)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	for name, tt := range map[string]struct {
		body       []byte
		compressed bool
	}{
		"text":             {bytes.Repeat([]byte("herdgate "), 1000), true},
		"noise":            {noise, false},
		"hardly":           {append(bytes.Repeat([]byte("x"), 700), noise...), false},
		"nothing":          {nil, false},
		"one byte":         {[]byte("x"), false},
		"many equal bytes": {make([]byte, 1<<20), true},
	} {
		t.Run(name, func(t *testing.T) {
			e := sample(0)
			e.Body = tt.body
			raw := e.EncodeCompressed()
			if most := len(e.Encode()); len(raw) > most || tt.compressed && len(raw) > most-len(tt.body)/worthwhile {
				t.Errorf("%d bytes, %d without compression", len(raw), most)
			}
			got, err := Decode(raw, int64(len(tt.body)))
			if err != nil || !bytes.Equal(got.Body, tt.body) || got.Expanded != tt.compressed || got.Key != e.Key {
				t.Fatalf("%v, expanded %t, %d bytes of %d", err, got.Expanded, len(got.Body), len(tt.body))
			}
			if cap(got.Body) != len(got.Body) {
				t.Errorf("room for %d bytes in a body of %d", cap(got.Body), len(got.Body))
			}
			if _, err := Decode(raw, int64(len(tt.body))-1); tt.compressed && !errors.Is(err, ErrCorrupt) {
				t.Errorf("longer than a route stores: %v", err)
			}
		})
	}
}

// forged is an entry that says that its body is so long, with a right sum.
func forged(body []byte, says int) []byte {
	e := sample(0)
	e.Body = make([]byte, says)
	return e.encode(body)
}

// A frame may claim what it wants: no more is allocated than the metadata says, and no more than a route stores.
func TestBombs(t *testing.T) {
	const most = 1 << 20
	bomb := encoder().EncodeAll(make([]byte, 32<<20), nil) // in a few KiB
	unsized := func(n int) []byte {                        // does not tell its length
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(32<<20))
		if err != nil {
			t.Fatal(err)
		}
		for range n >> 20 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}(16 << 20)
	text := encoder().EncodeAll(bytes.Repeat([]byte("herdgate "), 1000), nil)
	for name, raw := range map[string][]byte{
		"says what it is":                  forged(bomb, 32<<20),
		"says less":                        forged(bomb, most),
		"does not say":                     forged(unsized, most),
		"says a byte too many":             forged(text, 9001),
		"says a byte too few":              forged(text, 8999),
		"two frames":                       forged(append(bytes.Clone(text), text...), 9000),
		"half a frame":                     forged(text[:len(text)/2], 9000),
		"no frame":                         forged(nil, 9000),
		"not a frame":                      forged([]byte("not a frame"), 9000),
		"a frame that is as long as it is": forged(text, len(text)-1),
	} {
		t.Run(name, func(t *testing.T) {
			_, _ = Decode(raw, most) // what the decoder keeps for the next
			var err error
			if got := allocatedBy(func() { _, err = Decode(raw, most) }); got > 2*most {
				t.Errorf("%d bytes allocated", got)
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Every flipped bit and every truncation of a compressed entry is found.
func TestCompressedCorruption(t *testing.T) {
	e := sample(0)
	e.Body = bytes.Repeat([]byte("herdgate "), 200)
	raw := e.EncodeCompressed()
	for i := range raw {
		for bit := range 8 {
			mutant := bytes.Clone(raw)
			mutant[i] ^= 1 << bit
			if _, err := Decode(mutant, 1<<20); err == nil {
				t.Fatalf("bit %d of byte %d", bit, i)
			}
		}
		if _, err := Decode(raw[:i:i], 1<<20); err == nil {
			t.Fatalf("cut after %d bytes", i)
		}
	}
}

func BenchmarkCompressed(b *testing.B) {
	e := sample(0)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < 1000; i++ { // about as much as JSON has in it
		e.Body = append(e.Body, []byte(`{"id":`)...)
		for range 8 {
			e.Body = append(e.Body, '0'+byte(r.IntN(10)))
		}
		e.Body = append(e.Body, []byte(`,"name":"a product of the herdgate shop","stock":true},`)...)
	}
	raw := e.EncodeCompressed()
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(e.Body)))
		b.ReportMetric(float64(len(raw))/float64(len(e.Body)), "of-the-size")
		for b.Loop() {
			e.EncodeCompressed()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(e.Body)))
		for b.Loop() {
			if _, err := Decode(raw, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}
