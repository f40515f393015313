package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Request is what a client sends.
type Request struct {
	Method string // "": GET
	Target string // on the wire as it is here
	Host   string // "": test.example
	Header []string
	Body   string
	At     int  // to which process
	Read   int  // so many bytes of the body are read, and then nothing until the client leaves; 0: all
	Cert   bool // a client certificate is presented; TLS cases
}

// idHeader numbers requests, so that outcomes find them.
const idHeader = "X-Id"

// An exchange is a request and what came of it.
type exchange struct {
	id     string
	req    Request
	cancel context.CancelFunc
	done   chan struct{} // closed when the client has everything, or has left

	mu     sync.Mutex
	status int
	proto  string
	header http.Header
	body   []byte
	infos  []int
	err    error // no response, or not all of it
}

func (x *exchange) received() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.body)
}

func (x *exchange) finished() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// client sends the requests of a case.
type client struct {
	addrs     []string
	scheme    string
	transport *http.Transport
	slow      *http.Transport // small buffers, for clients that do not read
	certified *http.Transport
}

func newClient(addrs []string, c *Case) *client {
	plain := func(edit func(*http.Transport)) *http.Transport {
		t := &http.Transport{
			DisableCompression:  true,
			MaxIdleConnsPerHost: -1, // a connection for each request, without saying "Connection: close"
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		}
		if c.KeepAlive {
			t.MaxIdleConnsPerHost = 100
		}
		if c.TLS || c.H2 {
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			t.ForceAttemptHTTP2 = c.H2
		}
		edit(t)
		return t
	}
	scheme := "http"
	if c.TLS || c.H2 {
		scheme = "https"
	}
	return &client{
		addrs:     addrs,
		scheme:    scheme,
		transport: plain(func(*http.Transport) {}),
		slow: plain(func(t *http.Transport) {
			t.ReadBufferSize = 1 << 10
			t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetReadBuffer(4 << 10)
				}
				return conn, err
			}
		}),
		certified: plain(func(t *http.Transport) {
			if t.TLSClientConfig != nil {
				t.TLSClientConfig.Certificates = []tls.Certificate{certificate()}
			}
		}),
	}
}

func (c *client) close() {
	for _, t := range []*http.Transport{c.transport, c.slow, c.certified} {
		t.CloseIdleConnections()
	}
}

// start sends a request.
func (c *client) start(id string, req Request) *exchange {
	ctx, cancel := context.WithCancel(context.Background())
	x := &exchange{id: id, req: req, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(x.done)
		c.do(ctx, x)
	}()
	return x
}

func (c *client) do(ctx context.Context, x *exchange) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.infos = append(x.infos, code)
		return nil
	}})
	transport := c.transport
	switch {
	case x.req.Read > 0:
		transport = c.slow
	case x.req.Cert:
		transport = c.certified
	}
	resp, err := transport.RoundTrip(c.request(ctx, x.id, x.req))
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.err = err
		return
	}
	defer func() { _ = resp.Body.Close() }()
	x.mu.Lock()
	x.status, x.header, x.proto = resp.StatusCode, resp.Header, resp.Proto
	x.mu.Unlock()

	body := io.Reader(resp.Body)
	if x.req.Read > 0 {
		body = io.LimitReader(body, int64(x.req.Read))
	}
	chunk := make([]byte, 64<<10)
	for {
		n, err := body.Read(chunk)
		x.mu.Lock()
		x.body = append(x.body, chunk[:n]...)
		if err != nil && !errors.Is(err, io.EOF) {
			x.err = err
		}
		x.mu.Unlock()
		if err != nil {
			break
		}
	}
	x.mu.Lock()
	for name, lines := range resp.Trailer {
		x.header["Trailer/"+name] = lines
	}
	x.mu.Unlock()
	if x.req.Read > 0 {
		<-ctx.Done()
	}
}

func (c *client) request(ctx context.Context, id string, req Request) *http.Request {
	path, query, hasQuery := strings.Cut(req.Target, "?")
	addr := c.addrs[req.At]
	r := (&http.Request{
		Method: req.Method,
		URL:    &url.URL{Scheme: c.scheme, Host: addr, Opaque: path, RawQuery: query, ForceQuery: hasQuery && query == ""},
		Host:   req.Host,
		Header: http.Header{idHeader: {id}, "User-Agent": {"conformance"}},
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if r.Host == "" {
		r.Host = "test.example"
	}
	if req.Body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(req.Body)), int64(len(req.Body))
	}
	for _, line := range req.Header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(strings.TrimSuffix(name, ":"), value)
	}
	return r
}

// raw opens a connection for what net/http's client cannot do.
func (c *client) raw(at int) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", c.addrs[at], 10*time.Second)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// certificate is what both sides of TLS cases present.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "test.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"test.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// secured is the listener of TLS cases. Clients may present a certificate.
func secured(ln net.Listener, h2 bool) net.Listener {
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate()},
		ClientAuth:   tls.RequestClientCert,
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	if h2 {
		config.NextProtos = []string{"h2"}
	}
	return tls.NewListener(ln, config)
}
