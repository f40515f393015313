package fibermw

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp keeps one clock for all servers of the process, for the Date header.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// A stopped server's pool notices at its next round, up to 10 s later.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		// Compression has workers, and a file server a cleaner, as long as the process lives.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp/stackless.funcWorker"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*inMemoryCacheManager).handleCleanCache"),
	)
}

// newApp makes an application that says nothing when it starts.
func newApp(configs ...fiber.Config) *fiber.App {
	cfg := fiber.Config{DisableStartupMessage: true}
	if len(configs) > 0 {
		cfg = configs[0]
		cfg.DisableStartupMessage = true
	}
	return fiber.New(cfg)
}

// capturing is a call as the gate makes it for a winner.
func capturing() host.Call { return host.Call{Method: http.MethodGet, Limit: 1 << 20} }

// replyOf is the response that the gate makes of a captured one.
func replyOf(res host.Result) host.Reply {
	return host.Reply{
		Status: res.Status,
		Header: headers.Strip(headers.Diff(res.Before, res.After), res.After),
		Body:   res.Body,
	}
}

// answering is a middleware that captures and answers, and keeps the results.
func answering(results *[]host.Result) host.Middleware {
	return func(x host.Exchange) {
		res := x.Run(capturing())
		*results = append(*results, res)
		if !res.Passed {
			x.Reply(replyOf(res))
		}
	}
}

// looking is a middleware that runs look and then the handler without capture.
func looking(look func(x host.Exchange)) host.Middleware {
	return func(x host.Exchange) {
		look(x)
		x.Run(host.Call{})
	}
}

// ask sends a request through app and returns the response with its body.
func ask(t *testing.T, app *fiber.App, method, target string, fields ...string) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := app.Test(req, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// listen serves app on a real connection and returns its address.
func listen(t *testing.T, app *fiber.App) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, app, ln)
	return ln.Addr().String()
}

// serve serves app on ln until the test ends.
func serve(t *testing.T, app *fiber.App, ln net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- app.Listener(ln) }()
	t.Cleanup(func() {
		if err := app.ShutdownWithTimeout(5 * time.Second); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// certificate is that of package httptest: for example.com and 127.0.0.1, its own authority.
var certificate = sync.OnceValue(func() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
})

// exchangeRaw sends a request as written and returns the response as written, up to the end of the connection.
func exchangeRaw(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// get is a raw request that closes its connection.
func get(method, target string, lines ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

// normal sorts the header lines of a raw response and leaves out what differs between two that are equal: the order of
// fields is without meaning (RFC 9110 5.3).
func normal(t *testing.T, raw string) string {
	t.Helper()
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		t.Fatalf("no response: %q", raw)
	}
	lines := strings.Split(head, "\r\n")
	kept := slices.DeleteFunc(lines[1:], func(l string) bool { return strings.HasPrefix(l, "Date: ") })
	slices.Sort(kept)
	return lines[0] + "\n" + strings.Join(kept, "\n") + "\n\n" + body
}

// readResponse reads one response of a connection that stays open.
func readResponse(t *testing.T, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

type contextKey string

func with(ctx context.Context, key, value string) context.Context {
	return context.WithValue(ctx, contextKey(key), value)
}

func value(ctx context.Context, key string) string {
	v, _ := ctx.Value(contextKey(key)).(string)
	return v
}

var errTeapot = errors.New("teapot")

// serveOnce serves one raw request without a network.
func serveOnce(tb testing.TB, app *fiber.App, request string) {
	tb.Helper()
	app.Handler()
	client, server := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.WriteString(client, request) })
	wg.Go(func() { _, _ = io.Copy(io.Discard, client) })
	if err := app.Server().ServeConn(server); err != nil {
		tb.Fatal(err)
	}
	_ = server.Close()
	wg.Wait()
}
