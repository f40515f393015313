package core

import (
	"slices"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/rfc9111"
	"github.com/herdgate/herdgate/internal/route"
)

// credentialHeaders are the request headers by which services tell users apart. The gate
// option Credentials adds to them. Trusting none of them to be irrelevant is what keeps one user's
// page from another; see RFC 9111 3.5 for Authorization.
var credentialHeaders = []string{
	"Authorization",
	"Proxy-Authorization",
	"Cookie",
	"X-Api-Key",
	"X-Auth-Token",
	"X-Forwarded-User",
	"Cf-Access-Jwt-Assertion",
}

// class tells requests with credentials that the route does not cover from all others. Marks
// and failure counts are kept apart, so that what one user provokes says nothing about everybody.
type class uint8

const (
	anonymous class = iota
	credentialed
)

func (c class) markSuffix() string {
	if c == credentialed {
		return ":markc"
	}
	return ":mark"
}

func (c class) failSuffix() string {
	if c == credentialed {
		return ":failc"
	}
	return ":fail"
}

// covered reports whether the route says what a credential means for the response: it is part
// of the key, or ignored and hidden from the handler.
func covered(cfg *route.Config, name string) bool {
	switch {
	case cfg.Public, cfg.PerUser:
		return true
	case name == "Cookie" && (cfg.IgnoreCookies || len(cfg.KeyCookies) > 0):
		return true
	}
	return slices.Contains(cfg.KeyHeaders, name)
}

// uncovered returns which credentials a request carries that the route does not cover. A
// header that is there with an empty value counts: nobody knows what the handler makes of it.
func (m *middleware) uncovered(x host.Exchange) rfc9111.Credentials {
	found := rfc9111.NoCredentials
	if x.ClientCertificate() && !m.cfg.Public && !m.cfg.PerUser {
		found = rfc9111.OtherCredentials
	}
	for _, name := range m.gate.credentials {
		if covered(m.cfg, name) || len(x.Values(name)) == 0 {
			continue
		}
		if name == "Authorization" && found == rfc9111.NoCredentials {
			found = rfc9111.OnlyAuthorization
		} else {
			found = rfc9111.OtherCredentials
		}
	}
	return found
}

// hides returns which request headers a route hides from its handler, because the response is for everybody.
func (g *Gate) hides(cfg *route.Config) []string {
	var names []string
	for _, name := range g.credentials {
		if cfg.Public && !slices.Contains(cfg.KeyHeaders, name) || name == "Cookie" && (cfg.IgnoreCookies || len(cfg.KeyCookies) > 0) {
			names = append(names, name)
		}
	}
	return names
}

// reducedCookie is the Cookie header that the handler sees on a route with KeyCookie.
func (m *middleware) reducedCookie(x host.Exchange) []headers.Field {
	if len(m.cfg.KeyCookies) == 0 {
		return nil
	}
	pairs := cookiePairs(x.Values("Cookie"), m.cfg.KeyCookies)
	if len(pairs) == 0 {
		return nil
	}
	return []headers.Field{{Op: headers.Set, Name: "Cookie", Value: strings.Join(pairs, "; ")}}
}
