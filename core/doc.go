// Package core is the gate: across a fleet one request computes a response, under a lock in
// Redis, and everybody else gets the stale copy at once, or waits a bounded time, or gets a degraded answer.
//
// Make one Gate per service with New and close it at the end. Give it to the Cache of an adapter
// (ginmw, echomw, fibermw, nethttpmw), with the options of the route:
//
//	gate, err := core.New(core.Redis(rdb, "shop"))
//	mux.Handle("GET /products/{id}", nethttpmw.Cache(gate, core.FreshFor(time.Minute), core.Public())(product))
//
// To follow a request through the code, read serve.go from top to bottom; then flight.go, which is one
// process's part in computing one key, and watchdog.go. backend.go is the contract of Redis and memory.
package core
