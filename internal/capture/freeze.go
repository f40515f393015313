package capture

import (
	"context"
	"net/http"
	"net/url"
)

// Freeze copies the request as it was received and returns a function that sends the copy through app. Nil if the
// request target cannot be parsed again.
//
// The URL is made from the request target, since what the handler sees may have been rewritten on the way
// (http.StripPrefix), and the copy takes the whole way once more.
func (r *Request) Freeze(app http.Handler) func(ctx context.Context) {
	if app == nil {
		return nil
	}
	u, err := url.ParseRequestURI(r.Target())
	if err != nil {
		return nil
	}
	received := r.HTTP.Context()
	frozen := &http.Request{
		Method:     http.MethodGet,
		URL:        u,
		Proto:      r.HTTP.Proto,
		ProtoMajor: r.HTTP.ProtoMajor,
		ProtoMinor: r.HTTP.ProtoMinor,
		Header:     r.HTTP.Header.Clone(),
		Body:       http.NoBody,
		Host:       r.HTTP.Host,
		RemoteAddr: r.HTTP.RemoteAddr,
		RequestURI: r.Target(),
		TLS:        r.HTTP.TLS,
	}
	return func(ctx context.Context) {
		ctx = again{Context: ctx, received: received}
		app.ServeHTTP(&discard{ctx: ctx, header: make(http.Header)}, frozen.WithContext(ctx))
	}
}

// Server returns the handler of the server that received the request, or nil where there is none.
func (r *Request) Server() http.Handler {
	server, _ := r.HTTP.Context().Value(http.ServerContextKey).(*http.Server)
	switch {
	case server == nil:
		return nil
	case server.Handler == nil:
		return http.DefaultServeMux
	}
	return server.Handler
}

// again is the context of a frozen request: the one given, and of the received request's values only what the server
// itself had put there. All others were set on the way to the middleware and will be set anew.
type again struct {
	context.Context
	received context.Context
}

func (c again) Value(key any) any {
	if key == http.ServerContextKey || key == http.LocalAddrContextKey {
		return c.received.Value(key)
	}
	return c.Context.Value(key)
}
