package headers

import "testing"

func TestLower(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "shop.example": "shop.example", "Shop.EXAMPLE:80": "shop.example:80", "@[`{AZaz": "@[`{azaz",
		"\u212a\u00c4": "\u212a\u00c4", "A\xff": "a\xff", "\xfe\xc4Z": "\xfe\xc4z",
	} {
		if got := Lower(s); got != want {
			t.Errorf("Lower(%q) = %q, want %q", s, got, want)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { Lower("shop.example") }); allocs > 0 {
		t.Errorf("%v allocations for what is in lower case", allocs)
	}
}
