package conformance

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

// silent is the logger of the gates.
var silent = slog.New(slog.DiscardHandler)

// Run runs every case that the host is capable of, in memory and on a Redis server that it starts.
func Run(t *testing.T, h Host) {
	cases := Cases()
	for _, c := range cases {
		if why := h.lacks(c); why != "" {
			t.Logf("not for %s: %s: %s", h.Name, c.ID, why)
		}
	}
	var ends sync.WaitGroup // of servers that need a while to stop
	t.Cleanup(ends.Wait)
	backends := []backend{inMemory(), onServer(t, redistest.Start(t))}
	if h.Cluster {
		backends = append(backends, onCluster(t, redistest.StartCluster(t, 3)))
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			for _, c := range cases {
				if h.lacks(c) == "" && c.runsOn(b.name) {
					t.Run(c.ID, func(t *testing.T) {
						t.Parallel()
						runCase(t, &h, &c, b, &ends)
					})
				}
			}
		})
	}
}

// lacks returns why the case cannot be run on the host, or "".
func (h *Host) lacks(c Case) string {
	for _, need := range c.Needs {
		if why, ok := h.Cannot[need]; ok {
			return why
		}
	}
	for _, without := range c.Lacks {
		if _, ok := h.Cannot[without]; !ok {
			return "it is about hosts without: " + string(without)
		}
	}
	return ""
}

const (
	memoryName  = "memory"
	serverName  = "redis"
	clusterName = "cluster"
)

func (c *Case) runsOn(backend string) bool {
	redisOnly := c.Redis || c.Gates > 1 || c.Network || c.Pool > 0
	switch backend {
	case memoryName:
		return !redisOnly
	case clusterName:
		return c.Cluster
	}
	return !c.Memory
}

func inMemory() backend {
	return backend{memoryName, func(*world, int) core.Backend { return core.Memory(64 << 20) }}
}

// onServer gives every process a client of its own, and every case a namespace of its own.
func onServer(t *testing.T, server *redistest.Server) backend {
	admin := server.Client()
	t.Cleanup(func() { _ = admin.Close() })
	return backend{serverName, func(w *world, _ int) core.Backend {
		w.redis = admin
		addr := server.Addr
		if w.c.Network {
			if w.network == nil {
				w.network = redistest.StartProxy(w.t, server.Addr)
			}
			addr = w.network.Addr
		}
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: w.c.Pool})
		w.t.Cleanup(func() { _ = c.Close() })
		return core.Redis(c, w.namespace, core.Instrument(func(own redis.UniversalClient) error {
			own.AddHook(counting{w})
			return nil
		}))
	}}
}

func onCluster(t *testing.T, cluster *redistest.Cluster) backend {
	admin := cluster.Client()
	t.Cleanup(func() { _ = admin.Close() })
	return backend{clusterName, func(w *world, _ int) core.Backend {
		w.redis = admin
		return core.Redis(admin, w.namespace)
	}}
}

// counting counts the entries that a process writes to Redis.
type counting struct{ w *world }

func (h counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.EqualFold(cmd.Name(), "set") && len(args) > 2 && isEntry(args[2]) {
			h.w.stores.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func isEntry(value any) bool {
	m, ok := value.(interface{ MarshalBinary() ([]byte, error) })
	if !ok {
		return false
	}
	raw, err := m.MarshalBinary()
	return err == nil && bytes.HasPrefix(raw, []byte("hge"))
}

// Cases returns all cases, those with more than one process last.
func Cases() []Case {
	return slices.Concat(keyCases(), credentialCases(), varyCases(), ruleCases(), heuristicCases(), validationCases(), saysCases(), partCases(), unsafeCases(), bodyCases(), headerCases(), lockCases(), failureCases(), staleCases(), streamCases(), redisCases())
}
