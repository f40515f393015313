package nethttpmw

import (
	"context"
	"net/http"
	"strings"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/host"
)

// exchange implements host.Exchange.
type exchange struct {
	capture.Request
	w    http.ResponseWriter
	next http.Handler
}

func (x *exchange) Native() any { return x.HTTP }

// SetContext overwrites the request itself: a copy, as WithContext makes it, would be seen by the handler
// but not by middleware outside, which holds the pointer it passed on. ServeMux writes r.Pattern in the same way.
func (x *exchange) SetContext(ctx context.Context) { *x.HTTP = *x.HTTP.WithContext(ctx) }

// HeadIsGet holds where a mux matched a GET pattern, and where none has matched yet: there the
// handler is one for all methods, or a mux that will route the GET.
func (x *exchange) HeadIsGet() bool {
	return x.HTTP.Pattern == "" || strings.HasPrefix(x.HTTP.Pattern, "GET ")
}

func (x *exchange) Run(call host.Call) host.Result {
	inner := x.For(call)
	defer x.restore(inner)
	if call.Limit == 0 {
		capture.Straight(x.w.Header(), call)
		w, written := capture.Watch(x.w, call)
		x.next.ServeHTTP(w, inner)
		written()
		return host.Result{Passed: true}
	}

	w := capture.New(capture.Outer{Writer: x.w, Inform: x.w}, inner.Method, call)
	defer w.Close()
	x.next.ServeHTTP(w, inner)
	result := w.Close()
	if !result.Passed && result.Status == 0 {
		result.Status = http.StatusOK // what net/http makes of a handler that writes nothing
	}
	return result
}

// restore gives the request back what the handler's copy differs in by order of the gate, and keeps everything else:
// the pattern and path values of a mux further inside, a parsed form. Without a copy it would be there too.
func (x *exchange) restore(inner *http.Request) {
	if inner == x.HTTP {
		return
	}
	method, header := x.HTTP.Method, x.HTTP.Header
	*x.HTTP = *inner.WithContext(x.Context())
	x.HTTP.Method, x.HTTP.Header = method, header
}

func (x *exchange) Reply(reply host.Reply) { capture.Write(x.w, x.Method(), reply) }

func (x *exchange) Freeze() func(ctx context.Context) { return x.Request.Freeze(x.Server()) }
