package nethttpmw

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/herdgate/herdgate/core"
)

// A target in absolute form is the same resource (RFC 9112 3.2.2): it goes when that is invalidated, and a write to it
// invalidates. It is another variant, because the handler sees the scheme.
func TestAbsoluteForm(t *testing.T) {
	gate, err := core.New(core.Memory(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Close(t.Context()) }()
	runs := 0
	app := Cache(gate, core.FreshFor(time.Hour))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		_, _ = fmt.Fprintf(w, "%d %s", runs, r.URL)
	}))
	send := func(method, target, want string) {
		t.Helper()
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, nil)
		r.Host = "shop.example"
		app.ServeHTTP(w, r)
		if body, _ := io.ReadAll(w.Body); string(body) != want {
			t.Errorf("%s %s: %q, want %q", method, target, body, want)
		}
	}
	all := func(from int) {
		t.Helper()
		for i, target := range []string{"/a?b", "http://shop.example/a?b", "https://shop.example/a?b"} {
			send("GET", target, fmt.Sprintf("%d %s", from+i, target))
			send("GET", target, fmt.Sprintf("%d %s", from+i, target))
		}
	}
	all(1)
	for _, target := range []string{"/a?b", "http://shop.example/a?b"} {
		if err := gate.Invalidate(t.Context(), core.Key{Host: "shop.example", Target: target}); err != nil {
			t.Fatal(err)
		}
		all(runs + 1)
	}
	send("POST", "http://shop.example/a?b", "10 http://shop.example/a?b")
	all(11)
	send("POST", "/a?b", "14 /a?b")
	all(15)
}
