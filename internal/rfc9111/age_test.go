package rfc9111

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// header makes a header of names and values in turn.
func header(fields ...string) http.Header {
	h := http.Header{}
	for field := range slices.Chunk(fields, 2) {
		h.Add(field[0], field[1])
	}
	return h
}

// at returns the HTTP-date of testNow shifted by seconds.
func at(shift int) string {
	return testNow.Add(time.Duration(shift) * time.Second).Format(http.TimeFormat)
}

func TestInitialAge(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    http.Header
		want time.Duration
	}{
		{"4.2.3: neither Age nor Date", header(), 0},
		{"5.1: Age", header("Age", "30"), 30 * time.Second},
		{"5.1: the first member", header("Age", "7200, 0"), 7200 * time.Second},
		{"5.1: the first member, zero", header("Age", "0, 7200"), 0},
		{"5.1: the first line", header("Age", "7200", "Age", "0"), 7200 * time.Second},
		{"5.1: the first line, zero", header("Age", "0", "Age", "7200"), 0},
		{"5.1: not a number", header("Age", "abc"), 0},
		{"5.1: negative", header("Age", "-7200"), 0},
		{"5.1: fraction", header("Age", "7200.0"), 0},
		{"5.1: empty", header("Age", ""), 0},
		{"5.1: with a parameter", header("Age", "7200;foo=bar"), 0},
		{"1.2.2: overflow", header("Age", "2147483649"), MaxDelta},
		{"RFC 9110 5.1: a name spelled otherwise", http.Header{"age": {"30"}}, 30 * time.Second},

		{"4.2.3: apparent age", header("Date", at(-100)), 99 * time.Second},
		{"4.2.3: Date of this second", header("Date", at(0)), 0},
		{"4.2.3: Date of the second before", header("Date", at(-1)), 0},
		{"4.2.3: Date in the future", header("Date", at(100)), 0},
		{"4.2.3: the larger of both, Date", header("Date", at(-100), "Age", "5"), 99 * time.Second},
		{"4.2.3: the larger of both, Age", header("Date", at(-100), "Age", "500"), 500 * time.Second},
		{"4.2.3: far in the past", header("Date", "Sat, 01 Jan 0000 00:00:00 GMT"), MaxDelta},
		{"RFC 9110 6.6.1: invalid Date", header("Date", "foo"), 0},
		{"RFC 9110 6.6.1: two Dates", header("Date", at(-100), "Date", at(-50)), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := initialAge(tt.h, testNow); got != tt.want {
				t.Errorf("initialAge = %v, want %v", got, tt.want)
			}
		})
	}
	if got := initialAge(header("Date", at(-100), "Age", "5"), time.Time{}); got != 5*time.Second {
		t.Errorf("without a clock: %v", got)
	}
}

// Whatever fields a response has, ages and lifetimes stay in range, and their sums cannot overflow.
func FuzzAgeArithmetic(f *testing.F) {
	f.Add("30", at(0), at(60), "max-age=60, stale-while-revalidate=10", int64(0), int64(-1))
	f.Add("99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", "", int64(1<<62), int64(1<<62))
	f.Add("", "Sat, 01 Jan 0000 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "stale-if-error=99999999999", int64(-1<<62), int64(1))
	f.Fuzz(func(t *testing.T, age, date, expires, cacheControl string, unix, option int64) {
		r := Response{Status: 200, After: header("Age", age, "Date", date, "Expires", expires, "Cache-Control", cacheControl)}
		p := Policy{FreshFor: map[int]time.Duration{200: time.Duration(option)}, StaleFor: time.Duration(option), StaleIfError: time.Duration(option)}
		v := Judge(r, p, time.Unix(unix, 0))
		for _, d := range []time.Duration{v.Age, v.Fresh, v.Stale, v.StaleIfError} {
			if d < 0 || d > MaxDelta {
				t.Errorf("%+v", v)
			}
		}
		if v.Reason == "" && v.Fresh+max(v.Stale, v.StaleIfError) <= v.Age {
			t.Errorf("stored for nothing: %+v", v)
		}
	})
}
