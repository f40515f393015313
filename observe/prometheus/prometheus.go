// Package prometheus shows what a gate does to Prometheus:
//
//	import promgate "github.com/herdgate/herdgate/observe/prometheus"
//
//	prometheus.MustRegister(promgate.New(gate))
//
// The metrics, none of which has an unbounded label:
//
//	herdgate_outcomes_total{role,reason}  counter  finished requests; reason says why a bypass was one, else ""
//	herdgate_computations_total{cause}    counter  runs of handlers, bypasses excepted; all but "miss" and "stale" were needed only because something went wrong
//	herdgate_events_total{event}          counter  what befell locks and refreshes: "lock-lost", "hold-cap", "no-redis", …
//	herdgate_waiting                      gauge    requests that wait for a computation now
//	herdgate_flights                      gauge    keys that this process computes or waits for now
//	herdgate_breaker_state{node,calls}    gauge    of the breakers in front of Redis: 0 closed, 1 half-open, 2 open; calls is "reads", "locks" or "stores"
package prometheus

import (
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/herdgate/herdgate/core"
)

// New returns a collector over gate.Stats. Nothing runs between scrapes. A process with several gates tells them
// apart by constant labels; of several sets the later one wins. It panics on a nil gate.
func New(gate *core.Gate, constLabels ...prometheus.Labels) prometheus.Collector {
	if gate == nil {
		panic("herdgate: prometheus.New was given a nil gate: check the error of core.New")
	}
	labels := prometheus.Labels{}
	for _, more := range constLabels {
		maps.Copy(labels, more)
	}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("herdgate_"+name, help, variable, labels)
	}
	return &collector{
		gate:         gate,
		outcomes:     desc("outcomes_total", "Finished requests by role, and why a bypass was one.", "role", "reason"),
		computations: desc("computations_total", "Runs of handlers by cause, bypasses excepted.", "cause"),
		events:       desc("events_total", "What befell locks and refreshes.", "event"),
		waiting:      desc("waiting", "Requests that wait for a computation now."),
		flights:      desc("flights", "Keys that this process computes or waits for now."),
		breaker:      desc("breaker_state", "Circuit breakers in front of Redis: 0 closed, 1 half-open, 2 open.", "node", "calls"),
	}
}

type collector struct {
	gate                                                      *core.Gate
	outcomes, computations, events, waiting, flights, breaker *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.outcomes, c.computations, c.events, c.waiting, c.flights, c.breaker} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	s := c.gate.Stats()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for name, n := range s.Outcomes {
		role, reason, _ := strings.Cut(name, ":")
		counter(c.outcomes, n, role, reason)
	}
	for cause, n := range s.Computations {
		counter(c.computations, n, cause)
	}
	for event, n := range s.Events {
		counter(c.events, n, event)
	}
	metrics <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(s.Waiting))
	metrics <- prometheus.MustNewConstMetric(c.flights, prometheus.GaugeValue, float64(s.Flights))
	for _, b := range s.Breakers {
		metrics <- prometheus.MustNewConstMetric(c.breaker, prometheus.GaugeValue, states[b.State], b.Node, b.Calls)
	}
}

// states are the values of the states of a breaker.
var states = map[string]float64{"closed": 0, "half-open": 1, "open": 2}
