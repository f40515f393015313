package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herdgate/herdgate/core"
)

// pairsPerHost makes 10,000 over all hosts. HERDGATE_PAIRS asks for more.
const pairsPerHost = 2_000

// A kind is a class of resources: what its responses depend on, and what they say about that.
type kind struct {
	name  string
	route []core.RouteOption
	says  []string // response header lines
	// depends returns what the response depends on besides method, host and target.
	depends func(c Call, header func(string) string) string
	ignores string // query parameters that the response does not depend on
	respell string // the request header that may be written in several ways
}

// kinds are all handlers that do what they say. Each of them would leak through a cache that forgets one rule.
func kinds() []kind {
	hour := core.FreshFor(time.Hour)
	nothing := func(Call, func(string) string) string { return "" }
	of := func(names ...string) func(Call, func(string) string) string {
		return func(_ Call, header func(string) string) (all string) {
			for _, name := range names {
				all += name + "=" + header(name) + " "
			}
			return all
		}
	}
	return []kind{
		{name: "plain", route: []core.RouteOption{hour}, depends: nothing},
		{name: "lang", route: []core.RouteOption{hour}, says: []string{"Vary: X-Lang"}, depends: of("X-Lang")},
		{name: "two", route: []core.RouteOption{hour}, says: []string{"Vary: Accept-Language", "Vary: x-lang"}, depends: of("Accept-Language", "X-Lang")},
		{name: "encoded", route: []core.RouteOption{hour}, says: []string{"Vary: Accept-Encoding"}, depends: func(_ Call, header func(string) string) string {
			return fmt.Sprint(strings.Contains(header("Accept-Encoding"), "gzip"))
		}},
		{name: "star", route: []core.RouteOption{hour}, says: []string{"Vary: *"}, depends: of("X-Lang", "Origin", "Accept-Language")},
		{name: "user", route: []core.RouteOption{hour}, depends: of("Cookie", "Authorization", "X-Api-Key")},
		{name: "private", says: []string{"Cache-Control: private, max-age=3600"}, depends: of("Cookie", "Authorization", "X-Api-Key", "X-Lang")},
		{name: "nostore", route: []core.RouteOption{hour}, says: []string{"Cache-Control: no-store"}, depends: of("X-Lang", "Origin")},
		{name: "public", says: []string{"Cache-Control: public, max-age=3600"}, depends: nothing},
		{name: "cookie", route: []core.RouteOption{hour, core.KeyCookie("lang")}, depends: func(_ Call, header func(string) string) string {
			_, rest, _ := strings.Cut(header("Cookie"), "lang=")
			lang, _, _ := strings.Cut(rest, ";")
			return lang
		}},
		{name: "keyed", route: []core.RouteOption{hour, core.KeyHeader("X-Lang")}, depends: of("X-Lang")},
		{name: "secret", route: []core.RouteOption{hour, core.KeyHeader("Authorization")}, depends: of("Authorization")},
		{name: "tracked", route: []core.RouteOption{hour, core.IgnoreQuery("utm_*")}, depends: nothing, ignores: "utm_"},
		{name: "cors", route: []core.RouteOption{hour}, says: []string{"Vary: Origin"}, depends: of("Origin")},
		{name: "everyone", route: []core.RouteOption{hour, core.Public()}, depends: nothing},
	}
}

// kindsByOption are handlers on routes where more is shared than by default.
func kindsByOption() []kind {
	const modified = "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT"
	guess, normal, hour := core.HeuristicFreshness(time.Hour), core.NormaliseVary(), core.FreshFor(time.Hour)
	of := func(names ...string) func(Call, func(string) string) string {
		return func(_ Call, header func(string) string) (all string) {
			for _, name := range names {
				all += name + "=" + header(name) + " "
			}
			return all
		}
	}
	nothing := func(Call, func(string) string) string { return "" }
	user := of("Cookie", "Authorization", "X-Api-Key")
	return []kind{
		{name: "guessed", route: []core.RouteOption{guess, normal}, says: []string{modified}, depends: nothing},
		{name: "guessed user", route: []core.RouteOption{guess, normal}, says: []string{modified}, depends: user},
		{name: "guessed validated user", route: []core.RouteOption{guess, normal}, says: []string{modified, "Cache-Control: must-revalidate"}, depends: user},
		{name: "guessed private", route: []core.RouteOption{guess, normal}, says: []string{modified, "Cache-Control: private"}, depends: of("Cookie", "Authorization", "X-Api-Key", "X-Lang")},
		{name: "languages", route: []core.RouteOption{hour, normal}, respell: "Accept-Language", says: []string{"Vary: Accept-Language"}, depends: func(_ Call, header func(string) string) string {
			return rank(header("Accept-Language"))
		}},
		{name: "lists", route: []core.RouteOption{hour, normal}, respell: "X-Lang", says: []string{"Vary: X-Lang"}, depends: func(_ Call, header func(string) string) string {
			return list(header("X-Lang"))
		}},
		{name: "public keys", route: []core.RouteOption{guess, normal}, respell: "X-Api-Key", says: []string{modified, "Cache-Control: public", "Vary: X-Api-Key"}, depends: of("X-Api-Key")},
	}
}

