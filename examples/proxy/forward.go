package main

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
)

// forwarder passes requests on to the origin. All four frameworks use the same one; three of them through
// httputil.ReverseProxy, and Fiber, which is not made of net/http, through a bridge (fiber.go).
type forwarder struct {
	origin   *url.URL
	upstream *upstream
	fresh    bool  // -fresh is given
	limit    int64 // what fits into the cache
	reverse  *httputil.ReverseProxy
}

func newForwarder(s *settings) *forwarder {
	f := &forwarder{origin: s.upstream, upstream: newUpstream(), fresh: s.fresh > 0, limit: s.maxBody}
	if f.limit == 0 {
		f.limit = defaultMaxBody
	}
	f.reverse = &httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      f.upstream,
		ModifyResponse: f.prepare,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			report(r, err)
			http.Error(w, badGateway, http.StatusBadGateway)
		},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	return f
}

const badGateway = "The origin did not answer."

// report logs why there is no response, unless the client left.
func report(r *http.Request, err error) {
	if r.Context().Err() == nil {
		slog.Warn("proxy: no response from the origin", "error", err)
	}
}

// rewrite directs a request to the origin and changes nothing else: Host and target stay as they were received.
func (f *forwarder) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL = f.target(r.In.RequestURI, r.In.URL)
	// ReverseProxy removes these, because an origin that believes them must not be told them by strangers. This
	// proxy adds nothing to a request and takes nothing away.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok && !slices.Contains(connectionFields(r.In.Header), name) {
			r.Out.Header[name] = values
		}
	}
}

// target is the URL upstream for a request target as received.
func (f *forwarder) target(received string, parsed *url.URL) *url.URL {
	u := &url.URL{Scheme: f.origin.Scheme, Host: f.origin.Host}
	if strings.HasPrefix(received, "/") && !strings.HasPrefix(received, "//") || received == "*" {
		path, query, has := strings.Cut(received, "?")
		u.Opaque, u.RawQuery, u.ForceQuery = path, query, has // Opaque is sent as it is, where Path would be encoded anew
		return u
	}
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = parsed.Path, parsed.RawPath, parsed.RawQuery, parsed.ForceQuery
	return u
}

// prepare decides whether a response goes to the client in one piece, so that it can be stored, or as it comes.
func (f *forwarder) prepare(resp *http.Response) error {
	whole, err := f.headStart(resp)
	if err != nil {
		return err
	}
	// ReverseProxy flushes after every write if the length is -1, and looks at it for nothing else.
	if whole {
		resp.ContentLength = 0
	} else {
		resp.ContentLength = -1
	}
	return nil
}

// serve is the handler behind the gate. inform takes interim responses.
func (f *forwarder) serve(w, inform http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "This proxy makes no tunnels.", http.StatusNotImplemented)
		return
	}
	f.reverse.ServeHTTP(&sink{ResponseWriter: w, inform: inform, outer: w.Header().Clone()}, r)
}

// sink is what ReverseProxy writes to. It has no CloseNotify: by that, ReverseProxy would give up the work for
// everybody when the client leaves who happened to come first.
type sink struct {
	http.ResponseWriter
	inform  http.ResponseWriter // takes interim responses
	outer   http.Header         // what the header was before: the gate's Cache-Status, and what other middleware set
	cleared bool                // ReverseProxy clears the header after an interim response, outer included
}

// Unwrap is for http.ResponseController, which flushes and hijacks.
func (s *sink) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *sink) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		if code != http.StatusContinue { // the server has said that itself, when the body was read
			s.interim(code)
		}
		s.cleared = true
		return
	}
	h := s.Header()
	if s.cleared {
		for name, values := range s.outer {
			h[name] = append(slices.Clone(values), h[name]...)
		}
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // the origin named no type: net/http must not guess one
	}
	s.ResponseWriter.WriteHeader(code)
}

// interim writes to the writer below: Gin and Echo would take the status for the final one. What is in the
// header there belongs to the final response.
func (s *sink) interim(code int) {
	fields := make(http.Header)
	for name, values := range s.Header() {
		if !s.cleared {
			values = values[min(len(s.outer[name]), len(values)):]
		}
		if len(values) > 0 {
			fields[name] = slices.Clone(values)
		}
	}
	h := s.inform.Header()
	kept := maps.Clone(h)
	clear(h)
	maps.Copy(h, fields)
	s.inform.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
}

// hopByHop are the fields that are between two neighbours only (RFC 9110 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Proxy-Authenticate", "Proxy-Authorization"}

// endToEnd leaves only what is not between two neighbours, as ReverseProxy does.
func endToEnd(h http.Header) {
	for _, name := range append(connectionFields(h), hopByHop...) {
		h.Del(name)
	}
}

// connectionFields are the fields that the Connection field names: they go no further either.
func connectionFields(h http.Header) (names []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}
