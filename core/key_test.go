package core

import (
	"context"
	"testing"
	"time"
)

// Routes with and without NormaliseVary, in one process or two, never answer from each other's entries: what is one variant to
// the one is two to the other. Whichever invalidates reaches both.
func TestNormalisedRoutesAreApart(t *testing.T) {
	var o origin
	m := memoryFor(t)
	here, there := gateOn(t, opens{m}), gateOn(t, opens{m})
	plain, normal := here.Mount(FreshFor(time.Hour)), here.Mount(FreshFor(time.Hour), NormaliseVary())
	plainThere, normalThere := there.Mount(FreshFor(time.Hour)), there.Mount(FreshFor(time.Hour), NormaliseVary())

	visitor := func(languages string) *visit {
		return get("/", o.handles(func(_ context.Context, p *page) {
			p.header.Set("Vary", "Accept-Language")
			p.write(200, languages)
		}), with("Accept-Language", languages))
	}
	round := func() {
		visitor("en, de").send(normal).want(t, RoleWinner, "en, de")
		visitor("de, en").send(plain).want(t, RoleWinner, "de, en")
		visitor("de, en").send(normal).want(t, RoleHit, "en, de")
		visitor("en, de").send(plain).want(t, RoleWinner, "en, de")
		visitor("de,en;q=1").send(normalThere).want(t, RoleHit, "en, de")
		visitor("de, en").send(plainThere).want(t, RoleHit, "de, en")
		visitor("de;q=0.9, en").send(normalThere).want(t, RoleWinner, "de;q=0.9, en")
		visitor("en, de").send(plainThere).want(t, RoleHit, "en, de")
	}
	round()
	if err := there.Invalidate(t.Context(), Key{Host: "shop.example", Target: "/"}); err != nil {
		t.Fatal(err)
	}
	round()
}

// Keys of routes without options are what they were: an option that is off is no part of them.
func TestFingerprintOfDefault(t *testing.T) {
	fingerprint := func(opts ...RouteOption) string {
		cfg, err := configure(opts)
		if err != nil {
			t.Fatal(err)
		}
		r := newRecipe(cfg, func(string) bool { return false })
		return r.fingerprint
	}
	if f := fingerprint(FreshFor(time.Hour), HeuristicFreshness(time.Hour)); f != "" {
		t.Errorf("without key options: %q", f)
	}
	seen := map[string]bool{"": true}
	for _, opts := range [][]RouteOption{{NormaliseVary()}, {KeyHeader("X-A")}, {KeyHeader("X-A"), NormaliseVary()}, {KeyCookie("normal")}, {KeyQuery("normal")}} {
		if f := fingerprint(opts...); seen[f] {
			t.Errorf("two recipes have the fingerprint %q", f)
		} else {
			seen[f] = true
		}
	}
}

func TestOriginForm(t *testing.T) {
	for _, tt := range []struct{ host, target, scheme, rest string }{
		{"shop.example", "/a?b", "", "/a?b"},
		{"shop.example", "http://shop.example/a?b", "http://", "/a?b"},
		{"shop.example", "https://SHOP.example:443/a", "https://", "/a"},
		{"shop.example:8080", "http://shop.example:8080//a", "http://", "//a"},
		{"shop.example", "http://shop.example", "http://", "/"},
		{"shop.example", "http://shop.example?b", "http://", "/?b"},
		{"shop.example", "//shop.example/a", "", "//shop.example/a"},
		{"shop.example", "/http://shop.example/a", "", "/http://shop.example/a"},
		// Not the same resource, or not certainly.
		{"shop.example", "http://other.example/a", "", "http://other.example/a"},
		{"shop.example", "http://me@shop.example/a", "", "http://me@shop.example/a"},
		{"shop.example", "http://shop.example:8080/a", "", "http://shop.example:8080/a"},
		{"shop.example", "ftp://shop.example/a", "", "ftp://shop.example/a"},
		{"", "http:///a", "http://", "/a"},
		{"shop.example", "*", "", "*"},
		{"shop.example", "", "", ""},
	} {
		if scheme, rest := originForm(tt.host, tt.target); scheme != tt.scheme || rest != tt.rest {
			t.Errorf("%q for %q: %q %q, want %q %q", tt.target, tt.host, scheme, rest, tt.scheme, tt.rest)
		}
	}
}

// Hosts are the same by the case of ASCII and the default port only: fasthttp hands every byte of a Host to the handler.
func TestCanonicalHost(t *testing.T) {
	for host, want := range map[string]string{
		"Shop.EXAMPLE": "shop.example", "shop.example:80": "shop.example", "SHOP.example:443": "shop.example",
		"shop.example:8080": "shop.example:8080", "shop.example.": "shop.example.", "shop.example:": "shop.example:", "[::1]:80": "[::1]",
		"\u212aitty.example": "\u212aitty.example", "a\xff": "a\xff", "a\xfe": "a\xfe", "": "",
	} {
		if got := canonicalHost(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
