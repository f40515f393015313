package rfc9111

import (
	"strings"
	"testing"
)

func TestNotModified(t *testing.T) {
	const none = ""
	for _, tt := range []struct {
		name               string
		match, since       []string
		etag, lastModified string
		want               bool
	}{
		{"RFC 9110 13.2.2: no condition", nil, nil, `"a"`, at(0), false},
		{"RFC 9110 13.1.2: match", []string{`"a"`}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: no match", []string{`"b"`}, nil, `"a"`, none, false},
		{"RFC 9110 13.1.2: case matters", []string{`"A"`}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3.2: weak and weak", []string{`W/"a"`}, nil, `W/"a"`, none, true},
		{"RFC 9110 8.8.3.2: weak and strong", []string{`W/"a"`}, nil, `"a"`, none, true},
		{"RFC 9110 8.8.3.2: strong and weak", []string{`"a"`}, nil, `W/"a"`, none, true},
		{"RFC 9110 13.1.2: first of a list", []string{`"a", "b", "c"`}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: middle of a list", []string{`"b" ,W/"a",, "c"`}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: last of a list", []string{`"b", "c", "a"`}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: second line", []string{`"b"`, `"a"`}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: none of a list", []string{`"b", "c"`}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: comma in a tag", []string{`"b,c", "a,b"`}, nil, `"a,b"`, none, true},
		{"RFC 9110 8.8.3: obs-text", []string{"\"\xfc\""}, nil, "\"\xfc\"", none, true},
		{"RFC 9110 8.8.3: empty tag", []string{`""`}, nil, `""`, none, true},
		{"RFC 9110 13.1.2: star", []string{" * "}, nil, `"a"`, none, true},
		{"RFC 9110 13.1.2: star without ETag", []string{"*"}, nil, none, none, true},
		{"RFC 9110 13.1.2: star in a list", []string{`"b", *`}, nil, `"a"`, none, false},
		{"RFC 9110 13.1.2: no ETag", []string{`"a"`}, nil, none, none, false},
		{"RFC 9110 13.1.2: empty", []string{""}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: unquoted", []string{"a"}, nil, "a", none, false},
		{"RFC 9110 8.8.3: unquoted in the request", []string{"a"}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: lower-case w", []string{`w/"a"`}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: quote without end", []string{`"a`}, nil, `"a`, none, false},
		{"RFC 9110 8.8.3: space in a tag", []string{`"a b"`}, nil, `"a b"`, none, false},
		{"RFC 9110 8.8.3: junk after a tag", []string{`"a"x`}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: junk before a tag", []string{`x"a"`}, nil, `"a"`, none, false},
		{"RFC 9110 8.8.3: junk beside a tag", []string{`x, "a"`}, nil, `"a"`, none, true},
		{"RFC 9110 8.8.3: junk after the stored tag", []string{`"a"`}, nil, `"a", "b"`, none, false},

		{"RFC 9110 13.1.3: same time", nil, []string{at(0)}, none, at(0), true},
		{"RFC 9110 13.1.3: earlier", nil, []string{at(0)}, none, at(-1), true},
		{"RFC 9110 13.1.3: later", nil, []string{at(0)}, none, at(1), false},
		{"RFC 9110 13.1.3: another form", nil, []string{"Monday, 15-Jun-26 12:00:00 GMT"}, none, at(0), true},
		{"RFC 9110 13.1.3: invalid", nil, []string{"yesterday"}, none, at(0), false},
		{"RFC 9110 13.1.3: more than one", nil, []string{at(0), at(0)}, none, at(0), false},
		{"RFC 9111 4.3.2: no Last-Modified", nil, []string{at(0)}, `"a"`, none, false},
		{"RFC 9111 4.3.2: invalid Last-Modified", nil, []string{at(0)}, none, "yesterday", false},
		{"RFC 9110 13.1.3: If-None-Match wins, no match", []string{`"b"`}, []string{at(0)}, `"a"`, at(0), false},
		{"RFC 9110 13.1.3: If-None-Match wins, match", []string{`"a"`}, []string{at(-100)}, `"a"`, at(0), true},
		{"RFC 9110 13.1.3: If-None-Match wins, no ETag", []string{`"a"`}, []string{at(0)}, none, at(0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NotModified(tt.match, tt.since, tt.etag, tt.lastModified, testNow); got != tt.want {
				t.Errorf("NotModified = %v", got)
			}
		})
	}
}

// Whatever the client sends, only a well-formed tag that it sent can match, and a tag that it sent
// after well-formed ones does.
func FuzzIfNoneMatch(f *testing.F) {
	f.Add(`"b", W/"c"`, "a")
	f.Add(`x"`, "a,b")
	f.Fuzz(func(t *testing.T, list, opaque string) {
		etag := `"` + opaque + `"`
		_, rest, ok := cutTag(etag)
		wellFormed := ok && rest == ""
		if matches([]string{list, etag}, etag) != wellFormed {
			t.Errorf("%q on a line of its own: %v", etag, !wellFormed)
		}
		if !wellFormed && matches([]string{list}, etag) && strings.Trim(list, " \t") != "*" {
			t.Errorf("%q matches %q", list, etag)
		}
	})
}
