package rfc9111

import (
	"net/http"
	"slices"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
)

// VaryNames returns the request headers that the lines of a Vary field name (RFC 9110 12.5.5):
// canonical, sorted, without duplicates. star reports a member "*", which no request matches (RFC
// 9111 4.1); a member that is no field name cannot be matched either and counts as "*".
func VaryNames(lines []string) (names []string, star bool) {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			member = strings.Trim(member, " \t")
			switch {
			case member == "": // an empty list element (RFC 9110 5.6.1.2)
			case member == "*", !headers.IsToken(member):
				star = true
			default:
				names = append(names, http.CanonicalHeaderKey(member))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), star
}

// negotiated are the headers on which middleware outside the cache negotiates for itself, CORS and
// compression: it does so again at every replay, so its own Vary says nothing about the stored
// response. That ends where the handler itself has set the field that the header selects.
var negotiated = map[string]string{
	"Origin":          "Access-Control-Allow-Origin",
	"Accept-Encoding": "Content-Encoding",
}

// variance returns the request headers on which the stored part of a response varies.
//
// Accept-Encoding is added where the handler encoded the body without saying so: otherwise a client
// that cannot decode it would get it.
func variance(r Response) (names []string, star bool) {
	all := headers.Lines(r.After, "Vary")
	names, star = VaryNames(all)
	own, _ := VaryNames(handlerLines(headers.Lines(r.Before, "Vary"), all))

	names = slices.DeleteFunc(names, func(name string) bool {
		selects, ok := negotiated[name]
		return ok && !slices.Contains(own, name) && !setByHandler(r, selects)
	})
	if at, found := slices.BinarySearch(names, "Accept-Encoding"); !found && setByHandler(r, "Content-Encoding") {
		names = slices.Insert(names, at, "Accept-Encoding")
	}
	return names, star
}

// handlerLines returns the lines that the handler added to those of outer middleware, or all if it
// replaced them.
func handlerLines(before, after []string) []string {
	if len(before) <= len(after) && slices.Equal(before, after[:len(before)]) {
		return after[len(before):]
	}
	return after
}

func setByHandler(r Response, name string) bool {
	after := headers.Lines(r.After, name)
	return len(after) > 0 && !slices.Equal(after, headers.Lines(r.Before, name))
}

var withoutSpaces = strings.NewReplacer(" ", "", "\t", "")

// VaryValue returns the normal form of a request header for comparison (RFC 9111 4.1): its lines
// joined by ", " and trimmed, or for Accept-Encoding the codings that may be answered with. In Accept-Language case and spaces do not
// matter (RFC 9110 12.5.4); the order of its members may. Absent,
// which matches absent only, is ""; present and empty is " ", which no other value can be.
func VaryValue(name string, lines []string) string {
	switch {
	case len(lines) == 0:
		return ""
	case strings.EqualFold(name, "Accept-Encoding"):
		return acceptedCodings(lines).String()
	}
	value := lines[0]
	if len(lines) > 1 {
		value = strings.Join(lines, ", ")
	}
	if strings.EqualFold(name, "Accept-Language") {
		value = headers.Lower(withoutSpaces.Replace(value))
	}
	if value = strings.Trim(value, " \t"); value == "" {
		return " "
	}
	return value
}
