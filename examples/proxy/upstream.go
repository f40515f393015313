package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// upstream sends requests to the origin, and none of them twice.
//
// http.Transport itself sends a GET again, on a new connection, when a kept one broke before the first byte of the response: the
// origin may have done the work by then, and would do it twice. That is what a gate in front
// of expensive work must not do, and it cannot be switched off. So requests are given to the transport in a
// form that it takes for one that cannot be repeated (see once), and are repeated here, where it is certain that not
// one byte of them has left.
type upstream struct {
	transport *http.Transport
	sent      atomic.Int64 // requests
}

func newUpstream() *upstream {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	var h1 http.Protocols
	h1.SetHTTP1(true) // HTTP/2 repeats requests by rules of its own
	return &upstream{transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countingConn{Conn: conn}, nil
		},
		Protocols:           &h1,
		DisableCompression:  true, // what the client accepts is between it and the origin
		MaxIdleConnsPerHost: 512,
		// Shorter than origins keep theirs: the less often a request meets a connection that is just being closed.
		IdleConnTimeout: 2 * time.Second,
	}}
}

// RoundTrip implements http.RoundTripper.
func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	u.sent.Add(1)
	req, empty := once(req)
	for {
		var conn *countingConn
		var before traffic
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			if conn = counted(info.Conn); conn != nil {
				before, reused = conn.traffic(), info.Reused
				conn.kept.Store(reused)
			}
		}}
		resp, err := u.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		// A kept connection that broke under the request is no reason to fail, if nothing of the request was written.
		// It does not happen twice on one connection, so there is an end to it.
		if err == nil || !empty || !reused || req.Context().Err() != nil || conn.traffic() != before {
			return resp, err
		}
	}
}

// once returns the request in a form that http.Transport never repeats, and whether it has no body.
//
// The transport repeats GET, HEAD, OPTIONS and TRACE, and whatever has an Idempotency-Key, if the body is nil, http.NoBody or
// can be had again. A body that is empty without being http.NoBody, and the name of the field in another case
// (names are case-insensitive), make no difference on the wire.
func once(req *http.Request) (_ *http.Request, empty bool) {
	empty = req.Body == nil || req.Body == http.NoBody
	again := *req
	again.GetBody = nil
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := again.Header[name]; ok {
			again.Header = again.Header.Clone()
			delete(again.Header, name)
			again.Header[lower[name]] = values
		}
	}
	if empty {
		switch req.Method {
		case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			again.Body = io.NopCloser(eof{})
			again.TransferEncoding = []string{"identity"} // neither chunks nor a Content-Length
		}
	}
	return &again, empty
}

var lower = map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// countingConn knows whether anything was written to it.
type countingConn struct {
	net.Conn
	writes, bytes atomic.Int64
	kept          atomic.Bool // it was idle, and nothing has been written since
}

// traffic is a state of a connection. Between two equal ones nothing was written, and nothing is being written.
type traffic struct{ writes, bytes int64 }

func (c *countingConn) Write(p []byte) (int, error) {
	if c.kept.Swap(false) && hungUp(c.Conn) {
		return 0, net.ErrClosed // nothing has been written: see RoundTrip
	}
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	if n == 0 {
		c.writes.Add(-1) // as if it had not been tried
	}
	return n, err
}

func (c *countingConn) traffic() traffic { return traffic{c.writes.Load(), c.bytes.Load()} }

// counted finds our connection below the transport's.
func counted(conn net.Conn) *countingConn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*countingConn)
	return c
}
