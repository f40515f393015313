package capture

import (
	"net/http/httptest"
	"testing"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// The rest of Write is tested through the adapters.

func TestWriteStatusZero(t *testing.T) {
	w := httptest.NewRecorder()
	Write(w, "GET", host.Reply{Header: []headers.Field{{Op: headers.Set, Name: "X", Value: "1"}}, CacheStatus: "c"})
	w.WriteHeader(404) // still open
	if w.Code != 404 || w.Header().Get("X") != "1" || w.Header().Get("Cache-Status") != "c" || w.Header().Get("Content-Length") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestWriteHeadType(t *testing.T) {
	for _, tt := range []struct {
		name  string
		field headers.Field
		want  string
	}{
		{"sniffed", headers.Field{Op: headers.Set, Name: "X", Value: "1"}, "text/html; charset=utf-8"},
		{"set", headers.Field{Op: headers.Set, Name: "Content-Type", Value: "a/b"}, "a/b"},
		{"muted", headers.Field{Op: headers.Mute, Name: "Content-Type"}, ""},
		{"encoded", headers.Field{Op: headers.Set, Name: "Content-Encoding", Value: "gzip"}, ""},
	} {
		w := httptest.NewRecorder()
		Write(w, "HEAD", host.Reply{Status: 200, Header: []headers.Field{tt.field}, Body: []byte("<html>")})
		if got := w.Header().Get("Content-Type"); got != tt.want || w.Body.Len() > 0 {
			t.Errorf("%s: Content-Type %q, body %q", tt.name, got, w.Body)
		}
	}
}

func TestWriteStaleOuterLength(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "99")
	Write(w, "GET", host.Reply{Status: 200, Body: []byte("four")})
	if got := w.Header().Get("Content-Length"); got != "4" {
		t.Errorf("Content-Length %s", got)
	}
}
