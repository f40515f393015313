package core

import (
	"bytes"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
)

// A memory tier counts what a copy takes in the process, not what it takes in Redis.
func TestExpandedSize(t *testing.T) {
	b := &redisBackend{compress: 1 << 10}
	b.admit(1 << 20)
	e := &entry.Entry{Status: 200, Body: make([]byte, 100_000)}
	raw := b.encode(e)
	s := b.decode("shop:v1:{key}", raw)
	if len(raw) > 1000 || s.entry == nil || !bytes.Equal(s.entry.Body, e.Body) {
		t.Fatalf("%d bytes stored, %+v", len(raw), s.entry)
	}
	if s.size < len(e.Body) {
		t.Errorf("counts as %d bytes", s.size)
	}
	clear(raw)
	if s.head() != string(e.Encode()[:entry.HeadLen]) {
		t.Error("keeps what it was read from")
	}
}

func TestCompressEntriesNeedsALength(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = rdb.Close() }()
	for _, n := range []int{-1, 0, 1023} {
		if _, err := New(Redis(rdb, "shop", CompressEntries(n))); err == nil {
			t.Errorf("CompressEntries(%d)", n)
		}
	}
}
