package main

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	ginv8 "github.com/chenyahui/gin-cache"
	"github.com/chenyahui/gin-cache/persist"
	redisv8 "github.com/go-redis/redis/v8"
	fiber2 "github.com/gofiber/fiber/v2"
	cache2 "github.com/gofiber/fiber/v2/middleware/cache"
	fiber3 "github.com/gofiber/fiber/v3"
	cache3 "github.com/gofiber/fiber/v3/middleware/cache"
	storage "github.com/gofiber/storage/redis/v3"
	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/echomw"
	"github.com/herdgate/herdgate/fibermw"
	"github.com/herdgate/herdgate/ginmw"
	"github.com/herdgate/herdgate/nethttpmw"
)

// What contestants have in front of the same route.
const (
	bare        = "no cache"
	floorRedis  = "floor, Redis"
	floorMemory = "floor, memory"
	gateRedis   = "herdgate, Redis"
	gateTier    = "herdgate, Redis and memory tier"
	gateMemory  = "herdgate, memory"
	peerRedis   = "own cache, Redis"
	peerMemory  = "own cache, memory"
)

// contestant is a framework with a cache.
type contestant struct {
	framework string
	cache     string
	open      func(e environment) (application, error)
}

func (c contestant) name() string { return c.framework + ": " + c.cache }

func (c contestant) floor() bool { return c.cache == floorRedis || c.cache == floorMemory }

func (c contestant) inMemory() bool {
	return c.cache == floorMemory || c.cache == gateMemory || c.cache == peerMemory
}

// environment is what a contestant is made of. All take the same clients with their defaults.
type environment struct {
	redis     string // address
	namespace string
	fresh     time.Duration
	pages     source
}

func (e environment) options() []core.RouteOption {
	return []core.RouteOption{core.FreshFor(e.fresh), core.StaleFor(entriesLive), core.Public()}
}

// entries live longer than any run.
const entriesLive = time.Hour

func (e environment) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: e.redis}) }

// gate makes the gate of a herdgate contestant.
func (e environment) gate(cache string) (g *core.Gate, err error) {
	defer func() { opened.Store(g) }()
	quiet := core.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	switch cache {
	case gateMemory:
		return core.New(core.Memory(256<<20), quiet)
	case gateTier:
		return core.New(core.Redis(e.client(), e.namespace), core.MemoryTier(256<<20, 0), quiet)
	}
	return core.New(core.Redis(e.client(), e.namespace), quiet)
}

// opened is the gate of this process, nil if there is none.
var opened atomic.Pointer[core.Gate]

func contestants() []contestant {
	var all []contestant
	// A framework with its route, into which a middleware of ours or nothing is put.
	for _, f := range []struct {
		name  string
		app   func(source) application
		gated func(*core.Gate, environment) application
	}{
		{"net/http", func(p source) application { return netHTTP(p, func(h http.Handler) http.Handler { return h }) },
			func(g *core.Gate, e environment) application {
				return netHTTP(e.pages, nethttpmw.Cache(g, e.options()...))
			}},
		{"gin", func(p source) application { return ginApp(p) },
			func(g *core.Gate, e environment) application { return ginApp(e.pages, ginmw.Cache(g, e.options()...)) }},
		{"echo", func(p source) application { return echoApp(p) },
			func(g *core.Gate, e environment) application {
				return echoApp(e.pages, echomw.Cache(g, e.options()...))
			}},
		{"fiber v2", func(p source) application { return fiber2App(p) },
			func(g *core.Gate, e environment) application {
				return fiber2App(e.pages, fibermw.Cache(g, e.options()...))
			}},
	} {
		add := func(cache string, open func(environment) (application, error)) {
			all = append(all, contestant{f.name, cache, open})
		}
		add(bare, func(e environment) (application, error) { return f.app(e.pages), nil })
		add(floorRedis, func(e environment) (application, error) {
			return f.app(byHand(e.client(), e.namespace, e.pages)), nil
		})
		add(floorMemory, func(e environment) (application, error) { return f.app(inMap(e.pages)), nil })
		for _, cache := range []string{gateRedis, gateTier, gateMemory} {
			add(cache, func(e environment) (application, error) {
				g, err := e.gate(cache)
				if err != nil {
					return nil, err
				}
				return f.gated(g, e), nil
			})
		}
		switch f.name {
		case "gin":
			add(peerRedis, func(e environment) (application, error) {
				store := persist.NewRedisStore(redisv8.NewClient(&redisv8.Options{Addr: e.redis}))
				return ginApp(e.pages, ginv8.CacheByRequestURI(store, entriesLive, ginv8.WithPrefixKey(e.namespace))), nil
			})
			add(peerMemory, func(e environment) (application, error) {
				return ginApp(e.pages, ginv8.CacheByRequestURI(persist.NewMemoryStore(entriesLive), entriesLive)), nil
			})
		case "fiber v2":
			cached := func(e environment, s fiber2.Storage) application {
				return fiber2App(e.pages, cache2.New(cache2.Config{
					Expiration: entriesLive, Storage: s,
					KeyGenerator: func(c *fiber2.Ctx) string { return e.namespace + c.Path() },
				}))
			}
			add(peerRedis, func(e environment) (application, error) {
				return cached(e, storage.NewFromConnection(e.client())), nil
			})
			add(peerMemory, func(e environment) (application, error) { return cached(e, nil), nil })
		}
	}
	cached := func(e environment, s fiber3.Storage) application {
		return fiber3App(e.pages, cache3.New(cache3.Config{
			Expiration: entriesLive, Storage: s,
			MaxBytes:     1 << 30, // its default is too small for the keys of this comparison
			KeyGenerator: func(c fiber3.Ctx) string { return e.namespace + c.Path() },
		}))
	}
	const f3 = "fiber v3"
	return append(all,
		contestant{f3, bare, func(e environment) (application, error) { return fiber3App(e.pages), nil }},
		contestant{f3, floorRedis, func(e environment) (application, error) {
			return fiber3App(byHand(e.client(), e.namespace, e.pages)), nil
		}},
		contestant{f3, floorMemory, func(e environment) (application, error) { return fiber3App(inMap(e.pages)), nil }},
		contestant{f3, peerRedis, func(e environment) (application, error) {
			return cached(e, storage.NewFromConnection(e.client())), nil
		}},
		contestant{f3, peerMemory, func(e environment) (application, error) { return cached(e, nil), nil }},
	)
}
