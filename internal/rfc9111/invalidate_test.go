package rfc9111

import (
	"slices"
	"testing"
)

func TestUnsafe(t *testing.T) {
	for method, want := range map[string]bool{
		"GET": false, "HEAD": false, "OPTIONS": false, "TRACE": false, "PROPFIND": false, "QUERY": false,
		"POST": true, "PUT": true, "DELETE": true, "PATCH": true, "M-SEARCH": true, "get": true, "": true,
	} {
		if got := Unsafe(method); got != want {
			t.Errorf("%q: %v", method, got)
		}
	}
	for status, want := range map[int]bool{101: false, 200: true, 204: true, 303: true, 399: true, 400: false, 500: false, 999: false} {
		if got := Succeeded(status); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}

func TestRelated(t *testing.T) {
	for _, tt := range []struct {
		name, target string
		fields       []string
		want         []string
	}{
		{"4.4: none", "/a", nil, nil},
		{"4.4: a path", "/a/b?c", []string{"Location", "/d?e"}, []string{"http://h/d?e"}},
		{"4.4: relative", "/a/b", []string{"Location", "c", "Content-Location", "../d"}, []string{"http://h/a/c", "http://h/d"}},
		{"4.4: absolute", "/a", []string{"Location", "https://other/x"}, []string{"https://other/x"}},
		{"4.4: without a scheme", "/a", []string{"Location", "//other/x"}, []string{"http://other/x"}},
		{"4.4: escaped", "/a", []string{"Location", "/b%2Fc"}, []string{"http://h/b%2Fc"}},
		{"4.4: another scheme", "/a", []string{"Location", "mailto:x@y"}, nil},
		{"4.4: no URI", "/a", []string{"Location", "http://[::"}, nil},
		{"absolute form of the target", "http://g/a/b", []string{"Location", "c"}, []string{"http://g/a/c"}},
		{"a target that is no URI", "*%", []string{"Location", "/c"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, u := range Related("h", tt.target, header(tt.fields...)) {
				got = append(got, u.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
