package headers

import (
	"net/http"
	"slices"
	"strings"
)

// perMessage are the fields that belong to one message or one connection, in lower case: they are
// neither stored nor replayed, whoever set them.
var perMessage = map[string]bool{
	// RFC 9110 7.6.1: of the connection.
	"connection":        true,
	"keep-alive":        true,
	"proxy-connection":  true,
	"te":                true,
	"trailer":           true, // no trailers are stored, so none are announced
	"transfer-encoding": true,
	"upgrade":           true,
	// RFC 9111 3.1: between one proxy and one client.
	"proxy-authenticate":        true,
	"proxy-authentication-info": true,
	"proxy-authorization":       true,
	// Follows from the stored body at every replay.
	"content-length": true,
}

// Strip returns the part of a handler's difference that may be stored and replayed; after is the
// effective header, whose Connection field may name more fields to leave out (RFC 9110 7.6.1, RFC
// 9111 3.1).
//
// It also drops what is no field name at all, such as the "Trailer:" keys of net/http, and replaces
// CR, LF and NUL in a value by a space (RFC 9110 5.5), as net/http does when it writes: what Strip
// returns is Valid. The argument is not modified; when nothing needs a change it is returned
// itself.
func Strip(diff []Field, after http.Header) []Field {
	named := connectionOptions(after)
	fits := func(f Field) bool { return keep(f, named) && Valid(f.Name, f.Value) }
	first := slices.IndexFunc(diff, func(f Field) bool { return !fits(f) })
	if first < 0 {
		return diff
	}
	kept := slices.Clone(diff[:first])
	for _, f := range diff[first:] {
		if keep(f, named) {
			f.Value = unsafeBytes.Replace(f.Value)
			kept = append(kept, f)
		}
	}
	return kept
}

var unsafeBytes = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ")

func keep(f Field, named []string) bool {
	name := strings.ToLower(f.Name)
	return IsToken(name) && !perMessage[name] && !slices.Contains(named, name)
}

// connectionOptions returns the names in the Connection field, in lower case.
func connectionOptions(h http.Header) []string {
	var names []string
	for _, line := range Lines(h, "Connection") {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.ToLower(strings.Trim(name, " \t")))
		}
	}
	return names
}
