package fibermw

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// userContextKey is where Fiber keeps the context of c.UserContext. It is not exported there; a test holds it.
const userContextKey = "__local_user_context__"

// resumeKey marks the context of a frozen request, and is where the request carries it.
type resumeKey struct{}

// Freeze implements host.Exchange. The copy is of the request as received and goes to the application's handler as from
// the server, on the same addresses and with the same TLS state, which c.Protocol, c.BaseURL and c.IP look at.
//
// App.Handler would take a lock that Shutdown holds while it waits for requests; the handler of App.Server needs none.
func (x *exchange) Freeze() func(ctx context.Context) {
	app := x.c.App()
	handle := app.Server().Handler
	if handle == nil {
		return nil
	}
	frozen := &fasthttp.Request{}
	x.c.Request().CopyTo(frozen)
	frozen.ResetBody()
	frozen.Header.SetMethod(http.MethodGet)
	frozen.Header.Del(fiber.HeaderContentLength)
	frozen.Header.Del(fiber.HeaderTransferEncoding)
	frozen.Header.Del(fiber.HeaderExpect)
	frozen.SetRequestURI(x.target) // parsed anew, without what middleware has rewritten

	from := x.c.Context()
	var conn net.Conn = frozenConn{local: from.LocalAddr(), remote: from.RemoteAddr()}
	if state := from.TLSConnectionState(); state != nil {
		conn = frozenTLSConn{Conn: conn, state: *state}
	}

	logger := app.Server().Logger
	if logger == nil {
		logger = log.Default()
	}
	return func(ctx context.Context) {
		c := &fasthttp.RequestCtx{}
		c.Init2(conn, logger, true)
		frozen.CopyTo(&c.Request)
		serverDefaults(app, &c.Response.Header)
		ctx = context.WithValue(ctx, resumeKey{}, true)
		c.SetUserValue(userContextKey, ctx)
		c.SetUserValue(resumeKey{}, ctx)
		defer func() {
			if c.LastTimeoutErrorResponse() == nil { // else the handler's goroutine still uses c
				c.Response.ResetBody() // ends a stream that nobody reads
				c.ResetUserValues()
			}
		}()
		handle(c)
	}
}

// serverDefaults prepares a response header as the server does, so that what a frozen request stores is what a received one would.
func serverDefaults(app *fiber.App, h *fasthttp.ResponseHeader) {
	cfg := app.Config()
	h.SetNoDefaultContentType(cfg.DisableDefaultContentType)
	if cfg.DisableHeaderNormalizing {
		h.DisableNormalizing()
	}
	if cfg.ServerHeader != "" {
		h.SetServer(cfg.ServerHeader)
	}
}

// resume makes sure that a frozen request is known as one when it arrives at the middleware, even if
// middleware outside has replaced its context by one that does not descend from it.
func resume(c *fiber.Ctx) {
	frozen, ok := c.Context().UserValue(resumeKey{}).(context.Context)
	if !ok || c.UserContext().Value(resumeKey{}) != nil {
		return
	}
	c.SetUserContext(resumed{Context: c.UserContext(), frozen: frozen})
}

// resumed is the context that middleware outside made, with the values of the frozen request below its own.
type resumed struct {
	context.Context
	frozen context.Context
}

func (r resumed) Value(key any) any {
	if v := r.Context.Value(key); v != nil {
		return v
	}
	return r.frozen.Value(key)
}

// frozenConn is the connection of a request that no client waits for.
type frozenConn struct{ local, remote net.Addr }

func (frozenConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (frozenConn) Write(p []byte) (int, error)      { return len(p), nil }
func (frozenConn) Close() error                     { return nil }
func (c frozenConn) LocalAddr() net.Addr            { return c.local }
func (c frozenConn) RemoteAddr() net.Addr           { return c.remote }
func (frozenConn) SetDeadline(time.Time) error      { return nil }
func (frozenConn) SetReadDeadline(time.Time) error  { return nil }
func (frozenConn) SetWriteDeadline(time.Time) error { return nil }

// frozenTLSConn has the methods by which fasthttp knows TLS.
type frozenTLSConn struct {
	net.Conn
	state tls.ConnectionState
}

func (frozenTLSConn) Handshake() error                       { return nil }
func (c frozenTLSConn) ConnectionState() tls.ConnectionState { return c.state }
