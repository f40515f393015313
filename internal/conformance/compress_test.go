package conformance

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

const sameHost = "Host: shop.example" // for several sites that share entries

var longBody = strings.Repeat("What is long and says little becomes short.\n", 200)

var codedBody = strings.Repeat("\x1f\x8b not really gzip ", 400)

func writesLong(c Call) error {
	c.Set("Content-Type", "text/plain")
	c.Set("Etag", `"1"`)
	c.Set("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")
	if c.Target() == "/coded" {
		c.Set("Content-Encoding", "gzip")
		c.Write([]byte(codedBody))
		return nil
	}
	c.Write([]byte(longBody))
	return nil
}

// Nobody can tell from a response whether it was kept compressed, with or without the option in the process that reads it.
func TestCompressedEntriesAreTheSame(t *testing.T) {
	ask := []struct {
		method string
		lines  []string
		status int
	}{
		{"GET", nil, 200},
		{"HEAD", nil, 200},
		{"GET", []string{"Range: bytes=100-199"}, 206},
		{"GET", []string{"Range: bytes=-1"}, 206},
		{"GET", []string{"Range: bytes=" + strconv.Itoa(len(longBody)) + "-"}, 416},
		{"GET", []string{`If-None-Match: "1"`}, 304},
		{"GET", []string{"If-Modified-Since: Mon, 30 Nov 2026 12:00:00 GMT"}, 304},
		{"GET", []string{`If-Range: "2"`, "Range: bytes=0-0"}, 200},
	}
	for _, h := range adapters() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client()
			ns, plainNs := redistest.Namespace(), redistest.Namespace()
			open := func(ns string, opts ...core.RedisOption) *site {
				return newSite(t, h, core.Redis(rdb, ns, opts...), writesLong, core.FreshFor(time.Hour))
			}
			writes, reads, plain := open(ns, core.CompressEntries(1<<10)), open(ns), open(plainNs)
			for _, target := range []string{"/long", "/coded"} {
				long(t, writes, target)
				long(t, plain, target)
			}
			for _, a := range ask {
				want := plain.ask(a.method, "/long", "", append(a.lines, sameHost)...)
				if want.status != a.status {
					t.Fatalf("%s %v: %d", a.method, a.lines, want.status)
				}
				for name, s := range map[string]*site{"with the option": writes, "without": reads} {
					got := s.ask(a.method, "/long", "", append(a.lines, sameHost)...)
					if !strings.Contains(got.cacheStatus(), "; hit") {
						t.Errorf("%s: %s %v: %s", name, a.method, a.lines, got.cacheStatus())
					}
					if got.status != want.status || got.body != want.body || !maps.EqualFunc(steady(got.header), steady(want.header), func(a, b []string) bool {
						return strings.Join(a, "\n") == strings.Join(b, "\n")
					}) {
						t.Errorf("%s: %s %v: %d %v, %d bytes\nwant %d %v, %d bytes", name, a.method, a.lines,
							got.status, got.header, len(got.body), want.status, want.header, len(want.body))
					}
				}
			}
			if got := reads.ask("GET", "/coded", "", sameHost); got.body != codedBody || got.header.Get("Content-Encoding") != "gzip" {
				t.Errorf("/coded: %d bytes, %v", len(got.body), got.header)
			}
			if sizes := entrySizes(t, rdb, ns); len(sizes) != 2 || min(sizes[0], sizes[1]) > int64(len(longBody)/4) || max(sizes[0], sizes[1]) < int64(len(codedBody)) {
				t.Errorf("entries of %v bytes, for bodies of %d (compressed) and %d (coded)", sizes, len(longBody), len(codedBody))
			}
		})
	}
}

// A gate whose routes store less than what was compressed does not expand it.
func TestCompressedEntryThatIsTooLong(t *testing.T) {
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	handle := func(c Call) error { c.Write([]byte(longBody)); return nil }
	long(t, newSite(t, NetHTTP(), core.Redis(rdb, ns, core.CompressEntries(1<<10)), handle, core.FreshFor(time.Hour)), "/long")
	s := newSite(t, NetHTTP(), core.Redis(rdb, ns), handle, core.FreshFor(time.Hour), core.MaxBody(int64(len(longBody))-1))
	if got := s.ask("GET", "/long", "", sameHost); got.body != longBody || strings.Contains(got.cacheStatus(), "; hit") || s.gate.Stats().Events["corrupt"] == 0 {
		t.Errorf("%s, %d bytes, %v", got.cacheStatus(), len(got.body), s.gate.Stats().Events)
	}
}

// long asks for a target until it is stored.
func long(t *testing.T, s *site, target string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.ask("GET", target, "", sameHost).cacheStatus(), "; hit"); {
		if time.Now().After(end) {
			t.Fatalf("%s is not stored", target)
		}
	}
}

// steady is what does not depend on when the request came and when the response was computed.
func steady(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Age", "Date", "Cache-Status"} {
		h.Del(name)
	}
	return h
}

func entrySizes(t *testing.T, rdb *redis.Client, ns string) (sizes []int64) {
	t.Helper()
	for _, key := range redistest.Keys(t, rdb, ns) {
		if rdb.Type(t.Context(), key).Val() == "string" && rdb.GetRange(t.Context(), key, 0, 2).Val() == "hge" {
			sizes = append(sizes, rdb.StrLen(t.Context(), key).Val())
		}
	}
	return sizes
}
