package rfc9111

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNormalVaryValue(t *testing.T) {
	for _, tt := range []struct {
		what, name string
		lines      []string
		want       string
	}{
		{"absent", "Accept-Language", nil, ""},
		{"present and empty", "Accept-Language", []string{""}, " "},
		{"RFC 9110 12.5.4: order", "Accept-Language", []string{"en, de"}, "de,en"},
		{"RFC 9110 12.5.4: order over lines", "accept-language", []string{"en", "de"}, "de,en"},
		{"RFC 9110 12.4.2: by weight", "Accept-Language", []string{"de;q=0.5, en"}, "en,de;q=0.5"},
		{"RFC 9110 12.4.2: weights stay apart", "Accept-Language", []string{"de, en;q=0.5"}, "de,en;q=0.5"},
		{"RFC 9110 12.4.2: 1 is the default", "Accept-Language", []string{"de;q=1.0, en;Q=1"}, "de,en"},
		{"RFC 9110 12.4.2: forms of a weight", "Accept-Language", []string{"de;q=0.50, en;q=0.500"}, "de;q=0.5,en;q=0.5"},
		{"RFC 9110 12.4.2: not acceptable", "Accept-Language", []string{"*, de;q=0.000"}, "*,de;q=0"},
		{"RFC 4647 2.1: case and subtags", "Accept-Language", []string{"de-CH, DE-at"}, "de-at,de-ch"},
		{"RFC 9110 5.6.1.2: empty members", "Accept-Language", []string{", en,, de ,"}, "de,en"},
		{"the same member twice", "Accept-Language", []string{"en, de, EN"}, "de,en"},
		{"two weights", "Accept-Language", []string{"en;q=0.1, en"}, "en,en;q=0.1"},
		{"what is no weight leaves all as it is", "Accept-Language", []string{"en, de;q=x"}, "en,de;q=x"},
		{"nor is a parameter", "Accept-Language", []string{"en, de;level=1"}, "en,de;level=1"},
		{"nor is what is no language", "Accept-Language", []string{`en, "de"`}, `en,"de"`},
		{"only commas", "Accept-Language", []string{","}, ","},

		{"absent", "Foo", nil, ""},
		{"present and empty", "Foo", []string{"\t"}, " "},
		{"spaces around a comma", "Foo", []string{" 1 ,\t2 "}, "1,2"},
		{"several lines", "Foo", []string{"1", "2 , 3"}, "1,2,3"},
		{"spaces elsewhere stay", "Foo", []string{"a  b, c d"}, "a  b,c d"},
		{"order and case stay", "Foo", []string{"B, a"}, "B,a"},
		{"RFC 9110 5.6.4: a quoted string stays", "Foo", []string{`"a , b" , "c\" , d"`}, `"a , b","c\" , d"`},
		{"a quoted string without an end", "Foo", []string{`a , "b , c`}, `a,"b , c`},
		{"empty members stay", "Foo", []string{", a, ,"}, ",a,,"},
		{"no list", "Foo", []string{"a b"}, "a b"},

		{"Accept-Encoding has its own form", "Accept-Encoding", []string{"br;q=0.5 , GZIP"}, "br, gzip"},
	} {
		t.Run(tt.name+": "+tt.what, func(t *testing.T) {
			if got := NormalVaryValue(tt.name, tt.lines); got != tt.want {
				t.Errorf("NormalVaryValue(%q) = %q, want %q", tt.lines, got, tt.want)
			}
		})
	}
}

// A normal form is its own normal form, tells apart what is absent, and is the same for values that are the same without it.
func FuzzNormalVaryValue(f *testing.F) {
	f.Add("en, de;q=0.5", "fr")
	f.Add(`a , "b , c`, `d"`)
	f.Add(" ", ",")
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, name := range []string{"Accept-Encoding", "Accept-Language", "Foo"} {
			for _, lines := range [][]string{nil, {first}, {first, second}} {
				value := NormalVaryValue(name, lines)
				if (value == "") != (len(lines) == 0) {
					t.Errorf("%s: %q is %q", name, lines, value)
				}
				if again := NormalVaryValue(name, []string{value}); len(lines) > 0 && again != value {
					t.Errorf("%s: %q is %q is %q", name, lines, value, again)
				}
				if strict := VaryValue(name, lines); len(lines) > 0 && NormalVaryValue(name, []string{strict}) != value {
					t.Errorf("%s: %q is %q, and %q is not", name, lines, value, strict)
				}
			}
		}
	})
}

// Languages with other names or weights are never the same, and the order of those that are makes no difference.
func FuzzLanguages(f *testing.F) {
	f.Add("en", "de", 1000, 500, uint64(1))
	f.Add("en", "EN-gb", 0, 7, uint64(2))
	f.Fuzz(func(t *testing.T, one, other string, first, second int, seed uint64) {
		first, second = max(0, first%1001), max(0, second%1001)
		members := []string{one + weightParameter(first), other + weightParameter(second), "fr;q=0.3"}
		value := NormalVaryValue("Accept-Language", []string{strings.Join(members, ", ")})
		if strings.ContainsAny(one+other, ",;\"\\ \t") || !isToken(one) || !isToken(other) {
			return
		}
		shuffled := slices.Clone(members)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := NormalVaryValue("Accept-Language", shuffled); again != value {
			t.Errorf("%q is %q, %q is %q", members, value, shuffled, again)
		}
		for at, changed := range []string{one + weightParameter((first+1)%1001), other + "x" + weightParameter(second)} {
			others := slices.Clone(members)
			others[at] = changed
			if again := NormalVaryValue("Accept-Language", others); again == value && !slices.Contains(fold(members), strings.ToLower(changed)) {
				t.Errorf("%q and %q are %q", members, others, value)
			}
		}
	})
}

func isToken(s string) bool {
	_, _, hasArgument, ok := parseDirective(s)
	return ok && !hasArgument
}

func fold(members []string) (folded []string) {
	for _, m := range members {
		folded = append(folded, strings.ToLower(m))
	}
	return folded
}

func TestWeight(t *testing.T) {
	for thousandths := range 1001 {
		parameter := strings.TrimPrefix(weightParameter(thousandths), ";")
		if parameter == "" {
			parameter = "q=1"
		}
		if got, ok := parseWeight(parameter); got != thousandths || !ok {
			t.Errorf("%q is %d, %v, want %d", parameter, got, ok, thousandths)
		}
	}
	for _, bad := range []string{"", "q", "q=", "q=2", "q=1.001", "q=0.1234", "q=0.x", "q=.5", "q=-1", "q=01", "q=0,5", "x=1", "q=1;a=b", "q =1", "q=0.１"} {
		if got, ok := parseWeight(bad); ok {
			t.Errorf("%q is %d", bad, got)
		}
	}
}
