package prometheus_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/nethttpmw"
	promgate "github.com/herdgate/herdgate/observe/prometheus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCollector(t *testing.T) {
	gate := newGate(t)
	handler := nethttpmw.Cache(gate, core.FreshFor(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("a product"))
	}))
	for _, method := range []string{"GET", "GET", "GET", "POST"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/p/1", nil))
	}

	const want = `
# HELP herdgate_computations_total Runs of handlers by cause, bypasses excepted.
# TYPE herdgate_computations_total counter
herdgate_computations_total{cause="miss"} 1
# HELP herdgate_flights Keys that this process computes or waits for now.
# TYPE herdgate_flights gauge
herdgate_flights 0
# HELP herdgate_outcomes_total Finished requests by role, and why a bypass was one.
# TYPE herdgate_outcomes_total counter
herdgate_outcomes_total{reason="",role="hit"} 2
herdgate_outcomes_total{reason="",role="winner"} 1
herdgate_outcomes_total{reason="method",role="bypass"} 1
# HELP herdgate_waiting Requests that wait for a computation now.
# TYPE herdgate_waiting gauge
herdgate_waiting 0
`
	collector := promgate.New(gate)
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(collector)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestGatesAreToldApartByConstantLabels(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"shop", "search"} {
		registry.MustRegister(promgate.New(newGate(t), prometheus.Labels{"gate": "?"}, prometheus.Labels{"gate": name}))
	}
	const want = `
# HELP herdgate_waiting Requests that wait for a computation now.
# TYPE herdgate_waiting gauge
herdgate_waiting{gate="search"} 0
herdgate_waiting{gate="shop"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "herdgate_waiting"); err != nil {
		t.Error(err)
	}
}

func TestNilGate(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New(nil) did not panic")
		}
	}()
	promgate.New(nil)
}

func newGate(t *testing.T) *core.Gate {
	t.Helper()
	gate, err := core.New(core.Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gate.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return gate
}
