package rfc9111

import (
	"net/http"
	"slices"
	"sort"
	"testing"

	"github.com/herdgate/herdgate/internal/headers"
)

func TestVaryNames(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		names []string
		star  bool
	}{
		{"4.1: none", nil, nil, false},
		{"4.1: canonical, sorted, without duplicates", []string{"x-b, ACCEPT", "x-a", "Accept,x-B"}, []string{"Accept", "X-A", "X-B"}, false},
		{"RFC 9110 5.6.1.2: empty members", []string{"", " , accept ,,"}, []string{"Accept"}, false},
		{"4.1: star", []string{"*"}, nil, true},
		{"4.1: star twice", []string{"*, *"}, nil, true},
		{"4.1: star on another line", []string{"", "*"}, nil, true},
		{"4.1: star among names", []string{"foo, *"}, []string{"Foo"}, true},
		{"4.1: no field name", []string{"foo bar"}, nil, true},
		{"4.1: quoted", []string{`"foo"`}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names, star := VaryNames(tt.lines)
			if !slices.Equal(names, tt.names) || star != tt.star {
				t.Errorf("VaryNames(%q) = %q, %v", tt.lines, names, star)
			}
		})
	}
}

func TestVariance(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after http.Header
		want          []string
	}{
		{"the handler's names", nil, header("Vary", "Accept, Origin, Accept-Encoding"), []string{"Accept", "Accept-Encoding", "Origin"}},
		{"outer Origin and Accept-Encoding do not count", header("Vary", "Origin", "Vary", "accept-encoding"), header("Vary", "Origin", "Vary", "accept-encoding"), nil},
		{"other outer names count", header("Vary", "Origin, X-Tenant"), header("Vary", "Origin, X-Tenant"), []string{"X-Tenant"}},
		{"the handler adds a name", header("Vary", "Origin"), header("Vary", "Origin", "Vary", "Accept"), []string{"Accept"}},
		{"the handler repeats the outer name", header("Vary", "Origin"), header("Vary", "Origin", "Vary", "Origin"), []string{"Origin"}},
		{"the handler replaces the outer line by one that has the name", header("Vary", "Origin"), header("Vary", "Accept, Origin"), []string{"Accept", "Origin"}},
		{"the handler deletes the outer line", header("Vary", "Origin, X-Tenant"), header(), nil},
		{"outer Origin counts when the handler answers CORS itself", header("Vary", "Origin"),
			header("Vary", "Origin", "Access-Control-Allow-Origin", "https://a.example"), []string{"Origin"}},
		{"outer Origin does not count when outer middleware answers CORS", header("Vary", "Origin", "Access-Control-Allow-Origin", "https://a.example"),
			header("Vary", "Origin", "Access-Control-Allow-Origin", "https://a.example"), nil},
		{"outer Accept-Encoding counts when the handler encodes", header("Vary", "Accept-Encoding"),
			header("Vary", "Accept-Encoding", "Content-Encoding", "br"), []string{"Accept-Encoding"}},
		{"outer Accept-Encoding does not count when outer middleware encodes", header("Vary", "Accept-Encoding", "Content-Encoding", "gzip"),
			header("Vary", "Accept-Encoding", "Content-Encoding", "gzip"), nil},
		{"a handler that encodes without saying so", nil, header("Vary", "X-A, Accept", "Content-Encoding", "gzip"), []string{"Accept", "Accept-Encoding", "X-A"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names, star := variance(Response{Status: 200, Before: tt.before, After: tt.after})
			if !slices.Equal(names, tt.want) || star {
				t.Errorf("variance = %q, %v, want %q", names, star, tt.want)
			}
		})
	}
}

func TestVaryValue(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		lines        []string
		want         string
	}{
		{"4.1: absent", "Foo", nil, ""},
		{"4.1: present and empty is not absent", "Foo", []string{""}, " "},
		{"4.1: one line", "Foo", []string{" 1 \t"}, "1"},
		{"4.1: several lines are one", "Foo", []string{"1", "2"}, "1, 2"},
		{"4.1: case stays", "Foo", []string{"AbC"}, "AbC"},
		{"4.1: Accept-Encoding absent", "Accept-Encoding", nil, ""},
		{"4.1: Accept-Encoding in any case", "accept-encoding", []string{"GZIP"}, "gzip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := VaryValue(tt.header, tt.lines); got != tt.want {
				t.Errorf("VaryValue(%q) = %q, want %q", tt.lines, got, tt.want)
			}
		})
	}
}

// A normal form is its own normal form, whatever the lines are.
func FuzzVaryValue(f *testing.F) {
	f.Add("gzip, br;q=0.5", "*;q=0")
	f.Add("identity;q=0", "")
	f.Add(" a", "\t")
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, name := range []string{"Accept-Encoding", "Accept-Language"} {
			for _, lines := range [][]string{nil, {first}, {first, second}} {
				value := VaryValue(name, lines)
				if (value == "") != (len(lines) == 0) {
					t.Errorf("%s: %q is %q", name, lines, value)
				}
				if again := VaryValue(name, []string{value}); len(lines) > 0 && again != value {
					t.Errorf("%s: %q is %q is %q", name, lines, value, again)
				}
			}
		}
	})
}

func FuzzVaryNames(f *testing.F) {
	f.Add("Accept, *", "x")
	f.Add("a b", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		names, star := VaryNames([]string{first, second})
		if !sort.StringsAreSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%q", names)
		}
		for _, name := range names {
			if !headers.IsToken(name) || name == "*" || name != http.CanonicalHeaderKey(name) {
				t.Errorf("%q", name)
			}
		}
		again, star2 := VaryNames(names)
		if !slices.Equal(again, names) || star2 {
			t.Errorf("%q, then %q, %v", names, again, star2)
		}
		if joined, star3 := VaryNames([]string{first + "," + second}); !slices.Equal(joined, names) || star3 != star {
			t.Errorf("on two lines %q, %v, on one %q, %v", names, star, joined, star3)
		}
	})
}

func BenchmarkVaryValue(b *testing.B) {
	lines := []string{"gzip, deflate, br, zstd"}
	b.ReportAllocs()
	for b.Loop() {
		VaryValue("Accept-Encoding", lines)
	}
}

func TestVaryValueLanguage(t *testing.T) {
	same := func(a, b string) bool {
		return VaryValue("Accept-Language", []string{a}) == VaryValue("Accept-Language", []string{b})
	}
	if !same("en, de;q=0.5", "EN,de; Q=0.5 ") {
		t.Error("RFC 9110 12.5.4: case or spaces matter")
	}
	if same("en, de", "de, en") || same("en", "en, de") {
		t.Error("order or number do not matter")
	}
	if same("ka", "\u212aa") || same("\xfe", "\xff") {
		t.Error("what a handler can tell apart is the same: only the case of ASCII does not matter")
	}
}
