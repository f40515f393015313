// Command proxy is a caching reverse proxy, made of herdgate's public interface only.
//
//	go run ./examples/proxy -upstream http://127.0.0.1:9000
//	go run ./examples/proxy -upstream http://127.0.0.1:9000 -redis localhost:6379 -fresh 10s -admin 127.0.0.1:8081
//
// It forwards every method with its body and every end-to-end header, passes interim (1xx) and unusual
// statuses on, and never sends a request upstream twice. What is cached, and for how long, is what the
// responses say; -fresh gives those that say nothing a lifetime. Else a response that has a Last-Modified is
// fresh for a tenth of the time since then, at most an hour, and one that has none is not cached (docs/adr/0012).
//
// It prints "listening ADDR" on stdout when it is ready, and ends gracefully on SIGTERM and SIGINT.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { // a second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	os.Exit(proxyMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func proxyMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "proxy:", err)
		return 2
	}
	p, err := start(s)
	if err != nil {
		fmt.Fprintln(stderr, "proxy:", err)
		return 1
	}
	fmt.Fprintln(stdout, "listening", p.addr)
	if p.adminAddr != "" {
		fmt.Fprintln(stdout, "admin", p.adminAddr)
	}
	select {
	case err = <-p.failed:
	case <-ctx.Done():
	}
	if err := errors.Join(err, p.stop()); err != nil {
		fmt.Fprintln(stderr, "proxy:", err)
		return 1
	}
	return 0
}

// settings are the flags, and what follows from them.
type settings struct {
	listen, admin    string
	upstream         *url.URL
	adapter          string
	redis, namespace string
	off              bool
	fresh            time.Duration
	memory, maxBody  int64
	routeOptions     []core.RouteOption
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	var origin string
	var stale, staleIfError, lock, hold, wait time.Duration
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address to serve on; port 0: a free one")
	flags.StringVar(&origin, "upstream", "", "URL of the origin, such as http://127.0.0.1:9000")
	flags.StringVar(&s.adapter, "adapter", "nethttp", "nethttp, gin, echo or fiber")
	flags.StringVar(&s.redis, "redis", "", "host:port, or a redis:// URL; several, comma separated: a cluster; empty: keep responses in this process")
	flags.StringVar(&s.namespace, "namespace", "proxy", "what all keys in Redis begin with")
	flags.DurationVar(&s.fresh, "fresh", 0, "lifetime of 200 responses that name none; 0: only what responses say")
	flags.DurationVar(&stale, "stale", 0, "how long a stale copy is served while one request refreshes it; 0: herdgate's default")
	flags.DurationVar(&staleIfError, "stale-if-error", 0, "how long a stale copy stands in for a failing origin; 0: herdgate's default")
	flags.DurationVar(&lock, "lock", 0, "lifetime of the lock; 0: herdgate's default")
	flags.DurationVar(&hold, "hold", 0, "longest time one computation keeps the lock; 0: herdgate's default")
	flags.DurationVar(&wait, "wait", 0, "longest time a request waits for another's computation; 0: herdgate's default")
	flags.Int64Var(&s.maxBody, "max-body", 0, "largest body that is stored, in bytes; 0: herdgate's default")
	flags.Int64Var(&s.memory, "memory", 0, "memory tier in front of Redis, in bytes; 0: none")
	flags.BoolVar(&s.off, "off", false, "pass everything through")
	flags.StringVar(&s.admin, "admin", "", "address of the admin endpoints; empty: none")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	var err error
	if s.upstream, err = url.Parse(origin); err != nil {
		errs = append(errs, fmt.Errorf("-upstream: %w", err))
	} else if s.upstream.Host == "" || s.upstream.Scheme != "http" && s.upstream.Scheme != "https" || strings.Trim(s.upstream.Path, "/") != "" {
		errs = append(errs, fmt.Errorf("-upstream %q: use http://host:port or https://host:port", origin))
	}
	if servers[s.adapter] == nil {
		errs = append(errs, fmt.Errorf("-adapter %q: use nethttp, gin, echo or fiber", s.adapter))
	}
	for _, d := range []struct {
		is     time.Duration
		option func(time.Duration) core.RouteOption
	}{
		{s.fresh, core.FreshFor}, {stale, core.StaleFor}, {staleIfError, core.StaleIfError},
		{lock, core.LockFor}, {hold, core.HoldFor}, {wait, core.WaitFor},
	} {
		if d.is != 0 {
			s.routeOptions = append(s.routeOptions, d.option(d.is))
		}
	}
	if s.maxBody != 0 {
		s.routeOptions = append(s.routeOptions, core.MaxBody(s.maxBody))
	}
	s.routeOptions = append(s.routeOptions, core.Name("proxy"), core.Targeted("CDN-Cache-Control"), core.HeuristicFreshness(time.Hour), core.NormaliseVary())
	errs = append(errs, core.Check(s.routeOptions...))
	return s, errors.Join(errs...)
}

