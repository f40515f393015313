package capturetest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/herdgate/herdgate/internal/host"
)

// tells are handlers whose response goes straight to the client, with what Call.Head is told of it.
var tells = []struct {
	name    string
	handler http.HandlerFunc
	want    []string // "status X-Handler", as told
}{
	{"a write", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		text(w, "x")
		w.Header().Set("X-Handler", "late")
		text(w, "y")
	}, []string{"200 1"}},
	{"bytes", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, []string{"200 "}},
	{"a status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		w.WriteHeader(201)
		text(w, "x")
	}, []string{"201 1"}},
	{"a status only", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		w.WriteHeader(204)
	}, []string{"204 1"}},
	{"a status at once", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		w.WriteHeader(201)
		if now, ok := w.(interface{ WriteHeaderNow() }); ok {
			now.WriteHeaderNow()
		}
		w.Header().Set("X-Handler", "late")
	}, []string{"201 1"}},
	{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) }, []string{"409 "}},
	{"nothing", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Handler", "1") }, []string{"200 1"}},
	{"flushes", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		w.(http.Flusher).Flush()
		text(w, "x")
	}, []string{"200 1"}},
	{"flushes by a controller", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Handler", "1")
		_ = http.NewResponseController(w).Flush()
		text(w, "x")
	}, []string{"200 1"}},
	{"a hijack that fails", func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			panic("hijacked")
		}
		text(w, "x")
	}, []string{"200 "}},
	{"a panic", func(http.ResponseWriter, *http.Request) { panic("boom") }, nil},
}

// head checks that Call.Head is told about the head of the final response, once, and before any of it is written.
func (a Adapter) head(t *testing.T) {
	for _, tell := range tells {
		t.Run(tell.name, func(t *testing.T) {
			w := &wire{ResponseRecorder: httptest.NewRecorder()}
			var told []string
			serve := func(x host.Exchange) {
				x.Run(host.Call{Head: func(status int, header http.Header) {
					told = append(told, fmt.Sprintf("%d %s", status, header.Get("X-Handler")))
					if w.written {
						t.Error("told when the client has something already")
					}
				}})
			}
			a.App(serve, Outer{}, tell.handler).ServeHTTP(w, httptest.NewRequest("GET", "/p/1", nil))
			if !slices.Equal(told, tell.want) {
				t.Errorf("told %q, want %q", told, tell.want)
			}
		})
	}
}

// wire is a connection that knows when something is written to it.
type wire struct {
	*httptest.ResponseRecorder
	written bool
}

func (w *wire) WriteHeader(code int) {
	w.written = true
	w.ResponseRecorder.WriteHeader(code)
}

func (w *wire) Write(p []byte) (int, error) {
	w.written = true
	return w.ResponseRecorder.Write(p)
}

func (w *wire) WriteString(s string) (int, error) {
	w.written = true
	return w.ResponseRecorder.WriteString(s)
}

func (w *wire) Flush() {
	w.written = true
	w.ResponseRecorder.Flush()
}

// Hijack is there, because Gin takes it for granted, and does not work, as with HTTP/2.
func (w *wire) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
