package rfc9111

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
)

// hasValidator reports whether the origin can be asked if a response is still current (RFC 9111 4.3.1): it has a
// well-formed ETag or Last-Modified, one of it, and a status to which conditions apply (RFC 9110 13.2.1).
func hasValidator(r Response, now time.Time) bool {
	if r.Status != http.StatusOK {
		return false
	}
	etag, modified := headers.Lines(r.After, "Etag"), headers.Lines(r.After, "Last-Modified")
	return len(etag) == 1 && isTag(etag[0]) || len(modified) == 1 && isDate(modified[0], now)
}

func isDate(s string, now time.Time) bool {
	_, ok := ParseDate(s, now)
	return ok
}

func isTag(s string) bool {
	_, rest, ok := cutTag(s)
	return ok && rest == ""
}

// Conditions returns the request fields by which the origin is asked whether a stored response is still current:
// the stored validators, letter by letter (RFC 9111 4.3.1). None if it has no validator.
func Conditions(stored []headers.Field, now time.Time) (conditions []headers.Field) {
	if etag := sole(stored, "Etag"); isTag(etag) {
		conditions = append(conditions, headers.Field{Op: headers.Set, Name: "If-None-Match", Value: etag})
	}
	if modified := sole(stored, "Last-Modified"); isDate(modified, now) {
		conditions = append(conditions, headers.Field{Op: headers.Set, Name: "If-Modified-Since", Value: modified})
	}
	return conditions
}

// sole returns the value of a field that has one line, else "": of two validators neither is one.
func sole(stored []headers.Field, name string) (value string) {
	lines := 0
	for _, f := range stored {
		if (f.Op == headers.Set || f.Op == headers.Add) && strings.EqualFold(f.Name, name) {
			value = f.Value
			lines++
		}
	}
	if lines != 1 {
		return ""
	}
	return value
}

// Confirms reports whether a 304 with these fields is about the stored response (RFC 9111 4.3.4): its ETag, if it has
// one, is the stored one; else its Last-Modified, if it has one. A 304 without either answers the one
// question that was asked. Two strong tags must be the same; W/ on one side only is a recoding on the way. What is no tag is
// compared letter by letter: many an origin forgets the quotes.
func Confirms(answer, stored []headers.Field) bool {
	if theirs, ours := headers.Get(answer, "Etag"), headers.Get(stored, "Etag"); theirs != "" {
		return theirs == ours || isTag(theirs) && isTag(ours) && strings.TrimPrefix(theirs, "W/") == strings.TrimPrefix(ours, "W/")
	}
	modified := headers.Get(answer, "Last-Modified")
	return modified == "" || modified == headers.Get(stored, "Last-Modified")
}

// ofTheBody are the fields that belong to the stored body and not to the 304 that confirms it (RFC 9111 3.2).
var ofTheBody = [...]string{"Content-Encoding", "Content-Length", "Content-Md5", "Content-Range", "Etag"}

// Freshen returns the stored fields updated by those of a 304 (RFC 9111 3.2): each replaces the stored ones of its name,
// without regard to case. Age and Date of the stored response end with it. Neither argument is modified.
func Freshen(stored, answer []headers.Field) []headers.Field {
	updates := func(f headers.Field) bool {
		return (f.Op == headers.Set || f.Op == headers.Add) && !slices.ContainsFunc(ofTheBody[:], func(name string) bool { return strings.EqualFold(name, f.Name) })
	}
	replaced := func(f headers.Field) bool {
		return strings.EqualFold(f.Name, "Age") || strings.EqualFold(f.Name, "Date") ||
			slices.ContainsFunc(answer, func(a headers.Field) bool { return updates(a) && strings.EqualFold(a.Name, f.Name) })
	}
	fields := slices.DeleteFunc(slices.Clone(stored), replaced)
	for _, f := range answer {
		if updates(f) {
			fields = append(fields, f)
		}
	}
	return fields
}
