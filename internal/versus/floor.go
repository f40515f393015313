package main

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

// byHand is the floor: the cache that is in every code base, one GET for a hit, and singleflight around what a miss costs.
func byHand(rdb *redis.Client, namespace string, compute source) source {
	var flights singleflight.Group
	return func(ctx context.Context, path string) []byte {
		key := namespace + ":" + path
		page, err := rdb.Get(ctx, key).Bytes()
		if err == nil {
			return page
		}
		if !errors.Is(err, redis.Nil) {
			return compute(ctx, path)
		}
		computed, _, _ := flights.Do(key, func() (any, error) {
			page := compute(ctx, path)
			return page, rdb.Set(context.WithoutCancel(ctx), key, page, entriesLive).Err()
		})
		return computed.([]byte)
	}
}

// inMap is the floor of a cache in memory. It forgets nothing.
func inMap(compute source) source {
	var mu sync.RWMutex
	kept := make(map[string][]byte)
	var flights singleflight.Group
	return func(ctx context.Context, path string) []byte {
		mu.RLock()
		page, ok := kept[path]
		mu.RUnlock()
		if ok {
			return page
		}
		key := string([]byte(path))
		computed, _, _ := flights.Do(key, func() (any, error) {
			page := compute(ctx, key)
			mu.Lock()
			kept[key] = page
			mu.Unlock()
			return page, nil
		})
		return computed.([]byte)
	}
}
