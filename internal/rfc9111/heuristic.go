package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// heuristicLifetime returns a lifetime for a response that names none: a tenth of the time for which it had not been modified
// when it was made, at most Policy.Heuristic (RFC 9111 4.2.2). It returns false where there is nothing to go by, or any sign that
// the origin would not have it so.
//
// A query in the URL makes no difference: the rule of RFC 2616 about that is gone.
func heuristicLifetime(r Response, cc Directives, p Policy, now time.Time) (time.Duration, bool) {
	if p.Heuristic <= 0 || failure(r.Status) || !heuristicallyCacheable(r.Status) && !cc.Public || speaks(r, cc, p) {
		return 0, false
	}
	lines := headers.Lines(r.After, "Last-Modified")
	if len(lines) != 1 {
		return 0, false
	}
	modified, ok := ParseDate(lines[0], now)
	if !ok {
		return 0, false
	}
	made, ok := date(r.After, now)
	if !ok || made.After(now) {
		made = now // RFC 9110 6.6.1; and a Date that lies ahead must not lengthen the guess
	}
	fresh := min(made.Sub(modified)/10, p.Heuristic, MaxDelta)
	return max(0, fresh), fresh > 0
}

// heuristicallyCacheable reports the statuses to which heuristics apply without a word of the response (RFC 9110 15.1). 206 is
// among them there, but never stored here.
func heuristicallyCacheable(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusNoContent,
		http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusPermanentRedirect,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusRequestURITooLong,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// guessed is what a response says beside a lifetime that is a guess. When that is over no window follows. It lifts no credentials
// either, unless it says public: whoever says must-revalidate and no lifetime may well mean no-cache.
func guessed(cc Directives) Directives {
	cc.NoStale, cc.MustRevalidate = true, false
	return cc
}

// speaks reports whether a response says for how long it may be used, or that it may not, in any field that is meant for
// caches: also in one that another has displaced, or that does not parse. What is displaced does not count, but where the origin has
// spoken there is nothing to guess.
func speaks(r Response, cc Directives, p Policy) bool {
	words := []Directives{cc, ParseCacheControl(headers.Lines(r.After, "Cache-Control"))}
	for _, name := range p.Targeted {
		words = append(words, ParseCacheControl(headers.Lines(r.After, name)))
	}
	for _, w := range words {
		if w.NoStore || w.NoCache || w.Private || w.MaxAge.Present || w.SMaxAge.Present {
			return true
		}
	}
	for _, line := range headers.Lines(r.After, "Pragma") { // 5.4: it means nothing in a response, to those who do not guess
		if strings.Contains(strings.ToLower(line), "no-cache") {
			return true
		}
	}
	return len(headers.Lines(r.After, "Expires")) > 0
}
