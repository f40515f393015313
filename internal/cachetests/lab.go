package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds the start of a process, and its end.
const patience = 20 * time.Second

// proxyFlags are what the suite asks for and a proxy does only if told: without stale-if-error in the response, a stale copy
// stands in for an origin that closes the connection (tests depend on that).
var proxyFlags = []string{"-stale-if-error", "1m"}

// lab has what all runs use: the origin of the suite, the proxy's binary, and a redis-server.
type lab struct {
	suite                *suite
	work                 string
	proxy, origin, redis string
	cancel               context.CancelFunc
	children             []*exec.Cmd
}

func newLab(ctx context.Context, s *suite, work string, withRedis bool) (_ *lab, err error) {
	l := &lab{suite: s, work: work, proxy: filepath.Join(work, "proxy")}
	ctx, l.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", l.proxy, "./examples/proxy").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building examples/proxy: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := s.node(ctx, s.server, "npm_config_port="+port, "npm_config_pidfile="+filepath.Join(work, "origin.pid"))
	if err := l.start(server); err != nil {
		return nil, err
	}
	l.origin = "http://127.0.0.1:" + port
	if err := until(ctx, func() bool { return answers(ctx, l.origin) }); err != nil {
		return nil, fmt.Errorf("the suite's server: %w", err)
	}
	if !withRedis {
		return l, nil
	}
	socket := filepath.Join(work, "redis.sock")
	server = exec.CommandContext(ctx, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", work)
	if err := l.start(server); err != nil {
		return nil, err
	}
	l.redis = "unix://" + socket
	if err := until(ctx, func() bool { _, err := os.Stat(socket); return err == nil }); err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	return l, nil
}

// start starts a child that lives until close.
func (l *lab) start(cmd *exec.Cmd) error {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return err
	}
	l.children = append(l.children, cmd)
	return nil
}

func (l *lab) close() {
	l.cancel()
	for _, child := range l.children {
		_ = child.Wait() // ended by us
	}
}

// measureAll fills in the results of the runs, two at a time: the suite waits more than it works.
func (l *lab) measureAll(ctx context.Context, runs []*score) error {
	slots := make(chan struct{}, 2)
	errs := make([]error, len(runs))
	var wait sync.WaitGroup
	for i, r := range runs {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if r.results, errs[i] = l.measure(ctx, r); errs[i] != nil {
				errs[i] = fmt.Errorf("%s, %s: %w", r.adapter, r.backend, errs[i])
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// measure runs the suite through a proxy of its own.
func (l *lab) measure(ctx context.Context, s *score) (results []result, err error) {
	work, err := os.MkdirTemp(l.work, s.adapter+"-"+s.backend)
	if err != nil {
		return nil, err
	}
	return results, l.withProxy(ctx, s, func(base string) (err error) {
		results, err = l.suite.run(ctx, base, work)
		return err
	})
}

// show runs one test and prints what the suite says about it.
func (l *lab) show(ctx context.Context, s *score, test string) error {
	return l.withProxy(ctx, s, func(base string) error {
		client := l.suite.node(ctx, l.suite.client, "npm_config_base="+base, "npm_config_id="+test)
		client.Stdout, client.Stderr = os.Stdout, os.Stderr
		return client.Run()
	})
}

// withProxy starts a proxy, calls use with its URL, and ends it.
func (l *lab) withProxy(ctx context.Context, s *score, use func(base string) error) (err error) {
	args := append([]string{"-listen", "127.0.0.1:0", "-upstream", l.origin, "-adapter", s.adapter}, proxyFlags...)
	switch s.backend {
	case "memory":
	case "redis":
		args = append(args, "-redis", l.redis, "-namespace", s.adapter)
	default:
		return fmt.Errorf("no backend %q: use memory or redis", s.backend)
	}
	ctx, cancel := context.WithCancel(ctx)
	proxy := exec.CommandContext(ctx, l.proxy, args...)
	proxy.Cancel = func() error { return proxy.Process.Signal(syscall.SIGTERM) }
	proxy.WaitDelay = patience
	log, err := os.Create(filepath.Join(l.work, s.adapter+"-"+s.backend+".log"))
	if err != nil {
		cancel()
		return err
	}
	defer log.Close()
	proxy.Stderr = log
	stdout, err := proxy.StdoutPipe()
	if err == nil {
		err = proxy.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		if end := proxy.Wait(); err == nil && end != nil && !errors.Is(end, context.Canceled) {
			err = fmt.Errorf("the proxy: %w", end)
		}
		if text, _ := os.ReadFile(log.Name()); strings.Contains(string(text), "panic") {
			err = errors.Join(err, fmt.Errorf("the proxy panicked:\n%s", text))
		}
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if err != nil || !ok {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the proxy did not start: %s", text)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return use("http://" + addr)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}

// until waits for something that another process does.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !ok(); {
		select {
		case <-ctx.Done():
			return errors.New("it did not start")
		case <-tick.C:
		}
	}
	return nil
}
