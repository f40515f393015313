package core

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/host"
)

// From a request to the location of its response: everything that a hit computes before it
// looks. The codec has its benchmarks in internal/entry, whole requests have theirs at the root of the module.
func BenchmarkKey(b *testing.B) {
	for _, c := range keyCases {
		b.Run(c.name, func(b *testing.B) {
			locate := locator(b, c)
			b.ReportAllocs()
			for b.Loop() {
				locate()
			}
		})
	}
}

// The ceilings are a third above what was measured. Who lowers the measure lowers the ceiling.
func TestKeyAllocations(t *testing.T) {
	for _, c := range keyCases {
		t.Run(c.name, func(t *testing.T) {
			locate := locator(t, c)
			if locate() == "" {
				t.Fatal("no location")
			}
			if got := testing.AllocsPerRun(100, func() { locate() }); got > c.most {
				t.Errorf("%v allocations, at most %v expected", got, c.most)
			}
		})
	}
}

type keyCase struct {
	name string
	opts []RouteOption
	vary []string // what the key is known to vary on
	most float64  // allocations
}

var keyCases = []keyCase{
	{name: "default", most: 2},
	{name: "KeyQuery", opts: []RouteOption{KeyQuery("page", "sort")}, most: 8},
	{name: "IgnoreQuery", opts: []RouteOption{IgnoreQuery("utm_*")}, most: 10},
	{name: "KeyCookie", opts: []RouteOption{KeyCookie("lang")}, most: 15},
	{name: "Vary", vary: []string{"Accept-Encoding", "Accept-Language"}, most: 14},
}

func locator(t testing.TB, c keyCase) func() string {
	t.Helper()
	gate, err := New(Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close(context.Background()) })
	cfg, err := configure(append([]RouteOption{FreshFor(time.Hour), Public()}, c.opts...))
	if err != nil {
		t.Fatal(err)
	}
	m := &middleware{gate: gate, cfg: cfg, recipe: newRecipe(cfg, gate.isCredential)}
	x := &asked{capture.Request{HTTP: &http.Request{
		Method:     http.MethodGet,
		Host:       "shop.example",
		RequestURI: "/products/7?utm_source=mail&sort=price&page=2",
		URL:        &url.URL{Path: "/products/7", RawQuery: "utm_source=mail&sort=price&page=2"},
		Header: http.Header{
			"Accept-Encoding": {"gzip, deflate, br, zstd"},
			"Accept-Language": {"en-US,en;q=0.5"},
			"Cookie":          {"session=c0ffee; lang=de; theme=dark"},
		},
	}}}
	return func() string {
		rq := &request{x: x}
		m.view(rq)
		return rq.place(c.vary).loc()
	}
}

// asked is a host.Exchange that can only be asked.
type asked struct{ capture.Request }

func (a *asked) Native() any                   { return a.HTTP }
func (a *asked) SetContext(context.Context)    {}
func (a *asked) HeadIsGet() bool               { return true }
func (a *asked) Run(host.Call) (r host.Result) { return r }
func (a *asked) Reply(host.Reply)              {}
func (a *asked) Freeze() func(context.Context) { return nil }
