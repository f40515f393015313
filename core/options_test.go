package core

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Whoever makes a mistake is told what it is called and what to do; of several mistakes, all.
func TestBadOptions(t *testing.T) {
	for _, tt := range []struct {
		opt  RouteOption
		says string // all of these words
	}{
		{nil, "nil: remove"},
		{FreshFor(0), "FreshFor(0s) positive leave"},
		{FreshForStatus(404, -1), "FreshFor(-1ns) positive"},
		{FreshForStatus(503, time.Second), "FreshForStatus(503) never stored"},
		{FreshForStatus(206, time.Second), "FreshForStatus(206) never stored"},
		{FreshForStatus(100, time.Second), "FreshForStatus(100) 200 to 999"},
		{StaleFor(-1), "StaleFor(-1ns) 0 turns it off"},
		{StaleIfError(-1), "StaleIfError(-1ns) 0 turns it off"},
		{LockFor(99 * time.Millisecond), "LockFor(99ms) 3 s"},
		{HoldFor(0), "HoldFor(0s) positive leave"},
		{HoldFor(time.Second), "HoldFor(1s) LockFor(3s) raise"},
		{WaitFor(0), "WaitFor(0s) positive leave"},
		{PollEvery(0, time.Second), "PollEvery(0s, 1s) 1 ms"},
		{PollEvery(time.Second, time.Millisecond), "PollEvery(1s, 1ms) shortest <= longest"},
		{MaxBody(0), "MaxBody(0) positive leave"},
		{KeyQuery(), "KeyQuery() name at least one"},
		{IgnoreQuery(""), `IgnoreQuery("") one name`},
		{KeyHeader("X-Lang, X-Zone"), `KeyHeader("X-Lang, X-Zone") one name`},
		{KeyHeader("X Lang"), `KeyHeader("X Lang") one name`},
		{KeyCookie("a=b"), `KeyCookie("a=b") one name`},
		{Targeted("CDN-Cache-Control:"), `Targeted("CDN-Cache-Control:") one name`},
		{UnsafeCacheControl(" "), "UnsafeCacheControl value of a Cache-Control"},
		{UnsafeCacheControl("a\r\nb"), "UnsafeCacheControl value of a Cache-Control"},
		{PerUser(), "PerUser KeyBy"},
		{Degrade(), "Degrade() OverStale Placeholder"},
		{Degrade(nil), "Degrade(nil) OverStale Placeholder"},
		{Degrade(OverStale(0)), "OverStale(0s) positive"},
		{Degrade(Placeholder(100, nil, nil)), "Placeholder(100) 200 to 999"},
	} {
		err := Check(FreshFor(time.Second), tt.opt, MaxBody(-7))
		if err == nil || !strings.Contains(err.Error(), "MaxBody(-7)") {
			t.Errorf("%s: %v", tt.says, err)
			continue
		}
		for word := range strings.FieldsSeq(tt.says) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
	if err := Check(KeyQuery("ids[]", "a b", "ä"), IgnoreQuery("utm_*"), KeyHeader("x-lang"), KeyCookie("lang"), Targeted("CDN-Cache-Control"), StaleFor(0), StaleIfError(0),
		HoldFor(3*time.Second), Degrade(OverStale(time.Hour), Placeholder(200, nil, nil))); err != nil {
		t.Error(err)
	}
}

func TestBadGateOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = client.Close() }()
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	var none *redis.Client
	for says, try := range map[string]func() (*Gate, error){
		"needs a backend core.Redis core.Memory core.Off": func() (*Gate, error) { return New(nil) },
		"core.Memory(1) 64 KiB":                           func() (*Gate, error) { return New(Memory(1)) },
		"MemoryTier(1) 64 KiB":                            func() (*Gate, error) { return New(Redis(client, "a"), MemoryTier(1, 0)) },
		"maxAge -1ns positive":                            func() (*Gate, error) { return New(Redis(client, "a"), MemoryTier(1<<20, -1)) },
		`namespace "" 1 to 64`:                            func() (*Gate, error) { return New(Redis(client, "")) },
		`namespace "a:b" 1 to 64`:                         func() (*Gate, error) { return New(Redis(client, "a:b")) },
		"needs a client, got nil":                         func() (*Gate, error) { return New(Redis(nil, "a")) },
		"needs a client, got a nil *redis.Client":         func() (*Gate, error) { return New(Redis(none, "a")) },
		"cannot bound (*redis.Ring) *redis.ClusterClient": func() (*Gate, error) { return New(Redis(ring, "a")) },
		"SignEntries() key leave it out":                  func() (*Gate, error) { return New(Redis(client, "a", SignEntries())) },
		"SignEntries: key 2 has 3 bytes at least 16":      func() (*Gate, error) { return New(Redis(client, "a", SignEntries(goodKey, []byte("abc")))) },
		"core.Redis: an option is nil remove":             func() (*Gate, error) { return New(Redis(client, "a", nil)) },
		"gate option is nil remove":                       func() (*Gate, error) { return New(Off(), nil) },
		"Logger(nil) leave the option out":                func() (*Gate, error) { return New(Off(), Logger(nil)) },
		`Credentials("X Session") not a header name`:      func() (*Gate, error) { return New(Off(), Credentials("X Session")) },
		"Logger(nil) core.Memory(1)":                      func() (*Gate, error) { return New(Memory(1), Logger(nil)) },
	} {
		g, err := try()
		if g != nil || err == nil {
			t.Errorf("%s: %v, %v", says, g, err)
			continue
		}
		for word := range strings.FieldsSeq(says) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
}

var goodKey = []byte("0123456789abcdef")

// A placeholder is as long as its body, whatever its header said, and what the caller does with both later changes nothing.
func TestPlaceholderIsCopied(t *testing.T) {
	header, body := http.Header{"Content-Length": {"3"}, "X-Shop": {"closed"}}, []byte("later, please")
	cfg, err := configure([]RouteOption{Degrade(Placeholder(503, header, body))})
	if err != nil {
		t.Fatal(err)
	}
	header["X-Shop"][0], body[0] = "open", 'L'
	p := cfg.Placeholder
	if string(p.Body) != "later, please" || p.Header.Get("X-Shop") != "closed" || p.Header.Get("Content-Length") != "" {
		t.Errorf("%+v", p)
	}
	if header.Get("Content-Length") != "3" {
		t.Error("the caller's header was changed")
	}
}
