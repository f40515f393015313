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

// elsewhere are the faults of the list that have no row here, because they need another server than this suite's, or a fault of it.
var elsewhere = map[int]string{
	58: "core: TestScriptFlushMidFlight; internal/chaos: SCRIPT FLUSH, failovers",
	59: "core: the contract of the backend, on a cluster; here every case that is marked for the cluster",
	60: "core: TestOutOfMemoryBetweenAcquireAndStore; internal/chaos: OOM, eviction",
	61: "core: TestBudget, TestNetworkFallsSilentUnderLoad; internal/chaos: a server that hangs",
	62: "no tags; that every index has a lifetime: redistest.CheckTTLs",
	63: "no tags",
	64: "nothing flushes; lifetimes below a second: number 32",
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
