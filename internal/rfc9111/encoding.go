package rfc9111

import (
	"slices"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
)

// codings are the content codings that the normal form of Accept-Encoding knows, sorted. They are
// few, so that there are few variants and a client cannot make up more.
var codings = [...]string{"br", "deflate", "gzip", "zstd"}

// codingSet is a set of codings: bit i is codings[i]. The bit after them stands for identity; as
// every request accepts that unless it says otherwise, the bit is set in the result of
// acceptedCodings when it is refused. The last bit says that the request has a word on codings that are not known.
type codingSet uint8

const (
	identity     codingSet = 1 << len(codings)
	others                 = identity << 1
	everyEncoder           = identity - 1
)

// codingOf returns the bit of a coding; others for one that is not known, "*" included.
func codingOf(name string) codingSet {
	switch name = strings.ToLower(name); name {
	case "identity":
		return identity
	case "x-gzip": // RFC 9110 8.4.1.3: the same
		name = "gzip"
	}
	if i := slices.Index(codings[:], name); i >= 0 {
		return 1 << i
	}
	return others
}

// acceptedCodings returns what a request accepts (RFC 9110 12.5.3). A weight that does not parse
// counts as a refusal, and where members contradict each other the refusal counts.
func acceptedCodings(lines []string) codingSet {
	var accepted, refused codingSet
	var anyOther, noOther bool // what "*" says of the codings that no member names
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			name, weight, weighted := strings.Cut(member, ";")
			name = strings.Trim(name, " \t")
			wanted := !weighted || positiveWeight(weight)
			switch {
			case name == "":
				continue
			case name == "*" && wanted:
				anyOther = true
			case name == "*":
				noOther = true
			}
			switch {
			case wanted:
				accepted |= codingOf(name)
			default:
				refused |= codingOf(name)
			}
		}
	}
	set := accepted & everyEncoder
	if anyOther && !noOther {
		set = everyEncoder
	}
	set = set&^refused | (accepted|refused)&others
	if refused&identity != 0 || noOther && accepted&identity == 0 {
		set |= identity
	}
	return set
}

// positiveWeight reports whether the parameters of a member are a weight above zero.
func positiveWeight(parameters string) bool {
	weight, ok := parseWeight(parameters)
	return ok && weight > 0
}

// String returns the normal form: the codings, or "identity" if there are none, a refusal of identity, and whether there
// were others.
func (s codingSet) String() string { return codingForms[s] }

var codingForms = func() (forms [2 * others]string) {
	for s := range forms {
		var members []string
		for i, coding := range codings {
			if s&(1<<i) != 0 {
				members = append(members, coding)
			}
		}
		switch refused := codingSet(s)&identity != 0; {
		case refused:
			members = append(members, "identity;q=0")
		case len(members) == 0:
			members = append(members, "identity")
		}
		if codingSet(s)&others != 0 {
			members = append(members, "others")
		}
		forms[s] = strings.Join(members, ", ")
	}
	return forms
}()

// encodedAsAsked reports whether every request with the same normal form of Accept-Encoding accepts
// the coding that the handler chose. A handler that looks for "gzip" anywhere in the field answers
// "gzip;q=0" with gzip: that must not be stored for those who accept no coding. A request without
// the field accepts every coding (RFC 9110 12.5.3). A coding that is not known is what everybody gets, if the request has no
// word on such.
func encodedAsAsked(r Response) bool {
	if len(r.AcceptEncoding) == 0 || !setByHandler(r, "Content-Encoding") {
		return true
	}
	allowed := (acceptedCodings(r.AcceptEncoding) | identity) ^ others
	for _, line := range headers.Lines(r.After, "Content-Encoding") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.Trim(name, " \t"); name != "" && codingOf(name)&allowed == 0 {
				return false
			}
		}
	}
	return true
}
