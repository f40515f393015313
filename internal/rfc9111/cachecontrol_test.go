package rfc9111

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func seconds(n int64) Delta {
	return Delta{Present: true, Valid: true, Value: time.Duration(n) * time.Second}
}

var invalid = Delta{Present: true}

func TestParseCacheControl(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  Directives
	}{
		{"5.2: nothing", nil, Directives{}},
		{"5.2: empty", []string{"", " "}, Directives{}},
		{"5.2.2: every directive", []string{
			"max-age=1, s-maxage=2, no-store, no-cache, private, must-understand, public, must-revalidate, proxy-revalidate, stale-while-revalidate=3, stale-if-error=4",
		}, Directives{
			NoStore: true, NoCache: true, Private: true, MustUnderstand: true, Public: true, MustRevalidate: true, NoStale: true,
			MaxAge: seconds(1), SMaxAge: seconds(2), StaleWhileRevalidate: seconds(3), StaleIfError: seconds(4),
		}},
		{"5.2: names in any case", []string{"MaX-aGe=3600, PUBLIC"}, Directives{Public: true, MaxAge: seconds(3600)}},
		{"RFC 9110 5.3: several lines", []string{"max-age=60", "no-store"}, Directives{NoStore: true, MaxAge: seconds(60)}},
		{"RFC 9110 5.6.1.2: empty elements", []string{",, public ,\t,max-age=60,"}, Directives{Public: true, MaxAge: seconds(60)}},
		{"5.2.3: unknown directives", []string{`foobar, a=b, c="d, no-store", max-age=60`}, Directives{MaxAge: seconds(60)}},
		{"5.2.2.7: private with fields", []string{`private="x-a, x-b", max-age=60`}, Directives{Omit: []string{"X-A", "X-B"}, MaxAge: seconds(60)}},
		{"5.2.2.4: no-cache with fields", []string{`no-cache="set-cookie"`}, Directives{Omit: []string{"Set-Cookie"}}},
		{"5.2.2.4: no-cache with a token", []string{`no-cache=set-cookie`}, Directives{Omit: []string{"Set-Cookie"}}},
		{"5.2.2.8: proxy-revalidate", []string{"proxy-revalidate"}, Directives{NoStale: true}},
		{"5.2.2.10: s-maxage forbids stale", []string{"s-maxage=60"}, Directives{NoStale: true, SMaxAge: seconds(60)}},

		{"5.2: quoted number", []string{`max-age="60"`}, Directives{MaxAge: seconds(60)}},
		{"RFC 9110 5.6.4: quoted pair", []string{`max-age="\6\0"`}, Directives{MaxAge: seconds(60)}},
		{"RFC 9110 5.6.4: directives inside a quoted string", []string{`a="max-age=3600", max-age=1`}, Directives{MaxAge: seconds(1)}},
		{"RFC 9110 5.6.4: quote inside a quoted string", []string{`a="\", max-age=3600", max-age=1`}, Directives{MaxAge: seconds(1)}},

		{"1.2.2: zero", []string{"max-age=0"}, Directives{MaxAge: seconds(0)}},
		{"1.2.2: leading zeros", []string{"max-age=003600"}, Directives{MaxAge: seconds(3600)}},
		{"1.2.2: the largest", []string{"max-age=2147483648"}, Directives{MaxAge: seconds(1 << 31)}},
		{"1.2.2: overflow", []string{"max-age=2147483649, s-maxage=99999999999999999999999999"}, Directives{NoStale: true, MaxAge: seconds(1 << 31), SMaxAge: seconds(1 << 31)}},
		{"4.2.1: no argument", []string{"max-age"}, Directives{MaxAge: invalid}},
		{"4.2.1: empty argument", []string{"max-age="}, Directives{MaxAge: invalid}},
		{"4.2.1: empty string", []string{`max-age=""`}, Directives{MaxAge: invalid}},
		{"4.2.1: negative", []string{"max-age=-1"}, Directives{MaxAge: invalid}},
		{"4.2.1: sign", []string{"max-age=+1"}, Directives{MaxAge: invalid}},
		{"4.2.1: fraction", []string{"max-age=3600.0"}, Directives{MaxAge: invalid}},
		{"4.2.1: letters", []string{"max-age=3600a", "s-maxage=a1"}, Directives{NoStale: true, MaxAge: invalid, SMaxAge: invalid}},
		{"4.2.1: single quotes", []string{"max-age='3600'"}, Directives{MaxAge: invalid}},
		{"4.2.1: space before =", []string{"max-age =3600"}, Directives{MaxAge: invalid}},
		{"4.2.1: space after =", []string{"max-age= 3600"}, Directives{MaxAge: invalid}},
		{"4.2.1: digits of another script", []string{"max-age=٣"}, Directives{MaxAge: invalid}},
		{"4.2.1: the smallest of several", []string{"max-age=1800, max-age=1", "max-age=60"}, Directives{MaxAge: seconds(1)}},
		{"4.2.1: an invalid one among several", []string{"max-age=60, max-age=x, max-age=60"}, Directives{MaxAge: invalid}},

		{"malformed forbids: semicolons", []string{"max-age=60; no-store"}, Directives{NoStore: true, MaxAge: invalid}},
		{"malformed forbids: no comma", []string{"max-age=60 private"}, Directives{Private: true, MaxAge: invalid}},
		{"malformed forbids: a quote without end", []string{`a="b, no-store, max-age=60`}, Directives{NoStore: true, MaxAge: invalid}},
		{"malformed forbids: a quoted pair without end", []string{`no-store="\`}, Directives{NoStore: true}},
		{"malformed forbids: junk after a string", []string{`max-age="60"x`}, Directives{MaxAge: invalid}},
		{"malformed forbids: a string for a name", []string{`"no-store"`}, Directives{NoStore: true}},
		{"malformed forbids: a quote in a token", []string{`no-st"ore, no-store`}, Directives{NoStore: true}},
		{"malformed permits nothing", []string{"public;", "must-revalidate foo", `"public"`}, Directives{NoStale: true}},
		{"malformed permits nothing: must-understand", []string{"must-understand;"}, Directives{NoStore: true}},
		{"malformed permits nothing: arguments", []string{"public=1", `must-revalidate="1"`}, Directives{NoStale: true}},
		{"malformed permits nothing: s-maxage", []string{"s-maxage = 60"}, Directives{NoStale: true, SMaxAge: invalid}},
		{"malformed leaves its neighbours", []string{"=, max-age=60, @"}, Directives{MaxAge: seconds(60)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseCacheControl(tt.lines); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseCacheControl(%q) =\n%+v, want\n%+v", tt.lines, got, tt.want)
			}
		})
	}
}

