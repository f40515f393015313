package capture

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/herdgate/herdgate/internal/host"
)

// watched runs a handler behind Watch on a server and returns what was told.
func watched(t *testing.T, handler http.HandlerFunc) (told []string) {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		to, written := Watch(w, host.Call{Head: func(status int, header http.Header) {
			told = append(told, fmt.Sprintf("%d %s", status, header.Get("Link")))
		}})
		handler(to, r)
		written()
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	<-done
	return told
}

// What the adapters' scenarios cannot show in every framework: interim responses, and a connection that is taken over.
func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    []string
	}{
		{"103 and then nothing", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Link", "<b>")
		}, []string{"200 <b>"}},
		{"103 and then 409", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusConflict)
		}, []string{"409 "}},
		{"101", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			hangUp(w)
		}, []string{"101 "}},
		{"a hijack", func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, nil},
		{"a controller reaches the connection", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				panic(err)
			}
		}, []string{"200 "}},
	} {
		if told := watched(t, tt.handler); !slices.Equal(told, tt.want) {
			t.Errorf("%s: told %q, want %q", tt.name, told, tt.want)
		}
	}
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

func TestWatchWithoutHead(t *testing.T) {
	w := httptest.NewRecorder()
	if to, written := Watch(w, host.Call{}); to != http.ResponseWriter(w) {
		t.Error("the writer is another one")
	} else {
		written()
	}
}
