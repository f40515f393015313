package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// connections are clients, each with an open connection. They share the machine with the servers, so they are as cheap as can
// be: one thread for all, which waits for the kernel (epoll), reads, and sends the next request.
type connections struct {
	all    []*connection
	poll   int
	events []syscall.EpollEvent
	room   []byte
}

type connection struct {
	fd   int
	to   int       // which of the addresses
	sent time.Time // of the request under way
	head []byte    // of a response that came in parts
	left int       // bytes of its body that are to come
	page []byte    // the first bytes of its body
}

// connect opens n connections, in turn to each of the addresses, and sends a first request on each.
func connect(addrs []string, n int) (*connections, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	c := &connections{poll: poll, events: make([]syscall.EpollEvent, 512), room: make([]byte, 256<<10)}
	for i := range n {
		if err := c.dial(addrs, i); err != nil {
			c.close()
			return nil, err
		}
	}
	for i := 0; i < n; i += 64 { // not the herd that is to be seen
		if err := c.each(c.all[i:min(i+64, n)], request(pathNoop), nil); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *connections) dial(addrs []string, i int) error {
	to, err := netip.ParseAddrPort(addrs[i%len(addrs)])
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.all = append(c.all, &connection{fd: fd, to: i % len(addrs), page: make([]byte, 0, pageHead)})
	return errors.Join(
		syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
		syscall.SetNonblock(fd, true),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.EpollCtl(c.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}),
	)
}

func (c *connections) close() {
	for _, conn := range c.all {
		_ = syscall.Close(conn.fd)
	}
	_ = syscall.Close(c.poll)
}

// each sends one request on each of some connections at the same moment, and waits for all the responses. got, if not nil, is called with
// each as it comes in.
func (c *connections) each(some []*connection, raw []byte, got func(*connection, time.Time)) error {
	for _, conn := range some {
		if err := conn.send(raw); err != nil {
			return err
		}
	}
	waiting := len(some)
	return c.receive(func(conn *connection, now time.Time) (bool, error) {
		if got != nil {
			got(conn, now)
		}
		waiting--
		return waiting > 0, nil
	})
}

// every sends each of the requests once, on whatever connection is free.
func (c *connections) every(requests [][]byte) error {
	n := min(len(c.all), len(requests))
	for i, conn := range c.all[:n] {
		if err := conn.send(requests[i]); err != nil {
			return err
		}
	}
	requests, waiting := requests[n:], n
	return c.receive(func(conn *connection, _ time.Time) (bool, error) {
		if len(requests) > 0 {
			next := requests[0]
			requests = requests[1:]
			return true, conn.send(next)
		}
		waiting--
		return waiting > 0, nil
	})
}

// load keeps all connections busy for a while. next returns the request to send. It returns how long each response took.
func (c *connections) load(span time.Duration, next func() []byte) (took []time.Duration, err error) {
	took = make([]time.Duration, 0, 1<<16)
	for _, conn := range c.all {
		if err := conn.send(next()); err != nil {
			return nil, err
		}
	}
	waiting, end := len(c.all), time.Now().Add(span)
	err = c.receive(func(conn *connection, now time.Time) (bool, error) {
		if now.Before(end) {
			took = append(took, now.Sub(conn.sent))
			return true, conn.send(next())
		}
		waiting--
		return waiting > 0, nil
	})
	return took, err
}

// receive takes responses until done says that this was the last.
func (c *connections) receive(more func(*connection, time.Time) (bool, error)) error {
	patience := time.Now().Add(time.Minute)
	for {
		n, err := syscall.EpollWait(c.poll, c.events, 1000)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		for _, event := range c.events[:max(n, 0)] {
			conn := c.all[event.Fd]
			n, err := syscall.Read(conn.fd, c.room)
			switch {
			case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
				continue
			case err != nil:
				return err
			case n == 0:
				return errors.New("a server closed the connection")
			}
			whole, err := conn.take(c.room[:n])
			if err != nil {
				return err
			}
			if !whole {
				continue
			}
			if on, err := more(conn, time.Now()); err != nil || !on {
				return err
			}
		}
		if time.Now().After(patience) {
			return errors.New("no response for a minute")
		}
	}
}

func (c *connection) send(raw []byte) error {
	c.sent, c.page = time.Now(), c.page[:0]
	_, err := syscall.Write(c.fd, raw) // it fits into the socket's buffer
	return err
}

var (
	statusOK   = []byte("HTTP/1.1 200 ")
	endOfHead  = []byte("\r\n\r\n")
	lengthName = []byte("\r\nContent-Length: ")
)

// take takes what came in, and reports whether the response is whole: status 200, and a body by Content-Length.
func (c *connection) take(b []byte) (whole bool, err error) {
	if c.left == 0 {
		if len(c.head) > 0 {
			c.head = append(c.head, b...)
			b = c.head
		}
		head, body, ok := bytes.Cut(b, endOfHead)
		if !ok {
			if len(c.head) == 0 {
				c.head = append(c.head, b...)
			}
			return false, nil
		}
		if !bytes.HasPrefix(head, statusOK) {
			return false, fmt.Errorf("a response that is no 200: %q", head)
		}
		at := bytes.Index(head, lengthName)
		if at < 0 {
			return false, fmt.Errorf("a response without Content-Length: %q", head)
		}
		for _, digit := range head[at+len(lengthName):] {
			if digit < '0' || digit > '9' {
				break
			}
			c.left = 10*c.left + int(digit-'0')
		}
		c.head, b = c.head[:0], body
	}
	if len(b) > c.left {
		return false, errors.New("a body longer than its Content-Length")
	}
	c.page = append(c.page, b[:min(len(b), pageHead-len(c.page))]...)
	c.left -= len(b)
	return c.left == 0, nil
}

// computed returns what a page says about who computed it and when it was done.
func (c *connection) computed() (pid int, at time.Time, err error) {
	fields := bytes.Fields(c.page)
	if len(fields) < 2 {
		return 0, at, fmt.Errorf("not a page: %q", c.page)
	}
	pid, err1 := strconv.Atoi(string(fields[0]))
	nanos, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	return pid, time.Unix(0, nanos), errors.Join(err1, err2)
}

// request is what a browser sends, in short. The host is the same at all processes, as behind a load balancer.
func request(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\n" +
		"Host: shop.example\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: application/json, text/plain, */*\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Accept-Language: en-US,en;q=0.5\r\n\r\n")
}