// Whatever stands in a line: no panic, values in range, and another directive may only make the
// result stricter.
func FuzzParseCacheControl(f *testing.F) {
	for _, seed := range []string{"max-age=60, public", `private="a, b", s-maxage=1`, `a="\"`, `"`, "max-age=99999999999999999999", "no-store;", "\x00,\xff=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		d := ParseCacheControl([]string{line})
		for _, delta := range []Delta{d.MaxAge, d.SMaxAge, d.StaleWhileRevalidate, d.StaleIfError} {
			if delta.Value < 0 || delta.Value > MaxDelta || !delta.Valid && delta.Value != 0 || !delta.Present && delta.Valid {
				t.Errorf("%q: %+v", line, delta)
			}
		}
		more := ParseCacheControl([]string{line, "no-store, private, no-cache, max-age=0"})
		if !more.NoStore || !more.Private || !more.NoCache || !more.NoStale || more.MaxAge.Value != 0 || !more.MaxAge.Present {
			t.Errorf("%q hides the next line: %+v", line, more)
		}
		if more.SMaxAge != d.SMaxAge || more.Public != d.Public {
			t.Errorf("%q: the next line changed what it does not mention: %+v", line, more)
		}
		if twice := ParseCacheControl([]string{line, line}); !reflect.DeepEqual(twice, d) {
			t.Errorf("%q: twice the same is %+v instead of %+v", line, twice, d)
		}
		// Whoever splits at commas and spaces only must not see a restriction that we do not see,
		// unless it is in quotes.
		if !strings.Contains(line, `"`) {
			words := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
			if slices.Contains(words, "no-store") && !d.NoStore || slices.Contains(words, "private") && !d.Private {
				t.Errorf("%q: a restriction is lost", line)
			}
		}
	})
}
