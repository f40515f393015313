package conformance

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp keeps one clock for all servers of the process, for the Date header.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// A stopped server's pool notices at its next round, up to 10 s later.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	)
}

// elsewhere are the faults of the list that have no row here: they belong to a later issue, or need more than
// this suite has.
var elsewhere = map[int]string{
	58: "core, with a server of its own: failover",
	59: "core: cluster slots; every case marked for the cluster runs there",
	60: "later: maxmemory",
	61: "later: the breaker",
	62: "later: tags",
	63: "later: tags",
	64: "later: flush",
	71: "later: the memory tier",
}

// Every fault that others met has a row.
func TestList(t *testing.T) {
	var covered []int
	ids := map[string]bool{}
	for _, c := range Cases() {
		if c.ID == "" || c.What == "" || len(c.Steps) == 0 {
			t.Errorf("case %q is incomplete", c.ID)
		}
		if ids[c.ID] {
			t.Errorf("two cases are called %q", c.ID)
		}
		ids[c.ID] = true
		covered = append(covered, c.Lists...)
	}
	for n := 1; n <= 72; n++ {
		why := elsewhere[n]
		if has := slices.Contains(covered, n); has == (why != "") {
			t.Errorf("number %d of the list: has a case: %v, elsewhere: %q", n, has, why)
		}
	}
	t.Logf("%d cases", len(ids))
}
