// Package host is the seam between the gate and a web framework: what the gate
// asks of one request, and the three things it does with it (run the handler,
// write a response, send the request through the application once more).
//
// An adapter implements Exchange and holds no policy: it does not decide what is
// cached, shared, stripped or hidden. Every string that an Exchange returns must stay valid after the
// request has ended (Fiber's own strings do not: copy them).
package host

import (
	"context"
	"net/http"

	"github.com/herdgate/herdgate/internal/headers"
)

// Middleware is what core.Gate.Mount returns to an adapter: it serves one request from
// start to end, on the goroutine that calls it.
type Middleware func(x Exchange)

// Exchange is one request and the response to it.
type Exchange interface {
	// Native is the framework's own context: *http.Request, *gin.Context, echo.Context, *fiber.Ctx.
	Native() any

	// Context is the request's own context, done when the client leaves (never, on Fiber).
	Context() context.Context
	// SetContext replaces the request's context for everybody who looks at the
	// native request from now on, outer middleware that looks after the call included.
	SetContext(ctx context.Context)

	Method() string
	Host() string   // the Host header or :authority, as received
	Target() string // the request target as received, such as "/a%2Fb?c=d"
	Path() string   // the current path in escaped form, after rewrites (StripPrefix)
	Query() string  // the current raw query, without "?"
	// Values returns the lines of a request header; the name is canonical ("Accept-Encoding").
	// The caller does not modify them.
	Values(name string) []string
	HasBody() bool           // a body was announced by length or transfer coding
	ClientCertificate() bool // a TLS client certificate was presented
	HeadIsGet() bool         // the handler behind a HEAD request is certainly the one that serves GET

	// Run calls the handler behind the middleware on this goroutine, and returns when it has returned.
	// Panics and Goexit go through it; it restores what it replaced on the way (defer).
	Run(call Call) Result

	// Reply writes a whole response and ends the chain: the handler does not run after it.
	Reply(reply Reply)

	// Freeze copies the request and returns a function that sends the copy through the whole application once
	// more, as a GET with the given context, its response thrown away. It recovers nothing. The context must not descend from
	// the request's: that ends with its client, and its values are recycled with the framework's own context.
	// It returns nil where the framework gives no way to do that.
	Freeze() func(ctx context.Context)
}

// Call says how the handler is to be run.
type Call struct {
	Context context.Context // for the handler; nil: the request's own
	Method  string          // for the handler; "": as received
	Drop    []string        // request headers hidden from the handler, canonical names
	Set     []headers.Field // request headers replaced for the handler (after Drop), such as validators or a reduced Cookie

	// Limit is how many bytes of body are captured at most. With 0 nothing is captured: the response goes
	// to the client as without the middleware, hijacking and streaming included.
	Limit int64

	// Passing is called at most once, just before the response begins to go straight to the client: at
	// once with Limit 0, else when the body outgrows Limit, is flushed or hijacked (reason "too-large",
	// "flush", "hijack", "stream"; "" with Limit 0). What it returns is the Cache-Status of the response, added to those already there.
	Passing func(reason string) (cacheStatus string)
	// Head is called at most once, with Limit 0, just before the head of the final response goes to the client. It is not
	// called if the handler panics or takes the connection over. It does not modify the header.
	Head func(status int, header http.Header)
}

// Result is what the handler did.
type Result struct {
	Passed bool        // the response went straight to the client; nothing below matters
	Status int         // 0: the handler wrote nothing and set no status
	Before http.Header // the response header as outer middleware had left it
	After  http.Header // the header that the handler left: what is judged
	Body   []byte      // owned by the caller
	// Flaw says why the captured body may not be stored: "" (none), "length" (declared Content-Length
	// differs), "trailer", "error" (the framework recorded an error that did not become a response).
	Flaw string
	// Err is the error that the handler returned, which the application's own error handler has
	// turned into the captured response (Echo, Fiber).
	Err error
}

// Reply is a response that the gate gives itself.
type Reply struct {
	Status      int
	Header      []headers.Field // applied to the header as outer middleware left it
	Body        []byte          // shared: not to be modified, not to be kept
	Age         string          // replaces that of Header; "" for none
	CacheStatus string          // added to those of Header; "" for none
}
