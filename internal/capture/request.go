package capture

import (
	"context"
	"net/http"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// Request is the part of host.Exchange that any framework on net/http answers alike.
type Request struct{ HTTP *http.Request }

// Context implements host.Exchange.
func (r *Request) Context() context.Context { return r.HTTP.Context() }

// Method implements host.Exchange.
func (r *Request) Method() string { return r.HTTP.Method }

// Host implements host.Exchange.
func (r *Request) Host() string { return r.HTTP.Host }

// Target implements host.Exchange. A request made without a server has no RequestURI.
func (r *Request) Target() string {
	if r.HTTP.RequestURI == "" {
		return r.HTTP.URL.RequestURI()
	}
	return r.HTTP.RequestURI
}

// Path implements host.Exchange.
func (r *Request) Path() string { return r.HTTP.URL.EscapedPath() }

// Query implements host.Exchange.
func (r *Request) Query() string { return r.HTTP.URL.RawQuery }

// Values implements host.Exchange.
func (r *Request) Values(name string) []string { return r.HTTP.Header[name] }

// HasBody implements host.Exchange. An unknown length (-1) counts unless the body is known to be none.
func (r *Request) HasBody() bool {
	if len(r.HTTP.TransferEncoding) > 0 || r.HTTP.ContentLength > 0 {
		return true
	}
	return r.HTTP.ContentLength < 0 && r.HTTP.Body != nil && r.HTTP.Body != http.NoBody
}

// ClientCertificate implements host.Exchange.
func (r *Request) ClientCertificate() bool {
	return r.HTTP.TLS != nil && len(r.HTTP.TLS.PeerCertificates) > 0
}

// For returns the request that the handler gets: the same one if the call changes nothing, else a shallow copy.
func (r *Request) For(call host.Call) *http.Request {
	changed := call.Context != nil || len(call.Drop) > 0 || len(call.Set) > 0 || call.Method != "" && call.Method != r.HTTP.Method
	if !changed {
		return r.HTTP
	}
	ctx := call.Context
	if ctx == nil {
		ctx = r.HTTP.Context()
	}
	inner := r.HTTP.WithContext(ctx)
	if call.Method != "" {
		inner.Method = call.Method
	}
	if len(call.Drop) > 0 || len(call.Set) > 0 {
		inner.Header = inner.Header.Clone()
		for _, name := range call.Drop {
			delete(inner.Header, name)
		}
		headers.Apply(inner.Header, call.Set)
	}
	return inner
}
