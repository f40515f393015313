package rfc9111

import (
	"net/http"
	"testing"
	"time"
)

var testNow = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func TestParseDate(t *testing.T) {
	example := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, tt := range []struct {
		name, in string
		want     time.Time // zero: not a date
	}{
		{"RFC 9110 5.6.7: IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", example},
		{"RFC 9110 5.6.7: RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", example},
		{"RFC 9110 5.6.7: asctime", "Sun Nov  6 08:49:37 1994", example},
		{"RFC 9110 5.6.7: asctime, two digits", "Wed Nov 16 08:49:37 1994", example.AddDate(0, 0, 10)},
		{"RFC 9110 5.6.7: two-digit year within 50 years", "Wednesday, 15-Jun-76 12:00:00 GMT", testNow.AddDate(50, 0, 0)},
		{"RFC 9110 5.6.7: two-digit year beyond 50 years", "Wednesday, 15-Jun-76 12:00:01 GMT", testNow.AddDate(-50, 0, 0).Add(time.Second)},
		{"RFC 9110 5.6.7: leap second", "Sat, 31 Dec 2016 23:59:60 GMT", time.Date(2016, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"RFC 9111 4.2: case of the day", "SUN, 06 Nov 1994 08:49:37 GMT", example},
		{"RFC 9111 4.2: case of the month", "Sun, 06 nOV 1994 08:49:37 GMT", example},
		{"RFC 9111 4.2: case of the zone", "Sun, 06 Nov 1994 08:49:37 gMT", example},
		{"the day need not be right", "Mon, 06 Nov 1994 08:49:37 GMT", example},
		{"29 February", "Thu, 29 Feb 2024 00:00:00 GMT", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"last year", "Fri, 31 Dec 9999 23:59:59 GMT", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},

		{"nothing", "", time.Time{}},
		{"RFC 9111 5.3: zero", "0", time.Time{}},
		{"RFC 9111 4.2: another zone", "Sun, 06 Nov 1994 08:49:37 UTC", time.Time{}},
		{"RFC 9111 4.2: a zone by number", "Sun, 06 Nov 1994 08:49:37 +0000", time.Time{}},
		{"two-digit year", "Sun, 06 Nov 94 08:49:37 GMT", time.Time{}},
		{"no comma", "Sun 06 Nov 1994 08:49:37 GMT", time.Time{}},
		{"several spaces", "Sun, 06  Nov  1994 08:49:37 GMT", time.Time{}},
		{"space before", " Sun, 06 Nov 1994 08:49:37 GMT", time.Time{}},
		{"space after", "Sun, 06 Nov 1994 08:49:37 GMT ", time.Time{}},
		{"dashes", "Sun, 06-Nov-1994 08:49:37 GMT", time.Time{}},
		{"full stops", "Sun, 06 Nov 1994 08.49.37 GMT", time.Time{}},
		{"one-digit day", "Sun, 6 Nov 1994 08:49:37 GMT", time.Time{}},
		{"day with a space", "Sun,  6 Nov 1994 08:49:37 GMT", time.Time{}},
		{"one-digit hour", "Sun, 06 Nov 1994 8:49:37 GMT", time.Time{}},
		{"hour 24", "Sun, 06 Nov 1994 24:00:00 GMT", time.Time{}},
		{"minute 60", "Sun, 06 Nov 1994 08:60:00 GMT", time.Time{}},
		{"second 61", "Sun, 06 Nov 1994 08:00:61 GMT", time.Time{}},
		{"30 February", "Fri, 30 Feb 2024 00:00:00 GMT", time.Time{}},
		{"day 00", "Fri, 00 Feb 2024 00:00:00 GMT", time.Time{}},
		{"29 February of no leap year", "Thu, 29 Feb 2023 00:00:00 GMT", time.Time{}},
		{"no such day", "Sux, 06 Nov 1994 08:49:37 GMT", time.Time{}},
		{"no such month", "Sun, 06 Nom 1994 08:49:37 GMT", time.Time{}},
		{"full name of the day", "Sunday, 06 Nov 1994 08:49:37 GMT", time.Time{}},
		{"full name of the month", "Sun, 06 November 1994 08:49:37 GMT", time.Time{}},
		{"no zone", "Sun, 06 Nov 1994 08:49:37", time.Time{}},
		{"two dates", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT", time.Time{}},
		{"asctime with a zone", "Sun Nov  6 08:49:37 1994 GMT", time.Time{}},
		{"asctime with one space", "Sun Nov 6 08:49:37 1994", time.Time{}},
		{"RFC 850 with four digits", "Sunday, 06-Nov-1994 08:49:37 GMT", time.Time{}},
		{"RFC 850 with a short day", "Sun, 06-Nov-94 08:49:37 GMT", time.Time{}},
		{"RFC 3339", "1994-11-06T08:49:37Z", time.Time{}},
		{"signs for digits", "Sun, 06 Nov +994 08:49:37 GMT", time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ParseDate(tt.in, testNow)
			if ok == tt.want.IsZero() || !got.Equal(tt.want) {
				t.Errorf("ParseDate(%q) = %v, %v, want %v", tt.in, got, ok, tt.want)
			}
		})
	}
}

// What is accepted names a second that its canonical form names, too, and net/http agrees on it.
func FuzzParseDate(f *testing.F) {
	for _, seed := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Wed Nov 16 08:49:60 1994",
		"Tuesday, 29-Feb-00 00:00:00 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", "0",
	} {
		f.Add(seed, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		now := time.Unix(unix%(1<<37), 0) // years before 6300
		got, ok := ParseDate(s, now)
		if !ok {
			return
		}
		if again, ok := ParseDate(got.Format(http.TimeFormat), now); !ok || !again.Equal(got) {
			t.Errorf("%q is %v, whose canonical form is %v, %v", s, got, again, ok)
		}
		if s[3] == ',' {
			if theirs, err := http.ParseTime(s); err == nil && !theirs.Equal(got) {
				t.Errorf("%q is %v, for net/http %v", s, got, theirs)
			}
		}
	})
}
