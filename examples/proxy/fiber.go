package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/valyala/fasthttp"
)

// serveFast is the bridge between fasthttp and the forwarder. ctx is what the gate lets the work depend on.
//
// fasthttp's own limits remain: it sends no interim responses, and a Date of its own.
func (f *forwarder) serveFast(ctx context.Context, c *fasthttp.RequestCtx) {
	out := &c.Response
	if string(c.Method()) == http.MethodConnect {
		out.SetStatusCode(http.StatusNotImplemented)
		out.SetBodyString("This proxy makes no tunnels.\n")
		return
	}
	req := f.fastRequest(ctx, c)
	resp, err := f.upstream.RoundTrip(req)
	whole := false
	if err == nil {
		resp.Request = req
		if whole, err = f.headStart(resp); err != nil {
			_ = resp.Body.Close() // it has failed already
		}
	}
	if err != nil {
		report(req, err)
		out.SetStatusCode(http.StatusBadGateway)
		out.Header.SetContentType("text/plain; charset=utf-8")
		out.SetBodyString(badGateway + "\n")
		return
	}

	endToEnd(resp.Header)
	out.SetStatusCode(resp.StatusCode)
	out.Header.SetNoDefaultContentType(true)
	for name, values := range resp.Header {
		for _, value := range values {
			if name != "Content-Length" {
				out.Header.Add(name, value)
			}
		}
	}
	if req.Method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		_ = resp.Body.Close() // there is none
		out.SkipBody = true
		if length, err := strconv.Atoi(resp.Header.Get("Content-Length")); err == nil {
			out.Header.SetContentLength(length)
		} else if req.Method == http.MethodHead {
			out.Header.SetContentLength(-1) // unknown
		}
		return
	}
	if !whole || resp.ContentLength > f.limit {
		size := -1
		if resp.ContentLength >= 0 {
			size = int(resp.ContentLength)
		}
		out.ImmediateHeaderFlush = true
		out.SetBodyStream(resp.Body, size) // fasthttp closes it
		return
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		report(req, err)
		out.Reset()
		out.SetStatusCode(http.StatusBadGateway)
		out.SetBodyString(badGateway + "\n")
		return
	}
	out.SetBodyRaw(body)
}

// fastRequest makes the request upstream. Nothing in it belongs to fasthttp, which uses its buffers for the
// next request as soon as this one is answered, while the transport may still be sending the body.
func (f *forwarder) fastRequest(ctx context.Context, c *fasthttp.RequestCtx) *http.Request {
	in := &c.Request
	header := make(http.Header)
	for key, value := range in.Header.All() {
		switch name := http.CanonicalHeaderKey(string(key)); name {
		case "Host", "Content-Length":
		default:
			header[name] = append(header[name], string(value))
		}
	}
	endToEnd(header)
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // Go's transport would send its own
	}
	req := &http.Request{
		Method: string(in.Header.Method()),
		URL:    f.target(string(in.Header.RequestURI()), fastURL(in)),
		Host:   string(in.Header.Host()),
		Header: header,
		Body:   http.NoBody,
	}
	if body := in.Body(); len(body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(bytes.Clone(body))), int64(len(body))
	}
	return req.WithContext(ctx)
}

// fastURL is the target of a request that is not just a path.
func fastURL(in *fasthttp.Request) *url.URL {
	u, err := url.ParseRequestURI(string(in.Header.RequestURI()))
	if err != nil {
		return &url.URL{Path: string(in.URI().Path()), RawQuery: string(in.URI().QueryString())}
	}
	return u
}
