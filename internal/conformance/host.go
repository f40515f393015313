package conformance

import (
	"context"
	"net"

	"github.com/herdgate/herdgate/core"
)

// A Host is one framework with its adapter.
type Host struct {
	Name string
	// Cannot says what the framework cannot do, with the reason.
	Cannot map[Capability]string
	// Serve serves the app on the listener, until stop is called. stop returns when nothing of it runs any more.
	Serve func(app *App, ln net.Listener) (stop func())
	// Cluster: the cases marked for it run on a Redis Cluster, too.
	Cluster bool
}

// A Capability is something that not every framework can do.
type Capability string

// The capabilities.
const (
	HeadLeads     Capability = "HEAD is routed to the handler of GET"
	SeesLeave     Capability = "the request's context ends when the client leaves"
	ReturnsError  Capability = "a handler returns an error and the application makes the response"
	RecordsError  Capability = "a handler records an error beside the response that it writes"
	Background    Capability = "a copy of a request can be sent through the application"
	Hijacks       Capability = "a handler can take the connection over"
	Aborts        Capability = "http.ErrAbortHandler cuts the connection"
	Goexits       Capability = "a handler may end its goroutine"
	Informs       Capability = "1xx responses before the final one"
	Trailers      Capability = "trailers"
	HTTP2         Capability = "HTTP/2"
	Commits       Capability = "the header is final at the first byte of the body"
	OwnLength     Capability = "a Content-Length of the handler's own"
	OwnDate       Capability = "a Date of the handler's own"
	InlineStreams Capability = "a handler that streams runs while it does"
)

// An App is what a host builds: routes for GET and all other methods on every path, outer middleware, the
// framework's own recovery outside of that, and the handler behind Cache.
type App struct {
	Gate    *core.Gate
	Options []core.RouteOption // without KeyBy and SkipIf
	KeyBy   string             // KeyBy returns this request header; "": no KeyBy
	SkipIf  string             // SkipIf is whether this request header is there; "": no SkipIf
	Caches  int                // how many Caches are around the handler

	Handle func(Call) error         // the handler
	Before func(Call) bool          // outer middleware, before the rest of the chain; false: it has answered, and the rest does not run
	After  func(Call, core.Outcome) // and after it, whatever happens
}

// Call is one call of the handler, or of outer middleware, as its framework shows it.
type Call interface {
	Context() context.Context
	Method() string
	Target() string // current path and query, escaped
	Values(name string) []string

	Set(name, value string)
	Add(name, value string)
	Del(name string)
	Status(code int)
	Write(p []byte)
	// Stream writes the rest of the response. Where a framework streams only after the handler has returned, run runs then.
	Stream(run func(StreamWriter))
	// Inform sends a 1xx response with the header set so far.
	Inform(code int)
	// Hijack takes the connection over; nothing was written.
	Hijack(run func(net.Conn)) error
	// Fail returns an error from which the application makes a response with this status; nil where the
	// framework knows no such thing.
	Fail(code int) error
	// Record notes an error beside the response; where the framework knows no such thing it does nothing.
	Record(err error)
	// Rewrite changes the path for all that follow.
	Rewrite(path string)
}

// StreamWriter is a response that is sent as it is made.
type StreamWriter interface {
	Write(p []byte) (int, error)
	Flush() error
}
