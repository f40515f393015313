// Package chaos breaks Redis, the network and the processes under a service with herdgate in front of it, in many ways,
// and looks at what clients get meanwhile. The package is nothing but its tests: `make test` runs the fast half,
// `make chaos` all of it over all adapters, and writes docs/faults.md.
package chaos