// backend makes the backend that the flags ask for, and what closes its client.
func (s *settings) backend() (core.Backend, func() error, error) {
	none := func() error { return nil }
	switch {
	case s.off:
		return core.Off(), none, nil
	case s.redis == "":
		return core.Memory(64 << 20), none, nil
	}
	var nodes []*redis.Options
	for addr := range strings.SplitSeq(s.redis, ",") {
		node := &redis.Options{Addr: strings.TrimSpace(addr)}
		if strings.Contains(addr, "://") {
			var err error
			if node, err = redis.ParseURL(node.Addr); err != nil {
				return nil, nil, fmt.Errorf("-redis: %w", err)
			}
		}
		nodes = append(nodes, node)
	}
	if len(nodes) == 1 {
		client := redis.NewClient(nodes[0])
		return core.Redis(client, s.namespace), client.Close, nil
	}
	cluster := &redis.ClusterOptions{Username: nodes[0].Username, Password: nodes[0].Password, TLSConfig: nodes[0].TLSConfig}
	for _, node := range nodes {
		cluster.Addrs = append(cluster.Addrs, node.Addr)
	}
	client := redis.NewClusterClient(cluster)
	return core.Redis(client, s.namespace), client.Close, nil
}

// proxy is what runs.
type proxy struct {
	addr, adminAddr string
	failed          chan error // a listener that gave up
	stops           []func(context.Context) error
}

// start opens the listeners and serves. On an error nothing is left running.
func start(s *settings) (_ *proxy, err error) {
	p := &proxy{failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	backend, closeClient, err := s.backend()
	if err != nil {
		return nil, err
	}
	p.stops = append(p.stops, func(context.Context) error { return closeClient() })
	var opts []core.GateOption
	if s.memory > 0 && s.redis != "" && !s.off {
		opts = append(opts, core.MemoryTier(s.memory, 0))
	}
	gate, err := core.New(backend, opts...)
	if err != nil {
		return nil, err
	}
	p.stops = append(p.stops, gate.Close)
	f := newForwarder(s)
	p.stops = append(p.stops, func(context.Context) error { f.upstream.transport.CloseIdleConnections(); return nil })

	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, err
	}
	p.addr = listener.Addr().String()
	if s.admin != "" {
		adminListener, err := net.Listen("tcp", s.admin)
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		p.adminAddr = adminListener.Addr().String()
		admin := &http.Server{Handler: newAdmin(gate, f, p.addr), ReadHeaderTimeout: 10 * time.Second}
		p.serve(adminListener, server{admin.Serve, admin.Shutdown})
	}
	p.serve(listener, servers[s.adapter](gate, f, s.routeOptions))
	return p, nil
}

func (p *proxy) serve(listener net.Listener, s server) {
	var stopping atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.serve(listener); err != nil && !stopping.Load() {
			p.failed <- err
		}
	}()
	p.stops = append(p.stops, func(ctx context.Context) error {
		stopping.Store(true)
		err := s.shutdown(ctx)
		_ = listener.Close() // Fiber may have been stopped before it served
		<-done
		return err
	})
}

// stop ends everything in the opposite order of its start: the servers first, because requests that are under way
// still need the gate, then the gate, then its Redis client.
func (p *proxy) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	var errs []error
	for _, stop := range slices.Backward(p.stops) {
		errs = append(errs, stop(ctx))
	}
	p.stops = nil
	return errors.Join(errs...)
}
