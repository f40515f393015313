package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

const masterName = "herd"

// Sentinel is a primary, a replica, and one sentinel that decides alone.
type Sentinel struct {
	Addr  string    // of the sentinel itself
	Nodes []*Server // the primary of the start, then the replica of the start

	t     TB
	admin *redis.SentinelClient
}

// StartSentinel starts all three, the two servers with the extra arguments, waits until the sentinel
// could fail over, and ends them after the test. The sentinel holds a server that is silent for half a
// second for down.
func StartSentinel(t TB, extraArgs ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	start := func(args ...string) {
		t.Helper()
		// A replica that begins its copy at once, not after the five seconds in which others could join.
		args = append(args, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
		s.Nodes = append(s.Nodes, Start(t, append(args, extraArgs...)...))
	}
	start()
	start("--replicaof", "127.0.0.1 "+itoa(s.Nodes[0].p.port))
	poll(t, "replica in step", func(ctx context.Context) error {
		info, err := s.Nodes[1].admin.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	})

	p := launch(t, func(port int, dir string) []string {
		conf := filepath.Join(dir, "sentinel.conf")
		text := strings.Join([]string{
			"port " + itoa(port),
			"bind 127.0.0.1",
			"dir " + dir,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", masterName, s.Nodes[0].p.port),
			"sentinel down-after-milliseconds " + masterName + " 500",
			"sentinel failover-timeout " + masterName + " 3000",
			"",
		}, "\n")
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		return []string{conf, "--sentinel"}
	})
	s.Addr = p.addr()
	s.admin = redis.NewSentinelClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = s.admin.Close() })
	// By default a sentinel looks every ten seconds whether an old primary has come back, and
	// needs two such looks to make it a replica. Before Redis 7 it stays so.
	fast := redis.NewClient(&redis.Options{Addr: s.Addr})
	_ = fast.Do(context.Background(), "SENTINEL", "DEBUG", "info-period", 200, "publish-period", 100).Err()
	_ = fast.Close()
	s.WaitReady()
	return s
}

// Client returns a new failover client with go-redis' defaults, changed by the functions given, which is
// closed after the test.
func (s *Sentinel) Client(change ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: masterName, SentinelAddrs: []string{s.Addr}}
	for _, f := range change {
		f(o)
	}
	c := redis.NewFailoverClient(o)
	s.t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// Primary returns the server that the sentinel holds for the primary now.
func (s *Sentinel) Primary() *Server {
	s.t.Helper()
	var node *Server
	poll(s.t, "address of the primary", func(ctx context.Context) (err error) {
		node, err = s.primary(ctx)
		return err
	})
	return node
}

func (s *Sentinel) primary(ctx context.Context) (*Server, error) {
	addr, err := s.admin.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil {
		return nil, err
	}
	for _, node := range s.Nodes {
		if len(addr) == 2 && node.Addr == net.JoinHostPort(addr[0], addr[1]) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the sentinel names %v", addr)
}

// Failover makes the replica the primary, as an operator would, and returns when the sentinel says so and
// the server takes writes. Both servers must be up; for an unplanned failover kill
// [Sentinel.Primary] and call [Sentinel.WaitFailover].
func (s *Sentinel) Failover() {
	s.t.Helper()
	s.WaitReady()
	old := s.Primary()
	poll(s.t, "failover", func(ctx context.Context) error {
		return s.admin.Failover(ctx, masterName).Err()
	})
	s.WaitFailover(old)
}

// WaitFailover returns when another server than old is the primary and takes writes.
func (s *Sentinel) WaitFailover(old *Server) {
	s.t.Helper()
	poll(s.t, "another primary than "+old.Addr, func(ctx context.Context) error {
		node, err := s.primary(ctx)
		if err != nil {
			return err
		}
		if node.Addr == old.Addr {
			return errors.New("still the old one")
		}
		info, err := node.admin.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "role:master") {
			err = errors.New(info)
		}
		return err
	})
}

// WaitReady returns when the sentinel knows a replica that could take over.
func (s *Sentinel) WaitReady() {
	s.t.Helper()
	poll(s.t, "sentinel knows a good replica", func(ctx context.Context) error {
		replicas, err := s.admin.Replicas(ctx, masterName).Result()
		if err != nil {
			return err
		}
		for _, r := range replicas {
			if r["flags"] == "slave" && r["master-link-status"] == "ok" {
				return nil
			}
		}
		return fmt.Errorf("replicas: %v", replicas)
	})
}
