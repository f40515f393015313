package rfc9111

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
)

// Unsafe reports whether a method may change what is stored about its target (RFC 9111 4.4): every method but those that
// are registered as safe (RFC 9110 9.2.1, 18.2).
func Unsafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return false
	}
	return true
}

// Succeeded reports whether a response to an unsafe method invalidates (RFC 9111 4.4): it is no error.
func Succeeded(status int) bool { return status >= 200 && status < 400 }

// Related returns the URIs in Location and Content-Location of a response to a request for a target (RFC 9111 4.4),
// resolved. Only those on the request's own host may be invalidated: to compare hosts is left to the caller.
func Related(host, target string, h http.Header) (uris []*url.URL) {
	base, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	if base.Host == "" {
		base.Scheme, base.Host = "http", host
	}
	for _, name := range [...]string{"Location", "Content-Location"} {
		for _, line := range headers.Lines(h, name) {
			if u, err := base.Parse(strings.Trim(line, " \t")); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
				uris = append(uris, u)
			}
		}
	}
	return uris
}
