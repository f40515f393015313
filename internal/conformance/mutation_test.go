package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

// A resource is a request whose answer is known.
type resource struct{ target, lang string }

func (r resource) body() string {
	return strings.Repeat(r.target+" "+r.lang+"\n", 5+len(r.target)*7)
}

func (r resource) ask(s *site) answer {
	return s.ask("GET", r.target, "", "Host: shop.example", "X-Lang: "+r.lang)
}

// serveResource is the handler behind the mutated entries. What begins with /v varies.
func serveResource(c Call) error {
	r := resource{target: c.Target()}
	if strings.HasPrefix(r.target, "/v") {
		r.lang = strings.Join(c.Values("X-Lang"), "")
		c.Set("Vary", "X-Lang")
	}
	c.Set("Content-Type", "text/plain")
	c.Set("Etag", fmt.Sprintf("%q", r.target+r.lang))
	c.Write([]byte(r.body()))
	return nil
}

// check fails unless the answer is the handler's own.
func (r resource) check(t *testing.T, got answer, what string) {
	t.Helper()
	own := r
	if !strings.HasPrefix(r.target, "/v") {
		own.lang = ""
	}
	if got.status != http.StatusOK || got.body != own.body() || got.header.Get("Etag") != fmt.Sprintf("%q", own.target+own.lang) ||
		got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("%s %s after %s: %d %q\n%.200q", r.target, r.lang, what, got.status, got.header, got.body)
	}
}

// kept is where Redis holds a resource, and the record of what it varies on, "" if it does not.
type kept struct {
	resource
	entry, record string
}

// stock has every resource stored and returns where.
func stock(t *testing.T, s *site, rdb *redis.Client, ns string) (all []kept) {
	t.Helper()
	var resources []resource
	for i := range 8 {
		resources = append(resources, resource{fmt.Sprintf("/plain/%d?x=%d", i, i*i), "de"})
	}
	for i := range 4 {
		resources = append(resources, resource{fmt.Sprintf("/v%d", i), "de"}, resource{fmt.Sprintf("/v%d", i), "fr"})
	}
	known, records := map[string]bool{}, map[string]string{}
	for _, r := range resources {
		stored(t, s, r)
		k := kept{resource: r}
		for _, key := range redistest.Keys(t, rdb, ns) {
			kind := ""
			if rdb.Type(t.Context(), key).Val() == "string" {
				kind = rdb.GetRange(t.Context(), key, 0, 2).Val()
			}
			switch {
			case kind == "hge" && !known[key]:
				known[key], k.entry = true, key
			case kind == "hgr" && !known[key]:
				known[key], records[r.target] = true, key
			}
		}
		k.record = records[r.target]
		if k.entry == "" || strings.HasPrefix(r.target, "/v") != (k.record != "") {
			t.Fatalf("stored for %v: %+v", r, k)
		}
		all = append(all, k)
	}
	return all
}

// stored asks until the answer comes from the store: a store may be refused by a machine that is too slow for its bounds.
func stored(t *testing.T, s *site, r resource) {
	t.Helper()
	var got answer
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if got = r.ask(s); strings.Contains(got.cacheStatus(), "; hit") {
			return
		}
		r.check(t, got, "a miss")
	}
	t.Fatalf("%v is not stored again: %s", r, got.cacheStatus())
}

// A mutation replaces a value by another. It returns nil if it has no new value, because it changed the key itself.
type mutation struct {
	name string
	of   func(r *rand.Rand, raw []byte, other func() []byte) []byte
}

