package core

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/entry"
)

// A RedisOption changes how responses are kept in Redis; see Redis.
type RedisOption func(*redisOption) error

// minKey is the least length of a key for SignEntries, in bytes.
const minKey = 16

// SignEntries is for a Redis that others can write to: responses, and the records of what they vary on, are signed (HMAC-SHA256)
// together with the place where they belong, and what has no valid signature for its place is a miss, before anything else
// of it is looked at. All keys are accepted, the first one signs, so a key is rotated in three deployments: the new one second, then
// first, then alone. Each has at least 16 bytes; 32 random ones are right. The keys are the whole fleet's.
//
// It does not keep anybody from reading, deleting, or putting back an older response of the same place for as long as that
// response says it is fresh; nor from taking locks. Default: no signature, and who can write to Redis decides what is served.
func SignEntries(keys ...[]byte) RedisOption {
	return func(o *redisOption) error {
		if len(keys) == 0 {
			return errors.New("herdgate: SignEntries(): give it a key, or leave it out")
		}
		s := &entry.Signer{}
		for i, key := range keys {
			if len(key) < minKey {
				return fmt.Errorf("herdgate: SignEntries: key %d has %d bytes: use at least %d, from a random source", i+1, len(key), minKey)
			}
			s.Keys = append(s.Keys, bytes.Clone(key))
		}
		o.signer = s
		return nil
	}
}

// CompressEntries stores response bodies of at least so many bytes compressed (zstd), where that makes them an eighth shorter at
// least: less memory in Redis and less on the wire, for some CPU time at each store and each hit from Redis. Clients get the same
// response, with its own length, ETag and ranges. A body that has a Content-Encoding is left alone. Copies in a MemoryTier
// are not compressed. At least 1 KiB, below which nothing is gained; 16<<10 is a good start. Default: nothing is compressed.
//
// Every process reads what others have compressed, with or without the option. A body that would be longer than the largest
// MaxBody of the gate is not expanded: it is a miss.
func CompressEntries(minBytes int) RedisOption {
	return func(o *redisOption) error {
		if minBytes < 1<<10 {
			return fmt.Errorf("herdgate: CompressEntries(%d): use at least 1 KiB (16<<10 is a good start)", minBytes)
		}
		o.compress = minBytes
		return nil
	}
}

// Instrument calls f in New with the client that herdgate asks Redis with, so that f can add hooks to it: traces and metrics of
// herdgate's commands, as with
//
//	core.Instrument(func(c redis.UniversalClient) error { return redisotel.InstrumentTracing(c) })
//
// That client is made from the one given to Redis, because each of its calls must end with its context. It has the same type, and
// nobody else uses it. It does not have the hooks of a *redis.ClusterClient, nor, with go-redis 9.16 and later, those of a
// *redis.Client; with older versions it has those that were added before New, which f then should not add again. An error of f is
// one of New. A hook is part of each call: one that is slow makes Redis slow. f must not close the client, nor change its options.
func Instrument(f func(redis.UniversalClient) error) RedisOption {
	return func(o *redisOption) error {
		if f == nil {
			return errors.New("herdgate: Instrument(nil): give a function, or leave it out")
		}
		o.instruments = append(o.instruments, f)
		return nil
	}
}
