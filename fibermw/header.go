package fibermw

import (
	"net/http"

	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/internal/headers"
)

// snapshot copies all lines of a response header. What fasthttp makes up when it writes is left out: the
// default Content-Type, and the framing, which follows from the body.
func snapshot(h *fasthttp.ResponseHeader) http.Header {
	var own fasthttp.ResponseHeader
	h.CopyTo(&own)
	own.SetNoDefaultContentType(true)
	lines := make(http.Header)
	for key, value := range own.All() {
		name := string(key)
		lines[name] = append(lines[name], string(value))
	}
	delete(lines, "Content-Length")
	delete(lines, "Transfer-Encoding")
	return lines
}

// apply replays a difference onto h. Set is Del and Add, because fasthttp's own replaces only the first of several lines, and
// of Set-Cookie none.
//
// A Date has no effect: fasthttp writes the current time, whatever is set.
func apply(h *fasthttp.ResponseHeader, diff []headers.Field) {
	for _, f := range diff {
		switch f.Op {
		case headers.Set:
			h.Del(f.Name)
			h.Add(f.Name, f.Value)
		case headers.Add:
			h.Add(f.Name, f.Value)
		case headers.Del:
			h.Del(f.Name)
		case headers.Mute:
			h.Del(f.Name)
			if f.Name == "Content-Type" {
				h.SetNoDefaultContentType(true) // the server sets it anew for the next request
			}
		}
	}
}

func addCacheStatus(h *fasthttp.ResponseHeader, value string) {
	if value != "" {
		h.Add("Cache-Status", value)
	}
}
