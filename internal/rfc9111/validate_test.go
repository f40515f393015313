package rfc9111

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/herdgate/herdgate/internal/headers"
)

func fields(lines ...string) (list []headers.Field) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		list = append(list, headers.Field{Op: headers.Set, Name: name, Value: value})
	}
	return list
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored []string
		want   []string
	}{
		{"4.3.1: none", nil, nil},
		{"4.3.1: both", []string{`etag: W/"a"`, "Last-Modified: " + at(-60)}, []string{`If-None-Match: W/"a"`, "If-Modified-Since: " + at(-60)}},
		{"4.3.1: what is no validator", []string{"Etag: a", "Last-Modified: 0"}, nil},
		{"4.3.1: two of one", []string{`Etag: "a"`, `ETag: "b"`, "Last-Modified: " + at(-60)}, []string{"If-Modified-Since: " + at(-60)}},
		{"4.3.1: letter by letter", []string{"Last-Modified: Sunday, 06-Nov-94 08:49:37 GMT"}, []string{"If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Conditions(fields(tt.stored...), testNow); !reflect.DeepEqual(got, fields(tt.want...)) {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

func TestConfirms(t *testing.T) {
	stored := []string{`Etag: "a"`, "Last-Modified: " + at(-60)}
	for _, tt := range []struct {
		name           string
		answer, stored []string
		want           bool
	}{
		{"4.3.4: nothing but the answer", nil, stored, true},
		{"4.3.4: the same tag", []string{`ETag: "a"`}, stored, true},
		{"4.3.4: another tag", []string{`Etag: "b"`}, stored, false},
		{"RFC 9110 8.8.3.2: weakened", []string{`Etag: W/"a"`}, stored, true},
		{"4.3.4: a tag where there was none", []string{`Etag: "a"`}, stored[1:], false},
		{"4.3.4: what is no tag", []string{"Etag: a"}, stored, false},
		{"4.3.4: what is no tag, but the same", []string{"Etag: a"}, []string{"Etag: a"}, true},
		{"4.3.4: what is a tag at its beginning only", []string{`Etag: "a"b`}, stored, false},
		{"4.3.4: the same date", []string{"Last-Modified: " + at(-60)}, stored, true},
		{"4.3.4: another date", []string{"Last-Modified: " + at(-59)}, stored, false},
		{"4.3.4: the tag comes before the date", []string{`Etag: "a"`, "Last-Modified: " + at(-59)}, stored, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Confirms(fields(tt.answer...), fields(tt.stored...)); got != tt.want {
				t.Errorf("%q: %v", tt.answer, got)
			}
		})
	}
}

func TestFreshen(t *testing.T) {
	stored := fields("Age: 7", "Cache-Control: max-age=1", "Content-Encoding: gzip", "Date: "+at(-60), `Etag: "a"`, "x-a: 1", "X-B: 1")
	stored = append(stored, headers.Field{Op: headers.Add, Name: "X-A", Value: "2"}, headers.Field{Op: headers.Del, Name: "X-Outer"})
	answer := fields("Cache-Control: max-age=2", "Content-Encoding: br", "Content-Length: 0", "Content-MD5: x", "Content-Range: x", `ETag: W/"a"`, "X-A: 3", "X-C: 4")
	answer = append(answer, headers.Field{Op: headers.Del, Name: "X-B"}, headers.Field{Op: headers.Mute, Name: "Content-Type"})
	before, same := slices.Clone(stored), slices.Clone(answer)
	got := Freshen(stored, answer)
	want := append(fields("Content-Encoding: gzip", `Etag: "a"`, "X-B: 1"), headers.Field{Op: headers.Del, Name: "X-Outer"})
	want = append(want, fields("Cache-Control: max-age=2", "X-A: 3", "X-C: 4")...)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(stored, before) || !reflect.DeepEqual(answer, same) {
		t.Error("an argument was modified")
	}
}

// What is asked about a stored response is what that response would confirm, and it is asked only where it has a validator.
func FuzzConditions(f *testing.F) {
	f.Add(`"a"`, at(-60), `"b"`, uint8(0))
	f.Add(`W/"a"`, "0", `"a"`, uint8(1))
	f.Add("a", "Sunday, 06-Nov-94 08:49:37 GMT", `W/"a"`, uint8(2))
	f.Add("a", at(0), `"a"`, uint8(0))
	f.Add(`W/"a"`, at(0), `"a"`, uint8(0))
	f.Add(`"a"`, at(0), `"a"`, uint8(1))
	f.Add(`"a"b`, at(0), `"a"`, uint8(0))
	f.Add(`"a", "b"`, "", `"a"`, uint8(3))
	f.Fuzz(func(t *testing.T, etag, modified, other string, twice uint8) {
		var stored []headers.Field
		add := func(name, value, second string) {
			if value == "" {
				return
			}
			stored = append(stored, headers.Field{Op: headers.Set, Name: name, Value: value})
			if second != "" {
				stored = append(stored, headers.Field{Op: headers.Add, Name: name, Value: second})
			}
		}
		add("ETag", etag, []string{"", `"of another"`}[twice&1])
		add("last-modified", modified, []string{"", at(-1)}[twice>>1&1])
		h := make(http.Header)
		headers.Apply(h, stored)

		asked := Conditions(stored, testNow)
		if has := hasValidator(Response{Status: 200, After: h}, testNow); has != (len(asked) > 0) {
			t.Fatalf("%q: has a validator: %v; asked by %q", stored, has, asked)
		}
		if len(asked) == 0 {
			return
		}
		sent := make(http.Header)
		headers.Apply(sent, asked)
		match, since := sent["If-None-Match"], sent["If-Modified-Since"]
		if len(match) > 0 && !slices.Equal(match, []string{etag}) || len(since) > 0 && !slices.Equal(since, []string{modified}) {
			t.Errorf("%q: asked by %q", stored, asked)
		}
		if !NotModified(match, since, etag, modified, testNow) {
			t.Errorf("%q: what it asks by, %q, is not itself", stored, asked)
		}
		if !Confirms(stored, stored) || !Confirms(nil, stored) {
			t.Errorf("%q does not confirm itself", stored)
		}
		tag := strings.TrimPrefix(other, "W/")
		if isTag(other) && Confirms(fields("Etag: "+other), stored) != (tag == strings.TrimPrefix(etag, "W/")) {
			t.Errorf("%q is confirmed by a 304 for %q: %v", stored, other, tag != strings.TrimPrefix(etag, "W/"))
		}
	})
}

// A 304 replaces the values of each field that it has; those that describe the body stay as they are stored, and are not added
// (RFC 9111 3.2). All other fields stay, in whatever case names are written, and whatever the outer header is.
func FuzzFreshen(f *testing.F) {
	f.Add("X-A", "x-a", "X-B", "X-C", uint16(0))
	f.Add("Age", "Date", "X-B", "X-C", uint16(0))
	f.Add("Content-Encoding", "content-encoding", "ETag", "X-C", uint16(0x0101))
	f.Add("Cache-Control", "Vary", "vary", "cache-control", uint16(0x0210))
	f.Add("X-A", "X-A", "X-A", "Content-Length", uint16(0x1230))
	f.Add("Date", "Age", "age", "Content-Range", uint16(0x0312))
	f.Fuzz(func(t *testing.T, a, b, c, d string, ops uint16) {
		stored := steps([]string{a, b, "Etag"}, ops, "stored")
		answer := steps([]string{c, d, "Content-Length", "Content-MD5", "etag"}, ops>>6, "new")
		before, same := slices.Clone(stored), slices.Clone(answer)
		got := Freshen(stored, answer)
		if !slices.Equal(stored, before) || !slices.Equal(answer, same) {
			t.Error("an argument was modified")
		}

		of := func(list []headers.Field, name string) (kept []headers.Field) {
			for _, f := range list {
				if strings.EqualFold(f.Name, name) {
					kept = append(kept, f)
				}
			}
			return kept
		}
		for _, name := range []string{a, b, c, d, "Etag", "Content-Length", "Content-Md5"} {
			now, was, said := of(got, name), of(stored, name), of(answer, name)
			said = slices.DeleteFunc(said, func(f headers.Field) bool { return f.Op == headers.Del || f.Op == headers.Mute })
			want := was
			switch strings.ToLower(name) {
			case "content-encoding", "content-length", "content-md5", "content-range", "etag":
			case "age", "date":
				want = said
			default:
				if len(said) > 0 {
					want = said
				}
			}
			if !slices.Equal(now, want) {
				t.Errorf("%q: stored %q, in the 304 %q, then %q", name, was, said, now)
			}
		}
		if n := len(got); n > len(stored)+len(answer) {
			t.Errorf("%d fields of %d and %d", n, len(stored), len(answer))
		}
	})
}

// steps is a difference with an operation for each name, of two bits of ops each.
func steps(names []string, ops uint16, value string) (list []headers.Field) {
	for i, name := range names {
		switch op := [...]headers.Op{headers.Set, headers.Add, headers.Del, headers.Mute}[ops>>(2*i)&3]; op {
		case headers.Set:
			list = append(list, headers.Field{Op: op, Name: name, Value: value}, headers.Field{Op: headers.Add, Name: name, Value: value + " too"})
		case headers.Add:
			list = append(list, headers.Field{Op: op, Name: name, Value: value})
		default:
			list = append(list, headers.Field{Op: op, Name: name})
		}
	}
	return list
}
