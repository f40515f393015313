package rfc9111

import (
	"strings"

	"github.com/herdgate/herdgate/internal/entry"
)

// Request is what a request says about stored responses (RFC 9111 5.2.1). The zero Request says nothing.
type Request struct {
	NoStore      bool
	NoCache      bool
	OnlyIfCached bool
	MaxAge       Delta // stricter than it may be meant if it does not parse: zero
	MinFresh     Delta // the largest: of this one the larger is the stricter
	MaxStale     Delta // without an argument: MaxDelta
}

// ParseRequest parses the lines of a request's Cache-Control, and those of its Pragma, which count only if there is no
// Cache-Control (RFC 9111 5.4).
func ParseRequest(cacheControl, pragma []string) (r Request) {
	if len(cacheControl) == 0 {
		cacheControl = pragma
		defer func() { r = Request{NoCache: r.NoCache} }()
	}
	for _, line := range cacheControl {
		for line != "" {
			var element string
			element, line = cutElement(line)
			name, argument, has, ok := parseDirective(strings.Trim(element, " \t"))
			if ok {
				apply(&r, strings.ToLower(name), argument, has)
			}
		}
	}
	return r
}

func apply(r *Request, name, argument string, has bool) {
	switch name {
	case "no-store": // 5.2.1.5
		r.NoStore = true
	case "no-cache": // 5.2.1.4
		r.NoCache = true
	case "only-if-cached": // 5.2.1.7
		r.OnlyIfCached = true
	case "max-age": // 5.2.1.1
		r.MaxAge.add(argument)
	case "min-fresh": // 5.2.1.3
		r.MinFresh.raise(argument)
	case "max-stale": // 5.2.1.2
		if has {
			r.MaxStale.add(argument)
		} else if !r.MaxStale.Present {
			r.MaxStale = Delta{Present: true, Valid: true, Value: MaxDelta}
		}
	}
}

// raise is add for a directive of which the larger is the stricter: the largest valid argument counts.
func (d *Delta) raise(argument string) {
	value, ok := parseDelta(argument)
	*d = Delta{Present: true, Valid: ok || d.Valid, Value: max(value, d.Value)}
}

// Accepts reports whether a stored response will do as far as its age goes, be it fresh or stale.
func (r Request) Accepts(e *entry.Entry, now int64) bool {
	return !r.NoCache && (!r.MaxAge.Present || e.AgeAt(now) <= r.MaxAge.Value) && (!r.MinFresh.Valid || e.FreshAt(now) >= r.MinFresh.Value)
}

// Tolerates reports whether the request is content with a response that has been stale for a while, and the response is one that
// may be served stale (RFC 9111 4.2.4).
func (r Request) Tolerates(e *entry.Entry, now int64) bool {
	return !e.MustNotStale && r.MaxStale.Valid && e.FreshAt(now) >= -r.MaxStale.Value && r.Accepts(e, now)
}
