package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// hostHeader is the same at all processes, as behind a load balancer: the host is part of the key.
const hostHeader = "shop.example"

// client is one client: an open connection, and as little else as possible. A thousand
// http.Clients on the machine that also runs the servers would mostly measure themselves.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

// clients are connected, each to the next process in turn.
type clients []*client

// answer is what a client got.
type answer struct {
	status int
	took   time.Duration // from the request's first byte to the response's last
	server time.Duration // what the server says of it
	body   string
	err    error
}

// connect opens all connections and sends one request on each, so that nothing but the request itself is left to do
// when the start signal comes.
func connect(ctx context.Context, addrs []string, n int) (clients, error) {
	all := make(clients, n)
	errs := make([]error, n)
	slots := make(chan struct{}, 64) // not the herd that we want to see
	var done sync.WaitGroup
	for i := range all {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			if all[i], errs[i] = dial(ctx, addrs[i%len(addrs)]); errs[i] != nil {
				return
			}
			if a := all[i].ask(request(pathNoop), 20*time.Second); a.err != nil || a.status != 200 {
				errs[i] = fmt.Errorf("first request: status %d: %w", a.status, a.err)
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

func dial(ctx context.Context, addr string) (*client, error) {
	dialer := net.Dialer{Timeout: 20 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReaderSize(conn, 2048)}, nil
}

func (all clients) close() {
	for _, c := range all {
		if c != nil {
			_ = c.conn.Close()
		}
	}
}

// run lets all clients ask at the same moment and returns what they got. watch is told how many have an
// answer, now and then.
func (all clients) run(ctx context.Context, path string, patience time.Duration, watch func(answered int)) []answer {
	// The servers are on this machine too. Clients that took all of it would mostly measure how long a server waits for a core.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	answers := make([]answer, len(all))
	start := make(chan struct{})
	var answered atomic.Int64
	var done sync.WaitGroup
	raw := request(path)
	for i, c := range all {
		done.Go(func() {
			<-start
			answers[i] = c.ask(raw, patience)
			answered.Add(1)
		})
	}
	finished := make(chan struct{})
	go func() {
		done.Wait()
		close(finished)
	}()
	close(start)

	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return answers
		case <-ctx.Done():
			all.close() // ends their reads
			<-finished
			return answers
		case <-ticker.C:
			watch(int(answered.Load()))
		}
	}
}

// ask sends one request on a connection of its own.
func ask(ctx context.Context, addr, path string, patience time.Duration) answer {
	c, err := dial(ctx, addr)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = c.conn.Close() }()
	return c.ask(request(path), patience)
}

func request(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + hostHeader + "\r\n\r\n")
}

func (c *client) ask(raw []byte, patience time.Duration) (a answer) {
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	if a.err = c.conn.SetDeadline(start.Add(patience)); a.err != nil {
		return a
	}
	if _, a.err = c.conn.Write(raw); a.err != nil {
		return a
	}
	a.err = c.read(&a)
	return a
}

// read takes one response: status line, header, and a body by Content-Length.
func (c *client) read(a *answer) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	_, status, _ := bytes.Cut(line, []byte(" "))
	status, _, _ = bytes.Cut(status, []byte(" "))
	if a.status, err = strconv.Atoi(string(status)); err != nil {
		return fmt.Errorf("not a status line: %q", line)
	}
	length := -1
	for {
		if line, err = c.line(); err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		case bytes.EqualFold(name, []byte(serverTiming)):
			if _, dur, ok := bytes.Cut(value, []byte("dur=")); ok {
				ms, err := strconv.ParseFloat(string(dur), 64)
				if err != nil {
					return err
				}
				a.server = time.Duration(ms * float64(time.Millisecond))
			}
		}
	}
	if length < 0 {
		return errors.New("a response without Content-Length")
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return err
	}
	a.body = string(body)
	return nil
}

// line is valid until the next read.
func (c *client) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}
