package rfc9111

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/herdgate/herdgate/internal/headers"
)

func TestRange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		size  int64
		want  Part
	}{
		{"RFC 9110 14.1.2: first and last", []string{"bytes=0-1"}, 10, Part{206, 0, 2}},
		{"RFC 9110 14.1.2: one byte", []string{"bytes=9-9"}, 10, Part{206, 9, 1}},
		{"RFC 9110 14.1.2: to the end", []string{"bytes=3-"}, 10, Part{206, 3, 7}},
		{"RFC 9110 14.1.2: all", []string{"bytes=0-"}, 10, Part{206, 0, 10}},
		{"RFC 9110 14.1.2: last beyond the end", []string{"bytes=3-99999999999999999999999"}, 10, Part{206, 3, 7}},
		{"RFC 9110 14.1.2: the last bytes", []string{"bytes=-3"}, 10, Part{206, 7, 3}},
		{"RFC 9110 14.1.2: more than there are", []string{"bytes=-11"}, 10, Part{206, 0, 10}},
		{"RFC 9110 14.1: case of the unit", []string{"Bytes=0-1"}, 10, Part{206, 0, 2}},
		{"RFC 9110 14.1.2: unsatisfiable", []string{"bytes=10-"}, 10, Part{Status: 416}},
		{"RFC 9110 14.1.2: far too large", []string{"bytes=99999999999999999999999-"}, 10, Part{Status: 416}},
		{"RFC 9110 14.1.2: the last none", []string{"bytes=-0"}, 10, Part{Status: 416}},
		{"RFC 9110 14.1.2: of nothing", []string{"bytes=0-"}, 0, Part{Status: 416}},
		{"RFC 9110 14.1.2: the last of nothing", []string{"bytes=-1"}, 0, Part{Status: 416}},
		{"RFC 9110 14.2: last before first", []string{"bytes=3-2"}, 10, Part{}},
		{"RFC 9110 14.2: several", []string{"bytes=0-1,3-4"}, 10, Part{}},
		{"RFC 9110 14.2: another unit", []string{"lines=0-1"}, 10, Part{}},
		{"RFC 9110 14.2: no unit", []string{"0-1"}, 10, Part{}},
		{"RFC 9110 14.2: nothing", []string{"bytes="}, 10, Part{}},
		{"RFC 9110 14.2: only a dash", []string{"bytes=-"}, 10, Part{}},
		{"RFC 9110 14.2: no numbers", []string{"bytes=a-b"}, 10, Part{}},
		{"RFC 9110 14.2: signs", []string{"bytes=+1-2"}, 10, Part{}},
		{"RFC 9110 14.2: spaces", []string{"bytes=1 - 2"}, 10, Part{}},
		{"RFC 9110 14.2: two lines", []string{"bytes=0-1", "bytes=0-1"}, 10, Part{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Range(tt.lines, tt.size); got != tt.want {
				t.Errorf("%q of %d: %+v, want %+v", tt.lines, tt.size, got, tt.want)
			}
		})
	}
}

func TestRangeApplies(t *testing.T) {
	stored := func(fields ...string) (diff []headers.Field) { return headers.Diff(nil, header(fields...)) }
	strong := stored("Etag", `"a"`, "Last-Modified", at(-60), "Date", at(0))
	for _, tt := range []struct {
		name   string
		lines  []string
		stored []headers.Field
		want   bool
	}{
		{"RFC 9110 13.1.5: none", nil, nil, true},
		{"RFC 9110 13.1.5: the tag", []string{`"a"`}, strong, true},
		{"RFC 9110 13.1.5: another tag", []string{`"b"`}, strong, false},
		{"RFC 9110 13.1.5: a weak tag", []string{`W/"a"`}, stored("Etag", `W/"a"`), false},
		{"RFC 9110 13.1.5: the stored one is weak", []string{`"a"`}, stored("Etag", `W/"a"`), false},
		{"RFC 9110 13.1.5: a list", []string{`"a", "b"`}, stored("Etag", `"a", "b"`), false},
		{"RFC 9110 13.1.5: two stored tags", []string{`"a"`}, stored("Etag", `"a"`, "Etag", `"b"`), false},
		{"RFC 9110 13.1.5: the date", []string{at(-60)}, strong, true},
		{"RFC 9110 13.1.5: a later date", []string{at(-59)}, strong, false},
		{"RFC 9110 8.8.2.2: a date that may be of two versions", []string{at(0)}, stored("Last-Modified", at(0), "Date", at(0)), false},
		{"RFC 9110 8.8.2.2: without Date", []string{at(-60)}, stored("Last-Modified", at(-60)), false},
		{"RFC 9110 13.1.5: no date", []string{"x"}, stored("Last-Modified", "x", "Date", at(0)), false},
		{"RFC 9110 13.1.5: two lines", []string{`"a"`, `"a"`}, strong, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := RangeApplies(tt.lines, tt.stored, testNow); got != tt.want {
				t.Errorf("%q: %v", tt.lines, got)
			}
		})
	}
}

