package rfc9111

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
)

// MaxDelta stands for every larger number of seconds (RFC 9111 1.2.2).
const MaxDelta = entry.MaxDuration

// Delta is a directive whose argument is a number of seconds.
type Delta struct {
	Present bool
	Valid   bool // every occurrence had a valid argument
	// Value is the smallest argument; zero if one is not valid, so that the response counts as stale
	// (RFC 9111 4.2.1).
	Value time.Duration
}

// Directives is what the Cache-Control field of a response says (RFC 9111 5.2.2, RFC 5861).
type Directives struct {
	NoStore bool
	NoCache bool
	Private bool
	// Omit are the fields that no-cache="..." and private="..." name, canonical: a shared cache may keep the
	// rest of the response without them (5.2.2.4, 5.2.2.7). A list that it cannot follow counts as none at all: the
	// directive then is about the whole response.
	Omit []string

	// These lift restrictions, so they are set by well-formed directives only.
	Public         bool
	MustRevalidate bool
	MustUnderstand bool
	// NoStale: must-revalidate, proxy-revalidate, s-maxage or an unlisted no-cache is there, in whatever form.
	NoStale bool

	MaxAge               Delta
	SMaxAge              Delta
	StaleWhileRevalidate Delta
	StaleIfError         Delta
}

// ParseCacheControl parses the lines of a Cache-Control field (RFC 9111 5.2). Of several
// occurrences of a directive the strictest counts (4.2.1 leaves the choice). Directives that are
// not known are ignored (5.2.3).
//
// A list element that does not parse still forbids what the tokens in it name, and permits nothing:
// "max-age=60; no-store" is not storable, "max-age = 60" is stale, "public;" is not public.
func ParseCacheControl(lines []string) Directives {
	var d Directives
	for _, line := range lines {
		for line != "" {
			var element string
			element, line = cutElement(line)
			d.add(element)
		}
	}
	return d
}

// cutElement cuts the first element off a list; commas in a quoted string do not separate (RFC 9110
// 5.6.1, 5.6.4). A quoted string without end takes up the rest, whose tokens then count as those of
// a malformed element.
func cutElement(list string) (element, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// add takes in one list element. Empty elements are legal (RFC 9110 5.6.1.2).
func (d *Directives) add(element string) {
	element = strings.Trim(element, " \t")
	if element == "" {
		return
	}
	if name, argument, hasArgument, ok := parseDirective(element); ok {
		d.apply(strings.ToLower(name), argument, !hasArgument)
		return
	}
	notToken := func(c rune) bool { return !headers.IsToken(string(c)) }
	for _, token := range strings.FieldsFunc(element, notToken) {
		d.apply(strings.ToLower(token), "", false)
	}
}

// apply takes in one directive. bare says that it is well-formed and has no argument, which is the
// form of the directives that lift restrictions.
func (d *Directives) apply(name, argument string, bare bool) {
	switch name {
	case "no-store": // 5.2.2.5
		d.NoStore = true
	case "no-cache": // 5.2.2.4
		if !d.omit(argument) {
			d.NoCache = true
			d.NoStale = true
		}
	case "private": // 5.2.2.7
		d.Private = d.Private || !d.omit(argument)
	case "must-understand": // 5.2.2.3; it may lift no-store, so in a doubtful form it counts as that
		d.MustUnderstand = d.MustUnderstand || bare
		d.NoStore = d.NoStore || !bare
	case "public": // 5.2.2.9
		d.Public = d.Public || bare
	case "must-revalidate": // 5.2.2.2
		d.MustRevalidate = d.MustRevalidate || bare
		d.NoStale = true
	case "proxy-revalidate": // 5.2.2.8
		d.NoStale = true
	case "max-age": // 5.2.2.1
		d.MaxAge.add(argument)
	case "s-maxage": // 5.2.2.10: "incorporates the semantics of proxy-revalidate"
		d.SMaxAge.add(argument)
		d.NoStale = true
	case "stale-while-revalidate": // RFC 5861 3
		d.StaleWhileRevalidate.add(argument)
	case "stale-if-error": // RFC 5861 4
		d.StaleIfError.add(argument)
	}
}

// omit takes in the argument of a qualified no-cache or private, and reports whether it is a list of fields that
// can be left out. Those that say what the response is, or how long it may be used, cannot: without them it would
// be another response.
func (d *Directives) omit(argument string) bool {
	var names []string
	for name := range strings.SplitSeq(argument, ",") {
		name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
		switch {
		case name == "":
			continue
		case !headers.IsToken(name), strings.HasPrefix(name, "Content-"), slices.Contains(essential[:], name):
			return false
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return false
	}
	d.Omit = append(d.Omit, names...)
	slices.Sort(d.Omit)
	d.Omit = slices.Compact(d.Omit)
	return true
}

var essential = [...]string{"Age", "Cache-Control", "Date", "Etag", "Expires", "Last-Modified", "Location", "Vary"}

func (d *Delta) add(argument string) {
	value, ok := parseDelta(argument)
	if d.Present {
		value = min(value, d.Value)
		ok = ok && d.Valid
	}
	*d = Delta{Present: true, Valid: ok, Value: value}
}

// parseDirective parses token [ "=" ( token / quoted-string ) ] (RFC 9111 5.2). Both forms of an
// argument are accepted for every directive.
func parseDirective(element string) (name, argument string, hasArgument, ok bool) {
	name, argument, hasArgument = strings.Cut(element, "=")
	if !headers.IsToken(name) {
		return "", "", false, false
	}
	if hasArgument && strings.HasPrefix(argument, `"`) {
		argument, ok = unquote(argument)
		return name, argument, true, ok
	}
	return name, argument, hasArgument, !hasArgument || headers.IsToken(argument)
}

// unquote returns what a quoted-string stands for (RFC 9110 5.6.4).
func unquote(s string) (string, bool) {
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return out.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		out.WriteByte(s[i])
	}
	return "", false
}

// parseDelta parses delta-seconds (RFC 9111 1.2.2): digits only, no sign, no fraction; what is too
// large becomes MaxDelta.
func parseDelta(s string) (time.Duration, bool) {
	var seconds int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		seconds = min(seconds*10+int64(s[i]-'0'), int64(MaxDelta/time.Second))
	}
	return time.Duration(seconds) * time.Second, s != ""
}
