package fibermw

import (
	"iter"
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

// apply replays a difference onto h.
//
// A Date has no effect: fasthttp writes the current time, whatever is set.
func apply(h *fasthttp.ResponseHeader, diff []headers.Field) {
	for _, f := range diff {
		switch f.Op {
		case headers.Set:
			// fasthttp's Set replaces only the first of several lines, and of Set-Cookie none.
			if f.Name != "Set-Cookie" && len(h.PeekAll(f.Name)) <= 1 {
				h.Set(f.Name, f.Value)
				continue
			}
			remove(h, func(name string) bool { return name == f.Name })
			h.Add(f.Name, f.Value)
		case headers.Add:
			h.Add(f.Name, f.Value)
		case headers.Del, headers.Mute:
			remove(h, func(name string) bool { return name == f.Name })
			if f.Op == headers.Mute && f.Name == "Content-Type" {
				h.SetNoDefaultContentType(true) // the server sets it anew for the next request
			}
		}
	}
}

// remove deletes the lines whose names match. The lines of every other name stay in their order, of
// which fasthttp's Del takes no care: it moves the last line of the header to where the deleted one was.
func remove(h interface {
	All() iter.Seq2[[]byte, []byte]
	Del(name string)
	Add(name, value string)
}, matches func(name string) bool,
) {
	type line struct{ name, value string }
	var lines []line
	count := make(map[string]int)
	found := false
	for key, value := range h.All() {
		l := line{string(key), string(value)}
		lines = append(lines, l)
		count[l.name]++
		found = found || matches(l.name)
	}
	if !found {
		return
	}
	count["Connection"] = min(count["Connection"], 1) // a second Add of it would replace the first, and its order has no meaning
	for name, n := range count {
		if n > 1 || matches(name) {
			h.Del(name)
		}
	}
	for _, l := range lines {
		if count[l.name] > 1 && !matches(l.name) {
			h.Add(l.name, l.value)
		}
	}
}

func addCacheStatus(h *fasthttp.ResponseHeader, value string) {
	if value != "" {
		h.Add("Cache-Status", value)
	}
}
