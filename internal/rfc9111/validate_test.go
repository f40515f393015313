package rfc9111

import (
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
