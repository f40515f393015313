package core

import "testing"

func TestOriginForm(t *testing.T) {
	for _, tt := range []struct{ host, target, scheme, rest string }{
		{"shop.example", "/a?b", "", "/a?b"},
		{"shop.example", "http://shop.example/a?b", "http://", "/a?b"},
		{"shop.example", "https://SHOP.example:443/a", "https://", "/a"},
		{"shop.example:8080", "http://shop.example:8080//a", "http://", "//a"},
		{"shop.example", "http://shop.example", "http://", "/"},
		{"shop.example", "http://shop.example?b", "http://", "/?b"},
		{"shop.example", "//shop.example/a", "", "//shop.example/a"},
		{"shop.example", "/http://shop.example/a", "", "/http://shop.example/a"},
		// Not the same resource, or not certainly.
		{"shop.example", "http://other.example/a", "", "http://other.example/a"},
		{"shop.example", "http://me@shop.example/a", "", "http://me@shop.example/a"},
		{"shop.example", "http://shop.example:8080/a", "", "http://shop.example:8080/a"},
		{"shop.example", "ftp://shop.example/a", "", "ftp://shop.example/a"},
		{"", "http:///a", "http://", "/a"},
		{"shop.example", "*", "", "*"},
		{"shop.example", "", "", ""},
	} {
		if scheme, rest := originForm(tt.host, tt.target); scheme != tt.scheme || rest != tt.rest {
			t.Errorf("%q for %q: %q %q, want %q %q", tt.target, tt.host, scheme, rest, tt.scheme, tt.rest)
		}
	}
}
