package redistest

import (
	"slices"
	"sync"
)

// M is a *testing.M, and what [Main] makes of it.
type M interface{ Run() int }

// Main wraps m, for TestMain, so that [Shared] and [SharedCluster] may be used and what
// they started ends when the tests have run:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m).Run()) }
func Main(m M) M { return &sharing{m: m} }

type sharing struct{ m M }

func (s *sharing) Run() int {
	pool.mu.Lock()
	pool.open = true
	pool.mu.Unlock()
	defer pool.close()
	return s.m.Run()
}

// pool holds what the tests of this process share.
var pool shared

type shared struct {
	mu   sync.Mutex
	open bool
	ends []func()

	// Each is started under a lock of its own: a cluster takes its time, and a test that wants a
	// server should not wait for it.
	serverMu  sync.Mutex
	server    *Server
	clusterMu sync.Mutex
	cluster   *Cluster
}

// Shared returns the one server of this test process, started by the first call. It
// belongs to nobody: a test keeps to a [Namespace] of its own, changes no configuration,
// and cannot stop it. Needs [Main].
func Shared(t TB) *Server {
	t.Helper()
	pool.check(t)
	pool.serverMu.Lock()
	defer pool.serverMu.Unlock()
	if pool.server == nil {
		pool.server = Start(owner{t})
	}
	return pool.server.view(t)
}

// SharedCluster returns the one cluster of this test process, of three nodes; see
// [Shared] for what a test may do with it. A cluster takes more than two seconds to form.
func SharedCluster(t TB) *Cluster {
	t.Helper()
	pool.check(t)
	pool.clusterMu.Lock()
	defer pool.clusterMu.Unlock()
	if pool.cluster == nil {
		pool.cluster = StartCluster(owner{t}, 3)
	}
	c := &Cluster{t: t, slots: pool.cluster.slots}
	for _, node := range pool.cluster.Nodes {
		c.Nodes = append(c.Nodes, node.view(t))
	}
	return c
}

// view is the same server for another test, with clients that end with that test.
func (s *Server) view(t TB) *Server {
	v := newServer(t, s.p)
	v.shared = true
	return v
}

func (p *shared) check(t TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		t.Fatalf("redistest: shared servers need func TestMain(m *testing.M) { os.Exit(redistest.Main(m).Run()) } in this package")
	}
}

// close ends what is shared. No test runs any more.
func (p *shared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range slices.Backward(p.ends) {
		end()
	}
	p.open, p.ends, p.server, p.cluster = false, nil, nil, nil
}

// owner lets what one test starts live as long as the process: what the test is asked to
// clean up is done by Main.
type owner struct{ TB }

func (owner) Cleanup(f func()) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.ends = append(pool.ends, f)
}
