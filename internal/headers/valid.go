package headers

import "strings"

// Valid reports whether a field may go on the wire: the name is a token, and the value has no CR,
// LF or NUL, with which it could end the field and begin another (RFC 9110 5.1, 5.5).
func Valid(name, value string) bool {
	return IsToken(name) && strings.IndexByte(value, '\r') < 0 && strings.IndexByte(value, '\n') < 0 && strings.IndexByte(value, 0) < 0
}

// IsToken reports whether s is a token (RFC 9110 5.6.2), which is never empty.
func IsToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// tokenBytes are the tchar of RFC 9110 5.6.2.
var tokenBytes = func() (table [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		table[c] = true
	}
	return table
}()
