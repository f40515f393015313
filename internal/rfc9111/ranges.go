package rfc9111

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// Part is what a Range request gets of a complete stored response.
type Part struct {
	Status        int // 206, 416, or 0: all of it, as if there were no Range
	First, Length int64
}

// ContentRange is the field of that name of a response with a status (RFC 9110 14.4).
func (p Part) ContentRange(size int64) string {
	if p.Status != 206 {
		return "bytes */" + strconv.FormatInt(size, 10)
	}
	return "bytes " + strconv.FormatInt(p.First, 10) + "-" + strconv.FormatInt(p.First+p.Length-1, 10) + "/" + strconv.FormatInt(size, 10)
}

// Range selects what the lines of a Range field ask for, of a body of the given size (RFC 9110 14.2). A field that does not
// parse, another unit than bytes, and more than one range are ignored, which is always allowed: the answer is all of it.
func Range(lines []string, size int64) Part {
	if len(lines) != 1 {
		return Part{}
	}
	unit, set, ok := strings.Cut(lines[0], "=")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return Part{}
	}
	from, to, ok := strings.Cut(strings.Trim(set, " \t"), "-")
	first, last := position(from), position(to)
	unsatisfiable := Part{Status: 416}
	switch {
	case !ok || first < -1 || last < -1 || first < 0 && last < 0 || last >= 0 && last < first:
		return Part{}
	case first < 0 && (last == 0 || size == 0), first >= size:
		return unsatisfiable
	case first < 0: // the last bytes
		length := min(last, size)
		return Part{206, size - length, length}
	case last < 0 || last >= size:
		last = size - 1
	}
	return Part{206, first, last - first + 1}
}

// position parses a number of bytes: -1 if there is none, -2 if it is not a number.
func position(s string) int64 {
	if s == "" {
		return -1
	}
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -2
		}
		if n > (math.MaxInt64-9)/10 {
			n = (math.MaxInt64 - 9) / 10 // larger than any body, whatever follows
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n
}

// RangeApplies evaluates If-Range against the stored fields (RFC 9110 13.1.5): the stored response is certainly the one that
// the client has a part of. Both tags must be strong; a date must be the stored Last-Modified itself, and that
// must be strong, which it is a second before Date (8.8.2.2).
func RangeApplies(ifRange []string, stored []headers.Field, now time.Time) bool {
	if len(ifRange) == 0 {
		return true
	}
	if len(ifRange) > 1 {
		return false
	}
	if strings.HasPrefix(ifRange[0], `"`) {
		return isTag(ifRange[0]) && ifRange[0] == sole(stored, "Etag")
	}
	since, ok1 := ParseDate(ifRange[0], now)
	modified, ok2 := ParseDate(headers.Get(stored, "Last-Modified"), now)
	made, ok3 := ParseDate(headers.Get(stored, "Date"), now)
	return ok1 && ok2 && ok3 && since.Equal(modified) && made.Sub(modified) >= time.Second
}
