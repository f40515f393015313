package rfc9111

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
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

// Comparison is weak on both sides; dates are compared only where no tag is; and the time that was said decides, whatever its form.
func FuzzNotModified(f *testing.F) {
	f.Add(`"a"`, `"a"`, at(0), at(0), true)
	f.Add(`"b", W/"a,b" ,`, `W/"a,b"`, at(-1), at(0), true)
	f.Add(`"b"`, `"a"`, at(0), at(0), true)
	f.Add(`"a"b`, `"a"`, "", "", true)
	f.Add("*", "a", "Monday, 15-Jun-26 12:00:00 GMT", at(-1), false)
	f.Add(`x"a", "`, `"`, "yesterday", "0", true)
	f.Fuzz(func(t *testing.T, list, etag, since, modified string, tagged bool) {
		if !tagged {
			got := NotModified(nil, []string{since}, etag, modified, testNow)
			s, ok1 := ParseDate(since, testNow)
			m, ok2 := ParseDate(modified, testNow)
			if got != (ok1 && ok2 && !m.After(s)) {
				t.Errorf("modified %q, since %q: %v", modified, since, got)
			}
			if s = s.Add(time.Hour); got && s.Year() <= 9999 && !NotModified(nil, []string{s.Format(http.TimeFormat)}, "", modified, testNow) {
				t.Errorf("modified %q: true since %q, but not an hour later", modified, since)
			}
			if NotModified(nil, []string{since, since}, etag, modified, testNow) {
				t.Errorf("since two dates")
			}
			return
		}
		got := NotModified([]string{list}, nil, etag, modified, testNow)
		if NotModified([]string{list}, []string{since}, etag, modified, testNow) != got {
			t.Errorf("%q, stored %q: the dates %q, %q make it %v", list, etag, since, modified, !got)
		}
		if opaque, weak := strings.CutPrefix(etag, "W/"); weak && NotModified([]string{list}, nil, opaque, modified, testNow) != got {
			t.Errorf("%q, stored %q: %v, but not %q", list, etag, got, opaque)
		}
		if strong := strings.ReplaceAll(list, "W/", ""); !strings.Contains(etag, "W/") && got && !NotModified([]string{strong}, nil, etag, "", testNow) {
			t.Errorf("stored %q: %q matches, but not %q", etag, list, strong)
		}
		everything := strings.Trim(list, " \t") == "*"
		if got && !everything && (!isTag(etag) || !strings.Contains(list, strings.TrimPrefix(etag, "W/"))) {
			t.Errorf("%q matches %q", list, etag)
		}
		if !isTag(etag) {
			if NotModified([]string{list, etag}, nil, etag, "", testNow) {
				t.Errorf("%q, which is no tag, after %q matches itself", etag, list)
			}
			return
		}
		if NotModified([]string{etag + "b"}, nil, etag, "", testNow) || NotModified([]string{"b" + etag}, nil, etag, "", testNow) {
			t.Errorf("%q matches with something beside it", etag)
		}
		for _, form := range []string{etag, strings.TrimPrefix(etag, "W/"), "W/" + strings.TrimPrefix(etag, "W/")} {
			if !NotModified([]string{list, form}, nil, etag, "", testNow) {
				t.Errorf("%q on a line of its own, after %q, does not match %q", form, list, etag)
			}
		}
	})
}

// A 304 has the fields that a 200 would have had and that it must have, and none that describes a body (RFC 9110 15.4.5).
func FuzzNotModifiedFields(f *testing.F) {
	f.Add("Content-Type", "text/html", `"a"`)
	f.Add("cONTENT-eNCODING", "gzip", "")
	f.Add("Vary", "Origin", `"a"`)
	f.Add("last-modified", "x", "")
	f.Fuzz(func(t *testing.T, name, value, etag string) {
		stored := fields("Cache-Control: a", "Content-Location: b", "Date: c", "Expires: d", "Last-Modified: e", "Vary: f")
		if etag != "" {
			stored = append(stored, headers.Field{Op: headers.Set, Name: "etag", Value: etag})
		}
		stored = append(stored, headers.Field{Op: headers.Set, Name: name, Value: value}, headers.Field{Op: headers.Add, Name: name, Value: value})
		before := slices.Clone(stored)
		got := NotModifiedFields(stored)
		want := slices.DeleteFunc(slices.Clone(stored), func(f headers.Field) bool {
			switch lower := strings.ToLower(f.Name); lower {
			case "content-type", "content-encoding", "content-language", "content-range":
				return true
			default:
				return lower == "last-modified" && headers.Get(stored, "Etag") != ""
			}
		})
		if !slices.Equal(got, want) || !slices.Equal(stored, before) {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}
