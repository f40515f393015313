package fibermw

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/internal/headers"
)

// Path implements host.Exchange. It is the path as received if nothing rewrote it, without a copy.
//
// A handler can look at the URL in several ways: c.Path and the route parameters, the path of the request's URI, and
// c.Hostname, which believes X-Forwarded-Host. Wherever one of them differs from what was received, the
// difference is appended behind a NUL, which no path contains, so that two requests with different views
// never have the same Path. (The gate makes variants of one key of them, so that an invalidation of the URL finds them all.)
func (x *exchange) Path() string {
	uri := x.c.Request().URI()
	original := uri.PathOriginal()

	path := x.target[:min(len(original), len(x.target))]
	if path != string(original) {
		path = string(original)
	}
	// With UnescapePath, c.Path is the decoded path: nothing was rewritten.
	if view := x.c.Path(); view != path && view != string(fasthttp.AppendUnquotedArg(nil, original)) {
		path += "\x00" + view
	}
	received := headers.Lower(x.Host())
	if view := x.c.Hostname(); headers.Lower(view) != received {
		path += "\x00" + view
	}
	if view := string(uri.Host()); headers.Lower(view) != received {
		path += "\x00" + view
	}
	return path
}

// Query implements host.Exchange: the query as received, unless middleware outside changed the arguments that
// c.Query reads.
func (x *exchange) Query() string {
	uri := x.c.Request().URI()
	received := uri.QueryString()
	if len(received) == 0 && uri.QueryArgs().Len() == 0 {
		return ""
	}

	// The arguments are looked at in a copy: once parsed, fasthttp writes a forwarded request
	// with these, encoded anew, instead of the query as received.
	current, original := fasthttp.AcquireURI(), fasthttp.AcquireArgs()
	defer fasthttp.ReleaseURI(current)
	defer fasthttp.ReleaseArgs(original)
	uri.CopyTo(current)
	original.ParseBytes(received)
	if args := current.QueryArgs().QueryString(); !bytes.Equal(args, original.QueryString()) {
		return string(args)
	}

	query := x.target[max(len(x.target)-len(received), 0):]
	if query != string(received) {
		query = string(received)
	}
	return query
}