// mutations are those that a checksum finds, those that only the decoder finds, and those that only the key in the entry tells.
var mutations = []mutation{
	{"a flipped bit", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
		return raw
	}},
	{"truncation", func(r *rand.Rand, raw []byte, _ func() []byte) []byte { return raw[:r.IntN(len(raw))] }},
	{"more at the end", func(r *rand.Rand, raw []byte, _ func() []byte) []byte { return append(raw, noise(r, 1+r.IntN(50))...) }},
	{"noise", func(r *rand.Rand, _ []byte, _ func() []byte) []byte { return noise(r, 1+r.IntN(500)) }},
	{"noise in the middle", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		at := r.IntN(len(raw))
		return slices.Concat(raw[:at], noise(r, 8), raw[at:])
	}},
	{"another key's value", func(_ *rand.Rand, _ []byte, other func() []byte) []byte { return other() }},
	{"another version", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		raw[3] += byte(1 + r.IntN(255))
		return resealed(raw)
	}},
	{"metadata of noise with a right sum", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		size := int(binary.BigEndian.Uint32(raw[32:]))
		copy(raw[36:], noise(r, size))
		return resealed(raw)
	}},
	{"lengths that promise too much, with a right sum", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		size := int(binary.BigEndian.Uint32(raw[32:]))
		at := 36 + r.IntN(size)
		for i := at; i < 36+size; i++ {
			raw[i] = 0xff
		}
		return resealed(raw)
	}},
	{"a wrong length of the metadata, with a right sum", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		binary.BigEndian.PutUint32(raw[32:], r.Uint32())
		return resealed(raw)
	}},
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// resealed gives a value the checksum that belongs to it. It tells nobody that the value is ours: everybody can.
func resealed(raw []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(raw[28:], crc32.Update(crc32.Checksum(raw[:28], table), table, raw[32:]))
	return raw
}

// wrongTypes put another kind of value in the place of a key.
var wrongTypes = []func(ctx context.Context, p redis.Pipeliner, key string){
	func(ctx context.Context, p redis.Pipeliner, key string) { p.RPush(ctx, key, "a") },
	func(ctx context.Context, p redis.Pipeliner, key string) { p.HSet(ctx, key, "a", "b") },
	func(ctx context.Context, p redis.Pipeliner, key string) { p.SAdd(ctx, key, "a") },
	func(ctx context.Context, p redis.Pipeliner, key string) {
		p.ZAdd(ctx, key, redis.Z{Score: 1, Member: "a"})
	},
	func(ctx context.Context, p redis.Pipeliner, key string) {
		p.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}})
	},
}

// mutationsPerHost makes more than 5,000 over all hosts.
const mutationsPerHost = 1_050

// Whatever stands in the place of an entry is a miss: never a wrong response, never an error, and the next store replaces it.
func TestMutatedEntries(t *testing.T) {
	for i, h := range adapters() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			mutate(t, h, uint64(i), mutationsPerHost, mutations)
		})
	}
}

// With signatures the same holds for what a stranger wrote who knows the format.
func TestForgedEntries(t *testing.T) {
	forged := append(slices.Clone(mutations),
		mutation{"another body with a right sum", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
			raw[36+int(binary.BigEndian.Uint32(raw[32:]))+r.IntN(10)] ^= 1
			resealed(raw[:len(raw)-32]) // all but the signature
			return raw
		}},
		mutation{"no signature", func(_ *rand.Rand, raw []byte, _ func() []byte) []byte { return resealed(raw[:len(raw)-32]) }},
		mutation{"a signature of noise", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
			return append(raw[:len(raw)-32], noise(r, 32)...)
		}},
	)
	mutate(t, NetHTTP(), 100, mutationsPerHost/2, forged, core.SignEntries([]byte("the first key of two"), []byte("the second key of two")))
}

// The same with compressed bodies, whose length and content only the decoder can judge once the sum is right.
func TestMutatedCompressedEntries(t *testing.T) {
	damaged := append(slices.Clone(mutations), mutation{"a body of noise with a right sum", func(r *rand.Rand, raw []byte, _ func() []byte) []byte {
		at := 36 + int(binary.BigEndian.Uint32(raw[32:]))
		if compressed := bytes.HasPrefix(raw[at:], []byte{0x28, 0xb5, 0x2f, 0xfd}); !compressed {
			return raw
		}
		copy(raw[at+4:], noise(r, len(raw)-at-4))
		return resealed(raw)
	}})
	mutate(t, NetHTTP(), 101, mutationsPerHost/2, damaged, core.CompressEntries(1<<10))
}

func mutate(t *testing.T, h Host, number uint64, times int, mutations []mutation, opts ...core.RedisOption) {
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, number))
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	s := newSite(t, h, core.Redis(rdb, ns, opts...), serveResource, core.FreshFor(time.Hour))
	all := stock(t, s, rdb, ns)
	damaged := 0
	for range times {
		k := all[random.IntN(len(all))]
		what := damage(t, random, rdb, mutations, all, k.entry)
		if what == "" {
			continue
		}
		damaged++
		k.check(t, k.ask(s), what)
		stored(t, s, k.resource)
		if t.Failed() {
			t.Fatalf("seed %d, after %d mutations", seed, damaged)
		}
	}
	if counted := s.gate.Stats().Events["corrupt"]; counted < uint64(damaged)*9/10 { // a value that was cut to nothing is just none
		t.Errorf("%d of %d damaged values were counted", counted, damaged)
	}
	redistest.CheckTTLs(t, rdb, ns)
	t.Logf("%d mutations", damaged)
}

