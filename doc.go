// Package herdgate is the front page of a module that protects expensive GET routes from cache
// stampedes. Across a fleet one request computes the response, guarded by a mutex on Redis;
// everybody else gets the stale copy at once, waits a bounded time for the new one, or gets a degraded answer. It
// is one middleware line for Gin, Echo, Fiber, and net/http with every router built on it:
//
//	gate, err := core.New(core.Redis(rdb, "shop")) // "shop" is the namespace of the keys
//	r.GET("/products/:id", ginmw.Cache(gate, core.FreshFor(5*time.Minute), core.Public()), product)
//
// There is nothing to import here. Look at
//
//   - [github.com/herdgate/herdgate/core]: the gate, its backends (Redis, or memory for one process), the options
//     of gates and routes, invalidation, and what a handler can say about its own response;
//   - [github.com/herdgate/herdgate/ginmw], [github.com/herdgate/herdgate/echomw],
//     [github.com/herdgate/herdgate/fibermw], [github.com/herdgate/herdgate/nethttpmw]: Cache, KeyBy, SkipIf and
//     Outcome for each framework. chi is served by nethttpmw;
//   - examples/herd: the demonstration, a thousand requests over four processes (go run ./examples/herd);
//   - examples/proxy: a caching reverse proxy made of the public API only;
//   - docs: what is promised and what is not, operations, and the decisions that were taken (docs/adr).
//
// The lock is there for efficiency and never for correctness: one that is lost or granted twice costs a
// computation more, and never a wrong, mixed, truncated or resurrected response. When Redis is gone, each process
// collapses on its own and requests go on.
package herdgate
