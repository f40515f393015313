// Package headers computes and replays what a handler did to a response header.
//
// A stored response must not carry what middleware outside the cache set on the response that
// happened to be stored: the CORS answer of one origin, the id of one request. So what is stored is
// the handler's own difference to the header, and a replay applies this difference to whatever the
// outer middleware set this time.
//
// All functions are pure but for Apply, which changes its first argument.
package headers

import (
	"net/http"
	"slices"
	"sort"
	"strings"
)

// Op says what the handler did to one header name.
type Op byte

const (
	// Set replaces all values of the name.
	Set Op = 's'
	// Add appends a value to those of the outer middleware.
	Add Op = 'a'
	// Del removes the name.
	Del Op = 'd'
	// Mute leaves the name present but without values. net/http takes that as the order not to make
	// up a Date or Content-Type of its own, which a plain Del would not express.
	Mute Op = 'm'
)

// Field is one step of a difference. A name with several values is a Set followed by Adds.
type Field struct {
	Op    Op
	Name  string // as the handler spelled it: canonical, unless it wrote to the map itself
	Value string // empty for Del and Mute
}

// Diff returns the steps that turn before into after, in the order of the names. It modifies
// neither and keeps no reference to their slices.
//
// When the values in after begin with those in before, the handler is taken to have appended: a
// replay then keeps the values that outer middleware sets at that time.
func Diff(before, after http.Header) []Field {
	names := make([]string, 0, len(after))
	for name := range after {
		names = append(names, name)
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	sort.Strings(names)

	var diff []Field
	for _, name := range names {
		old, had := before[name]
		now, has := after[name]
		switch {
		case had == has && slices.Equal(old, now):
		case !has:
			diff = append(diff, Field{Op: Del, Name: name})
		case len(now) == 0:
			diff = append(diff, Field{Op: Mute, Name: name})
		case len(old) > 0 && len(old) < len(now) && slices.Equal(old, now[:len(old)]):
			for _, v := range now[len(old):] {
				diff = append(diff, Field{Add, name, v})
			}
		default:
			diff = append(diff, Field{Set, name, now[0]})
			for _, v := range now[1:] {
				diff = append(diff, Field{Add, name, v})
			}
		}
	}
	return diff
}

// Apply replays a difference onto h: Apply(before, Diff(before, after)) makes before equal to
// after. The values of all names share one allocation.
func Apply(h http.Header, diff []Field) { ApplyAnd(h, diff, 0) }

// ApplyAnd is Apply with room for the values of more fields in the same allocation, for the caller to use.
func ApplyAnd(h http.Header, diff []Field, more int) (room []string) {
	values := make([]string, len(diff)+more)
	for i := 0; i < len(diff); {
		f, n := diff[i], 1
		switch f.Op {
		case Set:
			for i+n < len(diff) && diff[i+n].Op == Add && diff[i+n].Name == f.Name {
				n++
			}
			// The capacity ends where the values of the next name begin, so that a later append moves.
			own := values[i : i+n : i+n]
			for j := range own {
				own[j] = diff[i+j].Value
			}
			h[f.Name] = own
		case Add:
			h[f.Name] = append(h[f.Name], f.Value)
		case Del:
			delete(h, f.Name)
		case Mute:
			h[f.Name] = nil
		}
		i += n
	}
	return values[len(diff):]
}

// Get returns the first value that the difference gives to the name, in whatever case it was
// spelled (RFC 9110 5.1), or "".
func Get(diff []Field, name string) string {
	for i := range diff {
		f := &diff[i]
		if (f.Op == Set || f.Op == Add) && len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Lines returns the lines of a field, in whatever case its name was spelled (RFC 9110 5.1): a
// handler that writes to the map itself may have used h["cache-control"], and the client will
// honour it. The caller does not modify the result.
func Lines(h http.Header, name string) []string {
	lines := h[http.CanonicalHeaderKey(name)]
	var others []string
	for spelled := range h {
		if len(spelled) == len(name) && spelled != http.CanonicalHeaderKey(name) && strings.EqualFold(spelled, name) {
			others = append(others, spelled)
		}
	}
	if len(others) == 0 {
		return lines
	}
	sort.Strings(others) // the order of a map must not decide which line counts as the first
	lines = slices.Clone(lines)
	for _, spelled := range others {
		lines = append(lines, h[spelled]...)
	}
	return lines
}
