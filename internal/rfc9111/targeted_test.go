package rfc9111

import (
	"reflect"
	"testing"
	"time"
)

func TestParseTargeted(t *testing.T) {
	seconds := func(n int) Delta { return Delta{Present: true, Valid: true, Value: time.Duration(n) * time.Second} }
	invalid := Delta{Present: true}
	for _, tt := range []struct {
		name  string
		lines []string
		want  Directives
		ok    bool
	}{
		{"RFC 9213 2.1: not there", nil, Directives{}, false},
		{"RFC 9213 2.1: empty", []string{" "}, Directives{}, false},
		{"RFC 9213 2.1: directives", []string{"max-age=60, no-store", "public"}, Directives{NoStore: true, Public: true, MaxAge: seconds(60)}, true},
		{"RFC 9213 2.1: parameters are ignored", []string{`max-age=60;foo;bar="b";baz=?0;a=:aGk=:;b=*x/y`}, Directives{MaxAge: seconds(60)}, true},
		{"RFC 9213 2.1: unknown members", []string{`a, b=("c" d 1);e, f=1.5, g=@17, h=%"x", max-age=60`}, Directives{MaxAge: seconds(60)}, true},
		{"RFC 9213 2.1: a list of fields", []string{`private="x-a, x-b", max-age=1`}, Directives{Omit: []string{"X-A", "X-B"}, MaxAge: seconds(1)}, true},
		{"RFC 9651 4.2.2: the last counts", []string{"max-age=60, max-age=1, no-store, no-store=?0"}, Directives{MaxAge: seconds(1)}, true},
		{"RFC 9651 3.3.6: false", []string{"no-store=?0, max-age=60"}, Directives{MaxAge: seconds(60)}, true},
		{"the wrong type: a String", []string{`max-age="60"`}, Directives{MaxAge: invalid}, true},
		{"the wrong type: a Decimal", []string{"max-age=60.0"}, Directives{MaxAge: invalid}, true},
		{"the wrong type: negative", []string{"max-age=-60"}, Directives{MaxAge: invalid}, true},
		{"the wrong type: none", []string{"max-age"}, Directives{MaxAge: invalid}, true},
		{"the wrong type still forbids", []string{"no-store=1, private=x"}, Directives{NoStore: true, Private: true}, true},
		{"the wrong type permits nothing", []string{"public=1"}, Directives{}, true},
		{"RFC 9651 3.1.2: upper case is no key", []string{"Max-Age=60"}, Directives{}, false},
		{"RFC 9651: junk", []string{"max-age=60, &&&&&"}, Directives{}, false},
		{"RFC 9651: a comma at the end", []string{"max-age=60,"}, Directives{}, false},
		{"RFC 9651: a comma at the beginning", []string{",max-age=60"}, Directives{}, false},
		{"RFC 9651: no comma", []string{"max-age=60 public"}, Directives{}, false},
		{"RFC 9651: a space around =", []string{"max-age =60"}, Directives{}, false},
		{"RFC 9651: no value", []string{"max-age="}, Directives{}, false},
		{"RFC 9651: a string without end", []string{`a="b`}, Directives{}, false},
		{"RFC 9651: an escape of something else", []string{`a="\b"`}, Directives{}, false},
		{"RFC 9651: a list without end", []string{"a=(b"}, Directives{}, false},
		{"RFC 9651: a list without spaces", []string{`a=("b""c")`}, Directives{}, false},
		{"RFC 9651: no boolean", []string{"a=?2"}, Directives{}, false},
		{"RFC 9651: too many digits", []string{"max-age=1234567890123456"}, Directives{}, false},
		{"RFC 9651: too many decimals", []string{"a=1.1234"}, Directives{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ParseTargeted(tt.lines)
			if ok != tt.ok || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q: %v\n%+v, want %v\n%+v", tt.lines, ok, got, tt.ok, tt.want)
			}
		})
	}
}

// Whatever stands in a line: no panic, values in range, and what follows a valid field counts.
func FuzzParseTargeted(f *testing.F) {
	for _, seed := range []string{"max-age=60, public", `a=("b" c;d=1);e`, `a="\\"`, "a=:YQ==:", "a=@-1", `a=%"%c3%bc"`, "a=-1.5;b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		d, ok := ParseTargeted([]string{line})
		if !ok && !reflect.DeepEqual(d, Directives{}) {
			t.Errorf("%q: ignored, but %+v", line, d)
		}
		for _, delta := range []Delta{d.MaxAge, d.SMaxAge, d.StaleWhileRevalidate, d.StaleIfError} {
			if delta.Value < 0 || delta.Value > MaxDelta || !delta.Valid && delta.Value != 0 {
				t.Errorf("%q: %+v", line, delta)
			}
		}
		if more, still := ParseTargeted([]string{line, "no-store, max-age=0"}); ok && (!still || !more.NoStore || more.MaxAge.Value != 0) {
			t.Errorf("%q hides the next line: %+v", line, more)
		}
	})
}
