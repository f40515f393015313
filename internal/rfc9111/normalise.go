package rfc9111

import (
	"cmp"
	"slices"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
)

// NormalVaryValue is a coarser VaryValue, for routes that want it: what differs in spelling only is the same (RFC 9111 4.1).
// The members of Accept-Language are in the order of their weights, those of equal weight in that of the alphabet, because their own order
// says nothing that can be relied upon (RFC 9110 12.5.4). In fields that are not known the spaces around commas go, which
// belong to no member of a list (5.6.1), unless the comma is in a quoted string.
func NormalVaryValue(name string, lines []string) string {
	value := VaryValue(name, lines)
	switch {
	case strings.EqualFold(name, "Accept-Encoding"):
		return value
	case strings.EqualFold(name, "Accept-Language"):
		return orderLanguages(value)
	}
	return withoutListSpaces(value)
}

// orderLanguages brings the members of a list without spaces in order. What is not such a list stays as it is.
func orderLanguages(list string) string {
	type language struct {
		name   string
		weight int
	}
	var languages []language
	for member := range strings.SplitSeq(list, ",") {
		if member == "" {
			continue
		}
		name, parameters, weighted := strings.Cut(member, ";")
		l := language{name, 1000}
		ok := headers.IsToken(name)
		if ok && weighted {
			l.weight, ok = parseWeight(parameters)
		}
		if !ok {
			return list
		}
		languages = append(languages, l)
	}
	if len(languages) == 0 {
		return list
	}
	slices.SortFunc(languages, func(a, b language) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.name, b.name))
	})
	var out strings.Builder
	for i, l := range slices.Compact(languages) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(l.name)
		out.WriteString(weightParameter(l.weight))
	}
	return out.String()
}

func withoutListSpaces(list string) string {
	if !strings.Contains(list, ",") || !strings.ContainsAny(list, " \t") {
		return list
	}
	var members []string
	for more := true; more; {
		member, rest := cutElement(list)
		more = len(member) < len(list)
		members = append(members, strings.Trim(member, " \t"))
		list = rest
	}
	return strings.Join(members, ",")
}
