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

// elsewhere are the faults of the list that have no row here: other tests have them, or what they befall does not exist yet.
var elsewhere = map[int]string{
	58: "core: TestScriptFlushMidFlight; internal/chaos: failover",
	59: "core: every test of the backend runs on a cluster too",
	60: "internal/chaos: eviction",
	61: "core: TestBudget; internal/chaos: the networks that fall silent",
	62: "there are no tags yet",
	63: "there are no tags yet",
	64: "there is no flush; lifetimes are never less than 1 ms",
	71: "core: TestTier",
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