// rank is what a handler makes of Accept-Language that does not care for the order of equal weights.
func rank(field string) string {
	var ranked []string
	for member := range strings.SplitSeq(strings.ToLower(field), ",") {
		name, parameter, weighted := strings.Cut(strings.TrimSpace(member), ";")
		weight := 1.0
		if weighted {
			var err error
			if weight, err = strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(parameter), "q="), 64); err != nil {
				return "raw " + strings.ReplaceAll(strings.ToLower(field), " ", "")
			}
		}
		if name = strings.TrimSpace(name); name != "" {
			ranked = append(ranked, fmt.Sprintf("%.3f %s", weight, name))
		}
	}
	slices.Sort(ranked)
	return fmt.Sprintf("%q", slices.Compact(ranked))
}

// list is what a handler makes of a list whose members may be quoted strings.
func list(field string) string {
	if strings.Contains(field, `"`) {
		return "raw " + field
	}
	all := strings.Split(field, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return fmt.Sprintf("%q", all)
}

// spellings are the values of some headers, of which several may mean the same.
var spellings = map[string][]string{
	"Accept-Language": {"de, en", "en, de", "EN,de", "en;q=1.0 , de", "de, en;q=0.5", "en;q=0.50,de", "en, de;q=0.5", "de, de;q=0.1", "en, de;q=x", "de;q=x, en", "en", ", en", "*;q=0, en"},
	"X-Lang":          {"1,2", "1, 2", "1 ,2", "2,1", `"1,2"`, `"1, 2"`, "1 2", "12", "A", "a", "a,"},
	"X-Api-Key":       {"a,b", "a, b", "a ,b", "b,a"},
}

// respelled is a request with another value of a header, and mostly with one, for one of two resources: what may be mistaken for each
// other here is the value.
func (w wish) respelled(r *rand.Rand, name string) wish {
	lines := slices.DeleteFunc(slices.Clone(w.lines), func(line string) bool { return strings.HasPrefix(line, name+":") })
	if r.IntN(5) > 0 {
		lines = append(lines, name+": "+pick(r, spellings[name]))
	}
	return wish{w.method, pick(r, []string{"/a", "/b"}), w.body, lines}
}

// serve is the handler of a kind: a function of what the request is and of what the kind depends on.
func (k *kind) serve(c Call) error {
	header := func(name string) string { return strings.Join(c.Values(name), ", ") }
	target := c.Target()
	if k.ignores != "" {
		path, query, _ := strings.Cut(target, "?")
		params := slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool { return strings.HasPrefix(p, k.ignores) })
		target = path + "?" + strings.Join(params, "&")
	}
	// HEAD is answered as GET is, without the body.
	method := c.Method()
	if method == "HEAD" {
		method = "GET"
	}
	text := fmt.Sprintf("%s %s %s %s", method, header("X-Host"), target, k.depends(c, header))
	c.Set("Content-Type", "text/plain")
	c.Set("X-Text", strconv.Quote(text))
	for _, line := range k.says {
		name, value, _ := strings.Cut(line, ": ")
		c.Add(name, value)
	}
	switch {
	case strings.Contains(target, "gone"):
		c.Status(http.StatusGone)
	case strings.Contains(target, "missing"): // and nothing says for how long
		c.Status(http.StatusNotFound)
	case strings.Contains(target, "nothing"):
		c.Status(http.StatusNoContent)
		return nil
	}
	c.Write([]byte(text))
	return nil
}

// A wish is a generated request.
type wish struct {
	method, target, body string
	lines                []string
}

