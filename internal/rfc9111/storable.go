package rfc9111

import (
	"net/http"
	"slices"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// Judge says what may be done with a response that was received at now: whether it may be stored
// and shared with those who wait (RFC 9111 3, one predicate for both), for whom and for how long.
//
// The effective header is judged, so what middleware outside the cache set forbids too. now should
// come from the clock by which entries are read; it matters only for responses with Date or
// Expires. Judge modifies nothing and keeps nothing of r.
func Judge(r Response, p Policy, now time.Time) Verdict {
	cc, expires := directives(r, p)
	fresh, known := lifetime(r, cc, expires, p, now)
	if cc.NoCache { // 5.2.2.4: never without validation, however long the lifetime
		fresh, known = 0, true
	}
	if !known {
		if fresh, known = heuristicLifetime(r, cc, p, now); known {
			cc = guessed(cc)
		}
	}
	stale, ifError := windows(r.Status, fresh, cc, p)
	names, star := variance(r)
	v := Verdict{
		Failure:      failure(r.Status) && fresh == 0,
		Scope:        scope(cc),
		Age:          initialAge(r.After, now),
		Fresh:        fresh,
		Stale:        stale,
		StaleIfError: ifError,
		MustNotStale: cc.NoStale,
		Vary:         names,
		Omit:         cc.Omit,
		Validatable:  known && hasValidator(r, now),
	}
	allowed := p.Credentials.Allows(v.Scope)
	v.Personal = p.Credentials != NoCredentials && (!allowed || cc.Private || setsCookie(r))

	reason := statusReason(r.Status, cc)
	if reason == "" && v.Failure {
		reason = "error"
	}
	if reason == "" {
		reason = headerReason(r, cc, v)
	}
	if reason == "" {
		reason = varyReason(p, names, star)
	}
	switch {
	case reason != "":
	case !allowed: // 3.5
		reason = "credentials"
	case !known || fresh+max(stale, ifError) <= v.Age && !v.Validatable: // 4.2; never usable, neither now nor later
		reason = "no-freshness"
	}
	v.Reason = reason
	return v
}

// statusReason returns why a response with this status is not stored (RFC 9111 3), or "".
func statusReason(status int, cc Directives) string {
	switch {
	case status < 100 || status > 999:
		return "status"
	case status < 200:
		return "informational"
	case status == http.StatusPartialContent: // 3.4: partial responses are not combined
		return "partial"
	case status == http.StatusNotModified: // 4.3.4: it is not the page
		return "not-modified"
	case cc.MustUnderstand && !understood(status): // 5.2.2.3
		return "status"
	}
	return ""
}

// headerReason returns why a response with these directives and fields is not stored, or "".
func headerReason(r Response, cc Directives, v Verdict) string {
	switch {
	case noStore(r, cc):
		return "no-store"
	case cc.Private: // 5.2.2.7
		return "private"
	case cc.NoCache && !v.Validatable: // 5.2.2.4: there is nothing to validate it by
		return "no-cache"
	case setsCookie(r) && !slices.Contains(cc.Omit, "Set-Cookie"): // 7.3; a cookie is for one client
		return "set-cookie"
	case !encodedAsAsked(r):
		return "content-encoding"
	}
	return ""
}

// noStore reports no-store (5.2.2.5). A handler lifts its own by must-understand, when the status
// is one that this cache understands (5.2.2.3), but not that of outer middleware.
func noStore(r Response, cc Directives) bool {
	outer := ParseCacheControl(headers.Lines(r.Before, "Cache-Control"))
	return cc.NoStore && (outer.NoStore || !cc.MustUnderstand || !understood(r.Status))
}

func setsCookie(r Response) bool { return len(headers.Lines(r.After, "Set-Cookie")) > 0 }

// credentialFields are request headers that no two users share: a response that varies on one is
// not stored unless the route says what the header means for it.
var credentialFields = [...]string{"Authorization", "Cookie", "Proxy-Authorization"}

// varyReason returns why a response with this variance is not stored (4.1), or "".
func varyReason(p Policy, names []string, star bool) string {
	if star {
		return "vary-star"
	}
	for _, name := range credentialFields {
		if slices.Contains(names, name) && (p.Covered == nil || !p.Covered(name)) {
			return "vary-credentials"
		}
	}
	return ""
}

// failure reports the statuses that mean that a response could not be made, and may be another one
// the next time.
func failure(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// understood reports whether the status is one whose caching rules this package follows: those that
// RFC 9110 15 defines, without 1xx, 206 and 304, which are never stored.
func understood(status int) bool {
	switch {
	case status == http.StatusPartialContent, status == http.StatusNotModified, status == 306, status == http.StatusTeapot:
		return false
	case status >= 200 && status <= 205,
		status >= 300 && status <= 308,
		status >= 400 && status <= 417,
		status == http.StatusMisdirectedRequest, status == http.StatusUnprocessableEntity, status == http.StatusUpgradeRequired,
		status >= 500 && status <= 505:
		return true
	}
	return false
}
