package rfc9111

import "github.com/herdgate/herdgate/internal/entry"

// scope says for whom a response is meant in spite of credentials (RFC 9111 3.5). The RFC speaks of
// Authorization; public and s-maxage are taken to say the same of any other credential,
// must-revalidate is not.
func scope(cc Directives) entry.Scope {
	switch {
	case cc.Public, cc.SMaxAge.Valid:
		return entry.Everyone
	case cc.MustRevalidate:
		return entry.Authorization
	}
	return entry.Anonymous
}

// Allows reports whether a response of this scope may be shown to, or taken from, a request with
// these credentials.
func (c Credentials) Allows(s entry.Scope) bool {
	switch s {
	case entry.Everyone:
		return true
	case entry.Authorization:
		return c == NoCredentials || c == OnlyAuthorization
	case entry.Anonymous:
		return c == NoCredentials
	}
	return false
}
