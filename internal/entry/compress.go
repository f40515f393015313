package entry

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A stored body that is shorter than the length in the metadata is one zstd frame of it.

// worthwhile is by which part of a body its compressed form is shorter at least, or it is stored as it is.
const worthwhile = 8

// One encoder and one decoder serve everybody at the same time. They start no goroutines.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // of the options
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		// What a frame says of its own size counts for nothing: there is room for as much as the metadata says.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// compress returns the compressed form of a body, or nil if it is not worthwhile.
func compress(body []byte) []byte {
	most := len(body) - max(1, len(body)/worthwhile)
	if most <= 0 {
		return nil
	}
	if small := encoder().EncodeAll(body, make([]byte, 0, most)); len(small) <= most {
		return small
	}
	return nil
}

// expand is the inverse of compress. It allocates size bytes and no more, whatever the frame claims.
func expand(small []byte, size int) (body []byte, ok bool) {
	body, err := decoder().DecodeAll(small, make([]byte, 0, size))
	return body, err == nil && len(body) == size
}
