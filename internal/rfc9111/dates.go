package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// ParseDate parses an HTTP-date in one of its three forms (RFC 9110 5.6.7), letter by letter: fixed
// widths, one space where the grammar has one, no zone but GMT. net/http's ParseTime is laxer on
// digits and spaces. Upper and lower case are the same, which RFC 9111 4.2 asks of caches, and the
// name of the day need not be the right one.
//
// The two-digit year of the RFC 850 form is taken as the last such year that is not more than 50
// years after now.
func ParseDate(s string, now time.Time) (time.Time, bool) {
	for _, form := range [...]func(*dateScanner, time.Time) time.Time{imfFixdate, asctime, rfc850} {
		in := dateScanner{rest: s}
		if t := form(&in, now); !in.bad && in.rest == "" {
			return t, true
		}
	}
	return time.Time{}, false
}

// imfFixdate scans "Sun, 06 Nov 1994 08:49:37 GMT".
func imfFixdate(in *dateScanner, _ time.Time) time.Time {
	in.name(shortDays[:])
	in.literal(", ")
	day := in.digits(2)
	in.literal(" ")
	month := in.name(months[:])
	in.literal(" ")
	year := in.digits(4)
	in.literal(" ")
	clock := in.clock()
	in.literal(" GMT")
	return in.date(year, month, day, clock)
}

// rfc850 scans "Sunday, 06-Nov-94 08:49:37 GMT".
func rfc850(in *dateScanner, now time.Time) time.Time {
	in.name(longDays[:])
	in.literal(", ")
	day := in.digits(2)
	in.literal("-")
	month := in.name(months[:])
	in.literal("-")
	year := in.digits(2)
	in.literal(" ")
	clock := in.clock()
	in.literal(" GMT")

	year += now.UTC().Year() / 100 * 100
	latest := now.UTC().AddDate(50, 0, 0)
	switch t := in.date(year, month, day, clock); {
	case in.bad:
		return t
	case t.After(latest):
		return in.date(year-100, month, day, clock)
	case !t.AddDate(100, 0, 0).After(latest):
		return in.date(year+100, month, day, clock)
	default:
		return t
	}
}

// asctime scans "Sun Nov  6 08:49:37 1994".
func asctime(in *dateScanner, _ time.Time) time.Time {
	in.name(shortDays[:])
	in.literal(" ")
	month := in.name(months[:])
	in.literal(" ")
	var day int
	if strings.HasPrefix(in.rest, " ") {
		in.literal(" ")
		day = in.digits(1)
	} else {
		day = in.digits(2)
	}
	in.literal(" ")
	clock := in.clock()
	in.literal(" ")
	return in.date(in.digits(4), month, day, clock)
}

var (
	shortDays = [...]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}
	longDays  = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	months    = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
)

// dateScanner reads a date from left to right. The first thing that does not fit makes it bad for good.
type dateScanner struct {
	rest string
	bad  bool
}

func (in *dateScanner) literal(want string) {
	if in.bad || len(in.rest) < len(want) || !strings.EqualFold(in.rest[:len(want)], want) {
		in.bad = true
		return
	}
	in.rest = in.rest[len(want):]
}

// name reads one of the names and returns its index.
func (in *dateScanner) name(names []string) int {
	for i, name := range names {
		if len(in.rest) >= len(name) && strings.EqualFold(in.rest[:len(name)], name) {
			in.literal(name)
			return i
		}
	}
	in.bad = true
	return 0
}

func (in *dateScanner) digits(n int) int {
	if in.bad || len(in.rest) < n {
		in.bad = true
		return 0
	}
	value := 0
	for i := range n {
		c := in.rest[i]
		if c < '0' || c > '9' {
			in.bad = true
			return 0
		}
		value = value*10 + int(c-'0')
	}
	in.rest = in.rest[n:]
	return value
}

// clock reads "08:49:37" as the time since midnight. A leap second counts as the second before it:
// the nearest representable time that is not later (RFC 9111 4.2).
func (in *dateScanner) clock() time.Duration {
	hour := in.digits(2)
	in.literal(":")
	minute := in.digits(2)
	in.literal(":")
	second := in.digits(2)
	if hour > 23 || minute > 59 || second > 60 {
		in.bad = true
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(min(second, 59))*time.Second
}

// date puts a date together, which must be one of the calendar: no 30 February. month counts from zero.
func (in *dateScanner) date(year, month, day int, clock time.Duration) time.Time {
	midnight := time.Date(year, time.Month(month+1), day, 0, 0, 0, 0, time.UTC)
	if midnight.Day() != day {
		in.bad = true
	}
	return midnight.Add(clock)
}

// date returns the time in a response's Date field (RFC 9110 6.6.1), if there is exactly one that parses.
func date(h http.Header, now time.Time) (time.Time, bool) {
	lines := headers.Lines(h, "Date")
	if len(lines) != 1 {
		return time.Time{}, false
	}
	return ParseDate(lines[0], now)
}
