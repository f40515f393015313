package core

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/redistest"
)

// Whatever of one key somebody puts in the place of another's, nobody gets a response to another request, and nothing
// outlives an invalidation. Nothing is signed here. A process that knows what the key varies on and one that does not both look.
func TestMovedValues(t *testing.T) {
	c := redistest.Shared(t).Client()
	vary := map[string]string{"/lang": "X-Lang", "/zone": "X-Zone", "/both": "X-Lang, X-Zone", "/plain": "", "/other": ""}
	zones := []string{"de", "fr"} // values of both headers

	for _, tt := range []struct {
		name    string
		move    func(move func(from, to string), at func(target string, variant ...string) string)
		victims []string
		corrupt bool // it is noticed
	}{
		{"entry of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/other"), at("/plain"))
		}, []string{"/plain"}, true},
		{"entry of another variant", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/lang", "de"), at("/lang", "fr"))
		}, []string{"/lang"}, true},
		{"variant of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/zone", "de"), at("/lang", "de")) // of another generation: as good as gone
		}, []string{"/lang"}, false},
		{"variant in the place of the record", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/lang", "de"), at("/lang"))
		}, []string{"/lang"}, false},
		{"record in the place of a response", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/lang"), at("/plain"))
		}, []string{"/plain"}, false},
		{"record of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/zone"), at("/lang"))
		}, []string{"/lang"}, false},
		{"record of a key that varies on less", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/lang"), at("/both"))
		}, []string{"/both"}, false},
		{"record of a key that varies on more", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/both"), at("/lang"))
		}, []string{"/lang"}, false},
		{"record and variants of a key that varies on less", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/lang"), at("/both"))
			move(at("/both", "de", "fr"), at("/both", "de"))
		}, []string{"/both"}, false},
		{"index of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/zone")+":idx", at("/lang")+":idx")
		}, []string{"/lang"}, false},
		{"generation of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/zone")+":gen", at("/lang")+":gen")
		}, []string{"/lang"}, false},
		{"claim and lock of another key", func(move func(from, to string), at func(string, ...string) string) {
			move(at("/zone")+":gen", at("/lang")+":claim")
			move(at("/zone")+":gen", at("/lang")+":lock")
			move(at("/zone")+":gen", at("/lang", "de")+":claim")
		}, []string{"/lang"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ns := unique("moved")
			knows, newer := processOn(t, c, ns, WaitFor(2*time.Second)), processOn(t, c, ns, WaitFor(2*time.Second))
			version := 1
			ask := func(p process, target, lang, zone string) {
				t.Helper()
				want := fmt.Sprintf("%s v%d", target, version)
				if strings.Contains(vary[target], "X-Lang") {
					want += " lang " + lang
				}
				if strings.Contains(vary[target], "X-Zone") {
					want += " zone " + zone
				}
				v := get(target, func(_ context.Context, p *page) {
					if vary[target] != "" {
						p.header.Set("Vary", vary[target])
					}
					p.write(200, want)
				}, with("X-Lang", lang), with("X-Zone", zone)).send(p.serve)
				if v.status != 200 || v.body != want {
					t.Fatalf("%s in %s, %s: %d %q as %s %s", target, lang, zone, v.status, v.body, v.out.Role, v.out.Detail)
				}
			}
			all := func(p process, targets ...string) {
				t.Helper()
				for _, target := range targets {
					for _, lang := range zones {
						for _, zone := range zones {
							ask(p, target, lang, zone)
						}
					}
				}
			}
			for target := range vary {
				all(knows, target)
			}

			recipe := knows.gate.recipes[""]
			at := func(target string, values ...string) string {
				key := string(recipe.key(nil, Key{Host: "shop.example", Target: target}))
				p := place{base: knows.gate.base(frames(key))}
				if len(values) > 0 {
					rq := &request{x: get(target, nil), recipe: recipe, base: p.base, key: key}
					var names []string
					for i, name := range strings.Split(vary[target], ", ")[:len(values)] {
						rq.x.(*visit).header.Set(name, values[i])
						names = append(names, name)
					}
					p = rq.place(names)
				}
				return p.loc()
			}
			tt.move(func(from, to string) {
				if n, err := c.Copy(t.Context(), from, to, 0, true).Result(); n != 1 || err != nil {
					t.Fatalf("%s to %s: %d, %v", from, to, n, err)
				}
			}, at)

			for range 2 {
				all(newer, tt.victims...)
				all(knows, tt.victims...)
			}
			if n := knows.gate.Stats().Events["corrupt"] + newer.gate.Stats().Events["corrupt"]; tt.corrupt && n == 0 {
				t.Error("nobody noticed")
			}
			version++
			for _, target := range tt.victims {
				if err := newer.gate.Invalidate(t.Context(), Key{Host: "shop.example", Target: target}); err != nil {
					t.Fatal(err)
				}
			}
			all(knows, tt.victims...)
			all(newer, tt.victims...)
			redistest.CheckTTLs(t, c, ns)
		})
	}
}
