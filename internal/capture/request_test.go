package capture

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

func TestHasBody(t *testing.T) {
	for _, tt := range []struct {
		name     string
		length   int64
		encoding []string
		body     io.ReadCloser
		want     bool
	}{
		{"none", 0, nil, http.NoBody, false},
		{"none, by a client's request", 0, nil, nil, false},
		{"length", 5, nil, io.NopCloser(strings.NewReader("abcde")), true},
		{"length, read by outer middleware", 5, nil, http.NoBody, true},
		{"chunked", -1, []string{"chunked"}, io.NopCloser(strings.NewReader("abcde")), true},
		{"unknown length (HTTP/2)", -1, nil, io.NopCloser(strings.NewReader("abcde")), true},
		{"unknown length of nothing", -1, nil, http.NoBody, false},
	} {
		r := Request{&http.Request{ContentLength: tt.length, TransferEncoding: tt.encoding, Body: tt.body}}
		if got := r.HasBody(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestRequestView(t *testing.T) {
	r := Request{httptest.NewRequest("GET", "http://other.test/a%2Fb?c=d", nil)}
	if r.Target() != "http://other.test/a%2Fb?c=d" || r.Host() != "other.test" || r.Path() != "/a%2Fb" {
		t.Errorf("absolute form: target %q, host %q, path %q", r.Target(), r.Host(), r.Path())
	}
	r.HTTP.RequestURI = ""
	if r.Target() != "/a%2Fb?c=d" {
		t.Errorf("without RequestURI: %q", r.Target())
	}
	if r.HTTP.TLS = (&tls.ConnectionState{}); r.ClientCertificate() {
		t.Error("a certificate by TLS alone")
	}
	if r.HTTP.TLS.PeerCertificates = []*x509.Certificate{{}}; !r.ClientCertificate() {
		t.Error("no certificate")
	}
}

func TestForChangesNothing(t *testing.T) {
	r := Request{httptest.NewRequest("GET", "/", nil)}
	if r.For(host.Call{Limit: 1, Method: "GET"}) != r.HTTP {
		t.Error("copied without need")
	}
	inner := r.For(host.Call{Set: []headers.Field{{Op: headers.Set, Name: "X", Value: "1"}}})
	if r.HTTP.Header.Get("X") != "" || inner.Header.Get("X") != "1" || inner.Context() != r.HTTP.Context() {
		t.Error("the header of the request was changed, or not that of the copy")
	}
}

func TestFreeze(t *testing.T) {
	r := Request{httptest.NewRequest("GET", "/", nil)}
	if r.Freeze(nil) != nil || r.Server() != nil {
		t.Error("a dispatcher without an application")
	}
	r.HTTP.RequestURI = "%zz"
	if r.Freeze(http.NotFoundHandler()) != nil {
		t.Error("a dispatcher for a target that is none")
	}
	r.HTTP = r.HTTP.WithContext(context.WithValue(t.Context(), http.ServerContextKey, &http.Server{}))
	if r.Server() != http.DefaultServeMux {
		t.Error("not the default mux")
	}

	r.HTTP.RequestURI = "/mnt/a?b"
	r.HTTP.Pattern = "/mnt/{x}"
	r.HTTP.SetPathValue("x", "1")
	var got *http.Request
	again := r.Freeze(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, "x")
		_, _ = w.Write([]byte("x"))
		w.WriteHeader(500)
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("hijacked nothing")
		}
	}))
	r.HTTP.Header.Set("X-Later", "1")
	again(t.Context())
	if got.Pattern != "" || got.PathValue("x") != "" || got.Header.Get("X-Later") != "" || got.URL.String() != "/mnt/a?b" {
		t.Errorf("%+v", got)
	}
}

func TestAgainContext(t *testing.T) {
	type key string
	received := context.WithValue(t.Context(), key("pooled"), new(int))
	received = context.WithValue(received, http.ServerContextKey, "server")
	ctx := again{Context: context.WithValue(t.Context(), key("own"), 1), received: received}
	if v := ctx.Value(key("pooled")); v != nil {
		t.Errorf("a value of the received request: %v", v)
	}
	if ctx.Value(key("own")) != 1 || ctx.Value(http.ServerContextKey) != "server" {
		t.Error("the caller's values, or the server's, are hidden")
	}
}

func TestDiscardCloseNotify(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := (&discard{ctx: ctx}).CloseNotify()
	select {
	case <-gone:
		t.Fatal("gone at once")
	default:
	}
	cancel()
	<-gone
}
