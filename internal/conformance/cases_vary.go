package conformance

import (
	"github.com/herdgate/herdgate/core"
)

// varyCases are about which values of a header that Vary names are the same: RFC 9111 4.1.
func varyCases() []Case {
	languages := Script{Header: []string{"Vary: Accept-Language"}}
	list := Script{Header: []string{"Vary: X-Lang"}}
	accept := func(value string) Request { return get("/a", "Accept-Language: "+value) }
	lang := func(value string) Request { return get("/a", "X-Lang: "+value) }
	return []Case{
		{
			ID: "vary/as-written", What: "RFC 9111 4.1: by default order and the spaces of an unknown list may mean something",
			Route: fresh(), Origin: Script{Header: []string{"Vary: Accept-Language, X-Lang"}},
			Steps: distinct(accept("en, de"), accept("de, en"), accept("en, de;q=0.5"), accept("en, de;q=0.50"), lang("1,2"), lang("1, 2"), lang("1 ,2")),
		},
		{
			ID: "vary/languages", What: "RFC 9110 12.5.4: by option, the order of languages of equal weight says nothing",
			Route: fresh(core.NormaliseVary()), Origin: languages,
			Steps: steps(
				[]Step{miss(accept("en, de"), 1), hit(accept("de, en"), 1), hit(accept(" DE ;q=1.0,\ten"), 1), hit(accept("en;q=1, , de"), 1)},
				[]Step{miss(accept("en, de;q=0.5"), 2), hit(accept("de;q=0.500, EN"), 2), miss(accept("de, en;q=0.5"), 3), miss(accept("en"), 4), miss(get("/a"), 5)},
				[]Step{miss(accept("en, de;q=x"), 6), miss(accept("de;q=x, en"), 7), hit(accept("en, de"), 1)},
			),
		},
		{
			ID: "vary/list", What: "RFC 9110 5.6.1: by option, spaces around the commas of a list say nothing",
			Route: fresh(core.NormaliseVary()), Origin: list,
			Steps: []Step{
				miss(lang("1,2"), 1), hit(lang("1, 2"), 1), hit(lang(" 1 ,\t2 "), 1), hit(get("/a", "X-Lang: 1", "X-Lang: 2"), 1),
				miss(lang("2,1"), 2), miss(lang("1 2"), 3), miss(lang("12"), 4), miss(lang(`"1,2"`), 5), miss(lang(`"1, 2"`), 6), hit(lang(`"1,2"`), 5), miss(lang("A"), 7), miss(lang("a"), 8),
			},
		},
		{
			ID: "vary/secrets", What: "DESIGN 9: credentials are compared as they are",
			Route: fresh(core.NormaliseVary()), Origin: Script{Header: []string{"Cache-Control: public, max-age=60", "Vary: X-Api-Key, X-Auth-Token"}},
			Steps: distinct(get("/a", "X-Api-Key: a,b"), get("/a", "X-Api-Key: a, b"), get("/a", "X-Auth-Token: a,b"), get("/a", "X-Auth-Token: a ,b")),
		},
		{
			ID: "vary/key-header", What: "DESIGN 7: values of KeyHeader are compared as they are, whatever Vary says of them",
			Route: fresh(core.NormaliseVary(), core.KeyHeader("X-Lang")), Origin: list,
			Steps: distinct(lang("1,2"), lang("1, 2")),
		},
		{
			ID: "vary/normal-fleet", What: "RFC 9111 4.1: all processes agree on what is the same",
			Route: fresh(core.NormaliseVary()), Gates: 2, Cluster: true, Origin: languages,
			Steps: []Step{miss(accept("en, de"), 1), hit(accept("de, en").to(1), 1), miss(accept("fr, de").to(1), 2), hit(accept("de, fr"), 2)},
		},
		{
			ID: "vary/normal-herd", What: "RFC 9111 4.1: who waits for a response gets it however his languages are written",
			Route: fresh(core.NormaliseVary()), Origin: Script{Hold: true, Header: []string{"Vary: Accept-Language"}},
			Steps: []Step{
				Start{Name: "one", Request: accept("en, de")}, Until{Running: 1}, Start{Name: "others", Request: accept("de,en"), N: 9}, Until{Waiting: 9}, Release{},
				Expect{Name: "one", Want: Want{Run: 1, Cache: "stored"}}, Expect{Name: "others", Want: Want{Run: 1}, Runs: 1},
			},
		},
		{
			ID: "vary/normal-invalidated", What: "DESIGN 11: Invalidate and unsafe methods know these keys, too",
			Route: fresh(core.NormaliseVary()), Origin: languages,
			Steps: []Step{
				miss(accept("en, de"), 1), hit(accept("de, en"), 1), Invalidate{Target: "/a"}, miss(accept("de, en"), 2),
				bypass(do("POST", "/a"), 3, "method"), miss(accept("en, de"), 4),
			},
		},
	}
}
