package rfc9111

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// NotModified reports whether a stored response answers a conditional GET or HEAD with 304 (RFC
// 9111 4.3.2, RFC 9110 13.2.2), given the lines of the request's If-None-Match and
// If-Modified-Since and the stored validators, "" for none. It is for stored responses with status
// 200: to any other the conditions do not apply (RFC 9110 13.2.1).
//
// A stored response without Last-Modified may be compared by its Date instead (RFC 9111 4.3.2):
// pass that as lastModified.
func NotModified(ifNoneMatch, ifModifiedSince []string, etag, lastModified string, now time.Time) bool {
	if len(ifNoneMatch) > 0 {
		return matches(ifNoneMatch, etag) // RFC 9110 13.1.3: If-Modified-Since is ignored then
	}
	if len(ifModifiedSince) != 1 {
		return false
	}
	since, ok1 := ParseDate(ifModifiedSince[0], now)
	modified, ok2 := ParseDate(lastModified, now)
	return ok1 && ok2 && !modified.After(since)
}

// matches evaluates If-None-Match: "*" matches any response, a list by weak comparison, which
// ignores W/ (RFC 9110 13.1.2, 8.8.3.2). Members that are no entity-tag match nothing.
func matches(lines []string, etag string) bool {
	if len(lines) == 1 && strings.Trim(lines[0], " \t") == "*" {
		return true
	}
	stored, rest, ok := cutTag(etag)
	if !ok || rest != "" {
		return false
	}
	for _, line := range lines {
		for line != "" {
			var member string
			member, line = cutMember(line)
			if tag, rest, ok := cutTag(member); ok && rest == "" && tag == stored {
				return true
			}
		}
	}
	return false
}

// cutMember cuts the first member off a list of entity-tags, in which a comma may be part of a tag.
func cutMember(list string) (member, rest string) {
	list = strings.TrimLeft(list, " \t,")
	end := 0
	if _, after, ok := cutTag(list); ok {
		end = len(list) - len(after)
	}
	if comma := strings.IndexByte(list[end:], ','); comma >= 0 {
		return strings.TrimRight(list[:end+comma], " \t"), list[end+comma+1:]
	}
	return strings.TrimRight(list, " \t"), ""
}

// cutTag cuts an entity-tag off the front of s and returns its opaque-tag, quotes included (RFC 9110 8.8.3).
func cutTag(s string) (opaque, rest string, ok bool) {
	s = strings.TrimPrefix(s, "W/") // case-sensitive
	if len(s) < 2 || s[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[:i+1], s[i+1:], true
		case c <= ' ' || c == 0x7f: // not an etagc
			return "", "", false
		}
	}
	return "", "", false
}

// NotModifiedFields returns the fields of a stored 200 that go into a 304 (RFC 9110 15.4.5): not those that describe the
// body that is not there, and of two validators the stronger.
func NotModifiedFields(stored []headers.Field) []headers.Field {
	hasTag := headers.Get(stored, "Etag") != ""
	return slices.DeleteFunc(slices.Clone(stored), func(f headers.Field) bool {
		switch http.CanonicalHeaderKey(f.Name) {
		case "Content-Encoding", "Content-Language", "Content-Range", "Content-Type":
			return true
		case "Last-Modified":
			return hasTag
		}
		return false
	})
}
