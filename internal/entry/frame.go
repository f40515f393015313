package entry

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The frame of every stored value:
//
//	 0  "hg"
//	 2  kind, 'e' (entry) or 'r' (vary record)
//	 3  Version
//	 4  grant stamp, big endian
//	12  token
//	28  CRC-32C of everything but these four bytes, big endian
//	32  length of the metadata, big endian
//	36  metadata
//	    body, up to the end
//
// The check is against accidents (a truncated value, a flipped bit, another program's data), not
// against somebody who can write to the store.
const (
	sumAt      = HeadLen
	lengthAt   = sumAt + 4
	metadataAt = lengthAt + 4

	kindEntry  = 'e'
	kindRecord = 'r'
)

// Version is the version of the format, part of every stored value and of every key.
const Version = 1

var (
	// ErrVersion says that a value was written in another version of the format: a miss.
	ErrVersion = errors.New("entry: other format version")
	// ErrCorrupt says that a value is none of ours, or damaged: a miss, too.
	ErrCorrupt = errors.New("entry: corrupt")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Head returns the head of a stored value, by which scripts recognise it: its first HeadLen bytes,
// or all of it when it is shorter.
func Head(raw []byte) string { return string(raw[:min(len(raw), HeadLen)]) }

func isKind(raw []byte, kind byte) bool {
	return len(raw) >= 3 && raw[0] == 'h' && raw[1] == 'g' && raw[2] == kind
}

// begin returns a frame with the head filled in and room for exactly size bytes after the fixed part.
func begin(size int, kind byte, grant int64, token [16]byte) []byte {
	out := make([]byte, 0, metadataAt+size)
	out = append(out, 'h', 'g', kind, Version)
	out = binary.BigEndian.AppendUint64(out, uint64(grant))
	out = append(out, token[:]...)
	return out[:metadataAt]
}

// seal completes a frame whose first bytes after the fixed part are the metadata.
func seal(out []byte, metadata int) []byte {
	binary.BigEndian.PutUint32(out[lengthAt:], uint32(metadata))
	binary.BigEndian.PutUint32(out[sumAt:], checksum(out))
	return out
}

func checksum(raw []byte) uint32 {
	return crc32.Update(crc32.Checksum(raw[:sumAt], castagnoli), castagnoli, raw[lengthAt:])
}

type opened struct {
	grant          int64
	token          [16]byte
	metadata, body []byte // of raw, capped
}

// open verifies a frame and takes it apart.
func open(raw []byte, kind byte) (opened, error) {
	switch {
	case !isKind(raw, kind) || len(raw) < 4:
		return opened{}, ErrCorrupt
	case raw[3] != Version:
		return opened{}, ErrVersion
	case len(raw) < metadataAt || binary.BigEndian.Uint32(raw[sumAt:]) != checksum(raw):
		return opened{}, ErrCorrupt
	}
	length := uint64(binary.BigEndian.Uint32(raw[lengthAt:]))
	if length > uint64(len(raw)-metadataAt) {
		return opened{}, ErrCorrupt
	}
	bodyAt := metadataAt + int(length)
	return opened{
		grant:    int64(binary.BigEndian.Uint64(raw[4:])),
		token:    [16]byte(raw[12:HeadLen]),
		metadata: raw[metadataAt:bodyAt:bodyAt],
		body:     raw[bodyAt:len(raw):len(raw)],
	}, nil
}