// Whatever the field, what is selected lies within the body.
func FuzzRange(f *testing.F) {
	for _, seed := range []string{"bytes=0-1", "bytes=-5", "bytes=3-", "bytes=9223372036854775807-9223372036854775807", "bytes=--1"} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, line string, size int64) {
		size = max(0, size)
		p := Range([]string{line}, size)
		if p.Status == 206 && (p.First < 0 || p.Length < 1 || p.First > size-p.Length) || p.Status != 206 && (p.First != 0 || p.Length != 0) {
			t.Errorf("%q of %d: %+v", line, size, p)
		}
		if p.Status != 206 {
			return
		}
		var first, last, of int64
		if _, err := fmt.Sscanf(p.ContentRange(size), "bytes %d-%d/%d", &first, &last, &of); err != nil || of != size || first != p.First || last-first+1 != p.Length {
			t.Errorf("%+v of %d is said to be %q", p, size, p.ContentRange(size))
		}
		if again := Range([]string{fmt.Sprintf("bytes=%d-%d", first, last)}, size); again != p {
			t.Errorf("%+v of %d, asked for by its bounds: %+v", p, size, again)
		}
	})
}

// A part is sent only to those who certainly have another part of the same bytes: nothing weak ever matches, and two tags are none.
func FuzzRangeApplies(f *testing.F) {
	f.Add(`"a"`, `"a"`, at(-60), at(0))
	f.Add(`W/"a"`, `W/"a"`, at(-60), at(0))
	f.Add(`"a"`, `W/"a"`, at(0), at(0))
	f.Add(at(-60), `"a"`, at(-60), at(0))
	f.Add(at(0), "", at(0), at(0))
	f.Add(at(-59), "", at(-60), at(0))
	f.Add("Monday, 15-Jun-26 11:59:00 GMT", "", at(-60), at(-59))
	f.Fuzz(func(t *testing.T, ifRange, etag, modified, date string) {
		stored := fields("Last-Modified: "+modified, "Date: "+date)
		withTag := append(fields("ETag: "+etag), stored...)
		got := RangeApplies([]string{ifRange}, withTag, testNow)

		byTag := ifRange == etag && strings.HasPrefix(etag, `"`) && isTag(etag)
		asked, ok1 := ParseDate(ifRange, testNow)
		changed, ok2 := ParseDate(modified, testNow)
		made, ok3 := ParseDate(date, testNow)
		byDate := ok1 && ok2 && ok3 && asked.Equal(changed) && changed.Before(made)
		if got != (byTag || byDate) {
			t.Errorf("If-Range: %q, stored ETag %q, Last-Modified %q, Date %q: %v", ifRange, etag, modified, date, got)
		}
		if got && byTag && !NotModified([]string{ifRange}, nil, etag, "", testNow) {
			t.Errorf("%q is strongly %q, but not weakly", ifRange, etag)
		}
		for _, weak := range [][2]string{{"W/" + ifRange, etag}, {ifRange, "W/" + etag}, {"W/" + ifRange, "W/" + etag}} {
			if !byDate && RangeApplies([]string{weak[0]}, append(fields("ETag: "+weak[1]), stored...), testNow) {
				t.Errorf("If-Range: %q matches %q", weak[0], weak[1])
			}
		}
		twice := append(slices.Clone(withTag), headers.Field{Op: headers.Add, Name: "ETag", Value: `"of another"`})
		if byTag && RangeApplies([]string{ifRange}, twice, testNow) {
			t.Errorf("%q matches a response with two tags", ifRange)
		}
	})
}
