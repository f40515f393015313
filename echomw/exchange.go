package echomw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/host"
)

// exchange implements host.Exchange.
type exchange struct {
	capture.Request
	c    echo.Context
	next echo.HandlerFunc
	err  error // for the middleware outside
}

func (x *exchange) Native() any { return x.c }

func (x *exchange) SetContext(ctx context.Context) { *x.HTTP = *x.HTTP.WithContext(ctx) }

// HeadIsGet is never certain: Echo routes HEAD apart, to a handler that may be another one.
func (x *exchange) HeadIsGet() bool { return false }

func (x *exchange) Run(call host.Call) host.Result {
	c, outer := x.c, x.c.Response()
	inner := x.For(call)
	if inner != x.HTTP {
		c.SetRequest(inner)
		defer c.SetRequest(x.HTTP)
	}
	if call.Limit == 0 {
		capture.Straight(outer.Header(), call)
		x.err = x.watched(call)
		return host.Result{Passed: true}
	}

	w := capture.New(capture.Outer{Writer: outer, Inform: outer.Writer, Commit: x.outside(outer)}, inner.Method, call)
	// A Response of its own, not only another Writer: the hooks of outer middleware hang on the outer
	// Response and run when that one is written, once.
	response := echo.NewResponse(w, c.Echo())
	response.Status = outer.Status
	c.SetResponse(response)
	defer c.SetResponse(outer)
	defer w.Close()

	err := x.next(c)
	if w.Passed() {
		x.err = err
		return w.Close()
	}
	became := true
	if err != nil {
		became = !w.Started()
		c.Echo().HTTPErrorHandler(err, c)
		became = became && w.Started()
	}
	result := w.Close()
	result.Err = err
	if !result.Passed && !became {
		result.Flaw = "error"
	}
	return result
}

// watched runs the handler on the native response and tells about its head. The response to an error comes later.
func (x *exchange) watched(call host.Call) error {
	outer := x.c.Response()
	native := outer.Writer
	watching, written := capture.Watch(native, call)
	outer.Writer = watching
	defer func() { outer.Writer = native }()
	err := x.next(x.c)
	switch {
	case err == nil:
		written()
	case call.Head != nil && !outer.Committed:
		outer.Before(func() { call.Head(outer.Status, outer.Header()) })
	}
	return err
}

// outside returns a function that puts the outer response and request back for the time of a call: outer hooks that
// run in it ask the context for them.
func (x *exchange) outside(outer *echo.Response) func(call func()) {
	return func(call func()) {
		response, request := x.c.Response(), x.c.Request()
		x.c.SetResponse(outer)
		x.c.SetRequest(x.HTTP)
		call()
		x.c.SetResponse(response)
		x.c.SetRequest(request)
	}
}

func (x *exchange) Reply(reply host.Reply) { capture.Write(x.c.Response(), x.Method(), reply) }

// Freeze sends the copy through the server's handler, of which Echo may be only a part; without a server, through Echo.
func (x *exchange) Freeze() func(ctx context.Context) {
	var app http.Handler = x.c.Echo()
	if server := x.Server(); server != nil {
		app = server
	}
	return x.Request.Freeze(app)
}
