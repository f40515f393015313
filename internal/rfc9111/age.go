package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// initialAge returns the age that a response has when it is received at now (corrected_initial_age,
// RFC 9111 4.2.3, without the response delay, which this package does not know). A zero now leaves
// out what follows from Date.
func initialAge(h http.Header, now time.Time) time.Duration {
	return max(ageField(h), apparentAge(h, now))
}

// ageField returns the value of the Age field (RFC 9111 5.1): the first member of the first line;
// ignored unless it is a number.
func ageField(h http.Header) time.Duration {
	lines := headers.Lines(h, "Age")
	if len(lines) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(lines[0], ",")
	age, _ := parseDelta(strings.Trim(first, " \t"))
	return age
}

// apparentAge returns how long ago the origin says it made the response (RFC 9111 4.2.3). A Date
// names a whole second, the response may have been made at its end: that second is not counted, or
// a response with max-age=1 would often be stale on arrival.
func apparentAge(h http.Header, now time.Time) time.Duration {
	made, ok := date(h, now)
	if !ok || now.IsZero() {
		return 0
	}
	return min(max(0, now.Sub(made)-time.Second), MaxDelta)
}