// Records of what keys vary on are read by a process that does not know it yet.
func TestMutatedRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 200))
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	all := stock(t, newSite(t, NetHTTP(), core.Redis(rdb, ns), serveResource, core.FreshFor(time.Hour)), rdb, ns)
	for n := range 200 {
		k := all[len(all)-1-n%8] // one that varies
		what := damage(t, random, rdb, mutations, all, k.record)
		if what == "" {
			continue
		}
		s := newSite(t, NetHTTP(), core.Redis(rdb, ns), serveResource, core.FreshFor(time.Hour))
		k.check(t, k.ask(s), what)
		stored(t, s, k.resource)
		if now := rdb.GetRange(t.Context(), k.record, 0, 2).Val(); now != "hgr" {
			t.Errorf("%q stands in the record's place after %s", now, what)
		}
		if t.Failed() {
			t.Fatalf("seed %d, mutation %d", seed, n)
		}
	}
	redistest.CheckTTLs(t, rdb, ns)
}

// damage puts something else in the place of a value, with the lifetime that it has, and says what, "" if it is the same after all.
func damage(t *testing.T, random *rand.Rand, rdb *redis.Client, mutations []mutation, all []kept, key string) (what string) {
	t.Helper()
	ctx := t.Context()
	raw, err := rdb.Get(ctx, key).Bytes()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	switch n := random.IntN(len(mutations) + 2); n {
	default:
		what = mutations[n].name
		mutant := mutations[n].of(random, bytes.Clone(raw), func() []byte {
			// (A record says nothing of its key. One of another key makes more variants than need be, until it expires.)
			return []byte(rdb.Get(ctx, all[random.IntN(len(all))].entry).Val())
		})
		if bytes.Equal(mutant, raw) {
			return ""
		}
		err = rdb.SetArgs(ctx, key, mutant, redis.SetArgs{KeepTTL: true}).Err()
	case len(mutations):
		what = "another kind of value"
		_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			wrongTypes[random.IntN(len(wrongTypes))](ctx, p, key)
			p.Expire(ctx, key, time.Minute)
			return nil
		})
	case len(mutations) + 1:
		what = "a value larger than the route stores"
		err = rdb.SetRange(ctx, key, 2<<20, "x").Err()
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return what
}

// What nobody could have stored is not even read.
func TestOversizeValueIsNotRead(t *testing.T) {
	const size = 128 << 20
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	s := newSite(t, NetHTTP(), core.Redis(rdb, ns), serveResource, core.FreshFor(time.Hour))
	for _, k := range stock(t, s, rdb, ns)[7:9] { // one without variants, and one with its record
		for _, key := range []string{k.entry, k.record} {
			if key == "" {
				continue
			}
			if err := rdb.SetRange(t.Context(), key, size, "x").Err(); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			k.check(t, k.ask(s), "a huge value")
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > size/4 {
				t.Errorf("%d MiB allocated because of a value of %d MiB", allocated>>20, size>>20)
			}
			stored(t, s, k.resource)
		}
	}
}

// An entry that lost its TTL is not served longer than it says itself, and the next one has a TTL again.
func TestImmortalEntry(t *testing.T) {
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	const fresh = 300 * time.Millisecond
	s := newSite(t, NetHTTP(), core.Redis(rdb, ns), serveResource, core.FreshFor(fresh), core.StaleFor(0), core.StaleIfError(0))
	r := resource{"/plain", "de"}
	stored(t, s, r)
	keys := redistest.Keys(t, rdb, ns)
	for _, key := range keys {
		if err := rdb.Persist(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); strings.Contains(r.ask(s).cacheStatus(), "; hit"); {
		if time.Now().After(end) {
			t.Fatal("an entry without a TTL is served for ever")
		}
		<-time.After(fresh / 10)
	}
	stored(t, s, r)
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(fresh / 10) {
		if rdb.TTL(t.Context(), keys[0]).Val() != -1 {
			return
		}
	}
	t.Error("the entry has no TTL again")
}