// wishFor draws a request. Few choices for each part, so that requests meet each other in the cache.
func wishFor(r *rand.Rand) wish {
	w := wish{method: "GET", target: pick(r, []string{
		"/a", "/a", "/a", "/a", "/A", "/b", "/a/", "/a%2Fb", "/a/b", "/%61", "/a;b", "/gone", "/missing", "/nothing",
	})}
	w.target += pick(r, []string{
		"", "", "", "", "", "", "", "", "?", "?x=1", "?x=2", "?x=1&y=2", "?y=2&x=1", "?x=1&x=2", "?x=12", "?x=%31", "?x=1&utm_source=a", "?utm_source=b", "?x=1;y=2", "?x=a+b", "?x=a%20b",
	})
	switch n := r.IntN(100); {
	case n < 8:
		w.method = "HEAD"
	case n < 16:
		w.method = pick(r, []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
		w.body = pick(r, []string{"", "body one", "body two"})
	case n < 18:
		w.body = "a GET with a body"
	}
	host := pick(r, []string{"shop.example", "shop.example", "other.example"})
	w.lines = []string{"Host: " + host, "X-Host: " + host}
	for _, of := range [][]string{
		{"X-Lang: de", "X-Lang: fr", "X-Lang: de, fr", "X-Lang: "},
		{"Accept-Language: de", "Accept-Language: fr, de;q=0.5"},
		{"Accept-Encoding: gzip", "Accept-Encoding: br, gzip;q=0.5", "Accept-Encoding: identity"},
		{"Cookie: session=1", "Cookie: session=2", "Cookie: lang=de; session=1", "Cookie: session=2; lang=fr"},
		{"Authorization: Bearer one", "Authorization: Bearer two"},
		{"X-Api-Key: one", "X-Api-Key: two"},
		{"Origin: https://one.example", "Origin: https://two.example"},
		{"Cache-Control: no-cache", "Cache-Control: only-if-cached", "Pragma: no-cache"},
		{"X-Forwarded-Host: evil.example", "X-Original-Url: /evil", "X-Forwarded-Proto: gopher"},
	} {
		if r.IntN(100) < 12 {
			w.lines = append(w.lines, pick(r, of))
		}
	}
	return w
}

// other is a request that differs from w in one part, or in none: the second of a pair.
func (w wish) other(r *rand.Rand) wish {
	x := wishFor(r)
	second := wish{w.method, w.target, w.body, slices.Clone(w.lines)}
	switch r.IntN(6) {
	case 0:
		second.target = x.target
	case 1:
		second.method, second.body = x.method, x.body
	case 2:
		second.lines = append(x.lines[:2:2], w.lines[2:]...) // another host
	case 3:
		second.lines = append(w.lines[:2:2], x.lines[2:]...) // other fields
	case 4:
		if len(w.lines) > 2 { // one field fewer
			at := 2 + r.IntN(len(w.lines)-2)
			second.lines = slices.Delete(second.lines, at, at+1)
		}
	}
	return second
}

// TestPairs sends generated pairs of requests through a cache, and each of the requests to the same handler without one: whatever was
// stored by whatever came before, a client gets what the handler gives it for its own request.
func TestPairs(t *testing.T) { askInPairs(t, kinds(), pairsPerHost) }

// TestPairsByOption does the same on routes that guess lifetimes and normalise what responses vary on.
func TestPairsByOption(t *testing.T) { askInPairs(t, kindsByOption(), pairsPerHost/2) }

func askInPairs(t *testing.T, of []kind, pairs int) {
	if more, err := strconv.Atoi(os.Getenv("HERDGATE_PAIRS")); err == nil {
		pairs = more / len(adapters())
	}
	for at, h := range adapters() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(seed)
			if s, err := strconv.ParseUint(os.Getenv("HERDGATE_SEED"), 10, 64); err == nil {
				seed = s
			}
			var hits, asked atomic.Int64
			for n, k := range of {
				with := newSite(t, h, core.Memory(4<<20), k.serve, k.route...)
				without := newSite(t, h, core.Off(), k.serve, k.route...)
				var known sync.Map // the handler is a function
				uncached := func(w wish) answer {
					name := fmt.Sprint(w)
					if a, ok := known.Load(name); ok {
						return a.(answer)
					}
					a := without.ask(w.method, w.target, w.body, w.lines...)
					known.Store(name, a)
					return a
				}
				var workers sync.WaitGroup
				for worker := range 2 { // so that requests also wait for each other
					workers.Go(func() {
						r := rand.New(rand.NewPCG(seed, uint64(at*1000+n*10+worker)))
						for range (pairs + 2*len(of) - 1) / (2 * len(of)) {
							first := wishFor(r)
							for _, w := range []wish{first, first.other(r)} {
								if k.respell != "" {
									w = w.respelled(r, k.respell)
								}
								got := with.ask(w.method, w.target, w.body, w.lines...)
								want := uncached(w)
								asked.Add(1)
								if strings.Contains(got.cacheStatus(), "; hit") {
									hits.Add(1)
								}
								if why := differs(got, want); why != "" {
									t.Errorf("seed %d, %s, %+v: %s\nwith a cache    %d %q %q\nwithout a cache %d %q %q",
										seed, k.name, w, why, got.status, got.body, got.header, want.status, want.body, want.header)
								}
								if t.Failed() {
									return
								}
							}
						}
					})
				}
				workers.Wait()
			}
			if hits.Load() < asked.Load()/5 {
				t.Errorf("only %d of %d requests were hits: little is shown", hits.Load(), asked.Load())
			}
			t.Logf("%d requests, %d of them hits", asked.Load(), hits.Load())
		})
	}
}

// differs says what of a response is not what the handler gives without a cache, "" if nothing.
func differs(got, want answer) string {
	switch {
	case got.status != want.status:
		return "status"
	case got.body != want.body:
		return "body"
	}
	fields := func(a answer) string {
		var all []string
		for name, values := range a.header {
			switch name {
			case "Age", "Cache-Status", "Date", "Content-Length", "Transfer-Encoding": // those of a cache, of time, and of the connection
			default:
				all = append(all, fmt.Sprintf("%s: %q", name, values))
			}
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	if fields(got) != fields(want) {
		return "header"
	}
	return ""
}
