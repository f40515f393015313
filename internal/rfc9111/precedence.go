package rfc9111

import "github.com/herdgate/herdgate/internal/headers"

// directives returns which directives count for a response, and the lines of Expires if they do.
//
// The first of these that there is counts alone:
//
//  1. Policy.Override
//  2. the first valid targeted field among Policy.Targeted (RFC 9213 2.2)
//  3. Cache-Control, and Expires where it names no lifetime (RFC 9111 5.3)
//
// Where they name no lifetime, Policy.FreshFor does, then heuristicLifetime; else there is none. What middleware outside the cache said in
// Cache-Control, and the handler left there, forbids in any case.
func directives(r Response, p Policy) (cc Directives, expires []string) {
	says := headers.Lines(r.After, "Cache-Control")
	cc, targeted := chosen(r, p)
	if !targeted {
		cc, expires = ParseCacheControl(says), headers.Lines(r.After, "Expires")
	} else {
		left := says[:len(says)-len(handlerLines(headers.Lines(r.Before, "Cache-Control"), says))]
		outer := ParseCacheControl(left)
		cc.NoStore = cc.NoStore || outer.NoStore
		cc.Private = cc.Private || outer.Private
		cc.NoCache = cc.NoCache || outer.NoCache
		cc.NoStale = cc.NoStale || outer.NoStale
	}
	if p.OmitSetCookie {
		cc.omit("Set-Cookie")
	}
	return cc, expires
}

func chosen(r Response, p Policy) (Directives, bool) {
	if p.Override != "" {
		return ParseCacheControl([]string{p.Override}), true
	}
	for _, name := range p.Targeted {
		if cc, ok := ParseTargeted(headers.Lines(r.After, name)); ok {
			return cc, true
		}
	}
	return Directives{}, false
}
