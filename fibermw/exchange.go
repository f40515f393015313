package fibermw

import (
	"context"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/herdgate/herdgate/internal/host"
)

// exchange is one request and the response to it. It is used on the request's goroutine only, and not after it.
//
// Fiber's strings alias buffers that are reused for the next request, so every string that leaves is a copy.
type exchange struct {
	c         *fiber.Ctx
	host      string
	target    string
	asSpelled bool  // header names are kept as the client spelled them
	err       error // of a handler whose response was not captured; Fiber's ErrorHandler has not seen it
}

var _ host.Exchange = (*exchange)(nil)

func newExchange(c *fiber.Ctx) *exchange {
	h := &c.Request().Header
	host := h.Host()
	both := string(host) + string(h.RequestURI()) // one allocation for the two
	return &exchange{
		c:         c,
		host:      both[:len(host)],
		target:    both[len(host):],
		asSpelled: c.App().Server().DisableHeaderNamesNormalizing,
	}
}

// Native implements host.Exchange.
func (x *exchange) Native() any { return x.c }

// Context implements host.Exchange.
func (x *exchange) Context() context.Context { return x.c.UserContext() }

// SetContext implements host.Exchange.
func (x *exchange) SetContext(ctx context.Context) { x.c.SetUserContext(ctx) }

// Method implements host.Exchange. It is the one that Fiber routes by, which middleware outside may have overridden.
func (x *exchange) Method() string {
	switch m := x.c.Method(); m {
	case http.MethodGet:
		return http.MethodGet
	case http.MethodHead:
		return http.MethodHead
	default:
		return strings.Clone(m)
	}
}

// Host implements host.Exchange.
func (x *exchange) Host() string { return x.host }

// Target implements host.Exchange.
func (x *exchange) Target() string { return x.target }

// Values implements host.Exchange.
func (x *exchange) Values(name string) []string {
	h := &x.c.Request().Header
	var values []string
	if x.asSpelled { // clients spell "authorization" too, and fasthttp then finds nothing under the canonical name
		for key, value := range h.All() {
			if strings.EqualFold(string(key), name) {
				values = append(values, string(value))
			}
		}
		return values
	}
	lines := h.PeekAll(name)
	switch name {
	case "Cookie", "Content-Length", "Trailer": // fasthttp returns one empty line for none
		if len(lines) == 1 && len(lines[0]) == 0 {
			return nil
		}
	}
	if len(lines) == 0 {
		return nil
	}
	values = make([]string, len(lines))
	for i, line := range lines {
		values[i] = string(line)
	}
	return values
}

// HasBody implements host.Exchange. It looks at the header itself: older versions of fasthttp say that the
// Content-Length of every GET is 0.
func (x *exchange) HasBody() bool {
	h := &x.c.Request().Header
	return len(h.Peek("Transfer-Encoding")) > 0 || strings.Trim(string(h.Peek("Content-Length")), "0") != ""
}

// ClientCertificate implements host.Exchange. A connection that is said to be TLS but does not show its state counts.
func (x *exchange) ClientCertificate() bool {
	state := x.c.Context().TLSConnectionState()
	if state == nil {
		return x.c.Context().IsTLS()
	}
	return len(state.PeerCertificates) > 0
}
