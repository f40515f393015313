package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/herdgate/herdgate/core"
	promgate "github.com/herdgate/herdgate/observe/prometheus"
)

// statistics is the answer of GET /stats.
type statistics struct {
	Goroutines   int               `json:"goroutines"`
	HeapBytes    uint64            `json:"heap_bytes"`
	Computations int64             `json:"computations"` // requests sent upstream, whatever for
	Outcomes     map[string]uint64 `json:"outcomes"`     // from here on: core.Stats
	Causes       map[string]uint64 `json:"causes"`
	Events       map[string]uint64 `json:"events"`
	Waiting      int64             `json:"waiting"`
	Flights      int               `json:"flights"`
	Breakers     []breaker         `json:"breakers"`
}

// breaker is the state of a circuit breaker in front of Redis.
type breaker struct {
	Node  string `json:"node"`
	Calls string `json:"calls"`
	State string `json:"state"`
}

// newAdmin is the handler of the admin listener. It is not for strangers.
func newAdmin(gate *core.Gate, f *forwarder, public string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		s := gate.Stats()
		breakers := []breaker{}
		for _, b := range s.Breakers {
			breakers = append(breakers, breaker(b))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(statistics{
			Goroutines: runtime.NumGoroutine(), HeapBytes: memory.HeapAlloc, Computations: f.upstream.sent.Load(),
			Outcomes: s.Outcomes, Causes: s.Computations, Events: s.Events, Waiting: s.Waiting, Flights: s.Flights, Breakers: breakers,
		})
	})

	registry := prometheus.NewRegistry()
	registry.MustRegister(promgate.New(gate), collectors.NewGoCollector(), prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "proxy_upstream_requests_total", Help: "Requests sent upstream."},
		func() float64 { return float64(f.upstream.sent.Load()) },
	))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	mux.HandleFunc("POST /invalidate", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Has("tag") {
			http.Error(w, "invalidation by tag comes in a later version: use url", http.StatusNotImplemented)
			return
		}
		keys, err := keysOf(query.Get("url"), query.Get("host"), public)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, key := range keys {
			if err := gate.Invalidate(r.Context(), key); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "invalidated")
	})
	return mux
}

// keysOf names what is stored for the URL of an invalidation: an absolute one with the host that clients use, or a
// path, with that host apart or, if none is given, all names of the public listener.
func keysOf(target, host, public string) ([]core.Key, error) {
	if !strings.HasPrefix(target, "/") {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("url=%q: use a path (/products/7?lang=de), or an absolute URL with the host that clients use", target)
		}
		host = u.Host
		_, rest, _ := strings.Cut(target, "://") // as sent: not what url.Parse makes of it
		at := strings.IndexAny(rest, "/?#")
		if at < 0 {
			at = len(rest)
		}
		target = rest[at:]
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	target, _, _ = strings.Cut(target, "#")
	hosts := []string{host}
	if host == "" {
		hosts = names(public)
	}
	var keys []core.Key
	for _, host := range hosts {
		keys = append(keys, core.Key{Host: host, Target: target})
	}
	return keys, nil
}

// names are the hosts under which clients on the same machine reach a listener.
func names(addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return []string{addr}
	}
	all := []string{addr}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			if other := net.JoinHostPort(name, port); other != addr {
				all = append(all, other)
			}
		}
	}
	return all
}
