// Package redistest starts real redis-server processes for tests, and puts faults
// between them and their clients. A fake Redis proves nothing about a lock.
//
//   - [Start]: a server of one's own. It can be stopped, continued, killed and restarted.
//   - [Shared], [SharedCluster]: one server, or one cluster, per test process, for suites
//     that need no more than a [Namespace] of their own. [Main] ends it.
//   - [StartCluster], [StartSentinel]: the other two shapes that Redis comes in.
//   - [StartProxy]: a network that loses replies, falls silent, slows down or refuses.
//   - [CheckTTLs], [Locks], [CommandCount]: what a test asks of a Redis at its end.
//
// Everything that a test starts ends with it. Nothing listens beyond 127.0.0.1, nothing is
// written but to a temporary directory. redis-server must be installed: a missing one
// fails the test, since a skipped test of a lock looks like a passed one.
//
// No function is for use outside tests. The package does not import testing, so that no
// package that uses it registers test flags; see [TB]. Windows is not supported.
package redistest

// TB is what the package needs of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}
