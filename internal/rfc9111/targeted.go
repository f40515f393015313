package rfc9111

import (
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
)

// ParseTargeted parses the lines of a targeted field such as CDN-Cache-Control (RFC 9213 2.1). It returns false if the field
// is to be ignored: it is not there, empty, or not a Dictionary of RFC 9651.
//
// Parameters are ignored, and so are members that are not known. A directive with a value of the wrong type is as
// strict as it can be: it still forbids what it names, and a lifetime that is no Integer is none.
func ParseTargeted(lines []string) (d Directives, ok bool) {
	in := sfScanner{rest: strings.Trim(strings.Join(lines, ","), " ")}
	if in.rest == "" {
		return Directives{}, false
	}
	type member struct {
		name  string
		value sfValue
	}
	var members []member
	for {
		m := member{name: in.key()}
		if in.skip('=') {
			m.value = in.member()
		} else {
			m.value = sfValue{kind: sfTrue}
			in.parameters()
		}
		if in.bad {
			return Directives{}, false
		}
		members = append(members, m)
		in.space()
		if in.rest == "" {
			break
		}
		if !in.skip(',') {
			return Directives{}, false
		}
		in.space()
	}
	for i, m := range members {
		replaced := false // RFC 9651 4.2.2: the last of a name counts
		for _, later := range members[i+1:] {
			replaced = replaced || later.name == m.name
		}
		switch {
		case replaced, m.value.kind == sfFalse:
		case m.value.kind == sfTrue:
			d.apply(m.name, "", true)
		case m.value.kind == sfInteger, m.value.kind == sfString && !isDelta(m.name):
			d.apply(m.name, m.value.text, false)
		default:
			d.apply(m.name, "", false)
		}
	}
	return d, true
}

func isDelta(name string) bool {
	switch name {
	case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
		return true
	}
	return false
}

type sfKind uint8

const (
	sfOther sfKind = iota // a valid item that no directive has
	sfTrue
	sfFalse
	sfInteger
	sfString
)

type sfValue struct {
	kind sfKind
	text string
}

// sfScanner reads structured fields (RFC 9651 4.2) from left to right. The first thing that does not fit makes it bad for good.
type sfScanner struct {
	rest string
	bad  bool
}

func (in *sfScanner) skip(c byte) bool {
	if in.bad || in.rest == "" || in.rest[0] != c {
		return false
	}
	in.rest = in.rest[1:]
	return true
}

// space skips OWS.
func (in *sfScanner) space() { in.rest = strings.TrimLeft(in.rest, " \t") }

// while takes the bytes that fit.
func (in *sfScanner) while(fits func(c byte) bool) string {
	n := 0
	for n < len(in.rest) && fits(in.rest[n]) {
		n++
	}
	taken := in.rest[:n]
	in.rest = in.rest[n:]
	return taken
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

func (in *sfScanner) key() string {
	if in.rest == "" || !isLower(in.rest[0]) && in.rest[0] != '*' {
		in.bad = true
		return ""
	}
	return in.while(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

// member reads an item or an inner list, with parameters.
func (in *sfScanner) member() (v sfValue) {
	if !in.skip('(') {
		v = in.item()
		in.parameters()
		return v
	}
	for {
		in.rest = strings.TrimLeft(in.rest, " ")
		if in.skip(')') {
			in.parameters()
			return v
		}
		in.item()
		in.parameters()
		if in.bad || in.rest == "" || in.rest[0] != ' ' && in.rest[0] != ')' {
			in.bad = true
			return v
		}
	}
}

func (in *sfScanner) parameters() {
	for !in.bad && in.skip(';') {
		in.rest = strings.TrimLeft(in.rest, " ")
		in.key()
		if in.skip('=') {
			in.item()
		}
	}
}

// item reads a bare item.
func (in *sfScanner) item() (v sfValue) {
	switch {
	case in.bad:
	case in.rest == "":
		in.bad = true
	case in.skip('"'):
		return sfValue{sfString, in.text()}
	case in.skip('?'):
		switch {
		case in.skip('1'):
			return sfValue{kind: sfTrue}
		case in.skip('0'):
			return sfValue{kind: sfFalse}
		}
		in.bad = true
	case in.skip(':'):
		in.while(func(c byte) bool { return isAlpha(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 })
		in.bad = !in.skip(':')
	case in.skip('@'): // a Date
		in.bad = in.number().kind != sfInteger
	case strings.HasPrefix(in.rest, `%"`): // a Display String
		in.rest = in.rest[2:]
		in.while(func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' })
		in.bad = !in.skip('"')
	case in.rest[0] == '-' || isDigit(in.rest[0]):
		return in.number()
	case isAlpha(in.rest[0]) || in.rest[0] == '*': // a Token
		in.while(func(c byte) bool { return c == ':' || c == '/' || headers.IsToken(string(rune(c))) && c < 0x80 })
	default:
		in.bad = true
	}
	return sfValue{}
}

// number reads an Integer of at most 15 digits, or a Decimal of at most 12 and 3. A negative one is of no use to any directive.
func (in *sfScanner) number() sfValue {
	negative := in.skip('-')
	whole := in.while(isDigit)
	if !in.skip('.') {
		in.bad = in.bad || whole == "" || len(whole) > 15
		if negative {
			return sfValue{}
		}
		return sfValue{sfInteger, whole}
	}
	decimals := in.while(isDigit)
	in.bad = in.bad || whole == "" || len(whole) > 12 || decimals == "" || len(decimals) > 3
	return sfValue{}
}

// text reads the rest of a String.
func (in *sfScanner) text() string {
	var out strings.Builder
	for i := 0; i < len(in.rest); i++ {
		switch c := in.rest[i]; {
		case c == '"':
			in.rest = in.rest[i+1:]
			return out.String()
		case c == '\\':
			if i++; i == len(in.rest) || in.rest[i] != '"' && in.rest[i] != '\\' {
				in.bad = true
				return ""
			}
		case c < ' ' || c >= 0x7f:
			in.bad = true
			return ""
		}
		out.WriteByte(in.rest[i])
	}
	in.bad = true
	return ""
}
