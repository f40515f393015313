package capture

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// Write writes a reply to a request with the given method.
//
// Content-Length follows from the body, for HEAD too. Two cases keep what the reply's header says instead, both the
// response of a handler that was captured with a flaw and goes to its own client as it is: a Content-Length
// in it stays, so that a body which falls short of it is seen as cut off; and trailers need chunks.
//
// With Status 0, the result of a handler that wrote nothing, only the header is touched: the framework ends such
// a response in its own way (Gin: 404 and its page where no route matched).
func Write(w http.ResponseWriter, method string, reply host.Reply) {
	h := w.Header()
	values := headers.ApplyAnd(h, reply.Header, 3) // with room for the three headers below
	if reply.Age != "" {
		h["Age"] = one(values, 0, reply.Age)
	}
	switch {
	case reply.CacheStatus == "":
	case len(h["Cache-Status"]) == 0:
		h["Cache-Status"] = one(values, 1, reply.CacheStatus)
	default:
		addCacheStatus(h, reply.CacheStatus)
	}
	if reply.Status == 0 {
		return
	}
	bodiless := method == http.MethodHead || !bodyAllowed(reply.Status)
	switch {
	case headers.Get(reply.Header, "Content-Length") != "":
	case !bodyAllowed(reply.Status), hasTrailers(h),
		// The handler of a HEAD request need not have made the body whose length would be meant.
		bodiless && len(reply.Body) == 0:
		h.Del("Content-Length")
	default:
		h["Content-Length"] = one(values, 2, strconv.Itoa(len(reply.Body)))
	}
	if _, typed := h["Content-Type"]; method == http.MethodHead && !typed && h.Get("Content-Encoding") == "" && len(reply.Body) > 0 {
		h.Set("Content-Type", http.DetectContentType(reply.Body)) // what net/http does when it sees the body of a GET
	}
	w.WriteHeader(reply.Status)
	if !bodiless && len(reply.Body) > 0 {
		_, _ = w.Write(reply.Body) // the client has left: nobody is interested
	}
}

// one returns the one header value that is kept at values[i]. A later append to it moves.
func one(values []string, i int, value string) []string {
	values[i] = value
	return values[i : i+1 : i+1]
}

func hasTrailers(h http.Header) bool {
	if len(h["Trailer"]) > 0 {
		return true
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}
