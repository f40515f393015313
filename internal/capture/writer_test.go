package capture

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Most of Writer is tested through the adapters, by capturetest: here is what no framework shows.

func capturing100(w http.ResponseWriter) *Writer {
	return New(Outer{Writer: w}, "GET", host.Call{Limit: 100})
}

func TestWriterConcurrentWrites(t *testing.T) {
	for _, writes := range []int{2, 20} { // within the limit and beyond
		outer := httptest.NewRecorder()
		w := capturing100(outer)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range writes {
					_, _ = io.WriteString(w, "0123456789")
				}
			})
		}
		wg.Wait()
		result := w.Close()
		body := string(result.Body)
		if result.Passed {
			body = outer.Body.String()
		}
		if want := strings.Repeat("0123456789", 4*writes); body != want {
			t.Errorf("%d writes: %d bytes, want %d", writes, len(body), len(want))
		}
	}
}

func TestWriterStrayGoroutine(t *testing.T) {
	w := capturing100(httptest.NewRecorder())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = io.WriteString(w, "x")
				w.WriteHeader(500)
				_ = w.FlushError()
			}
		}
	})
	result := w.Close()
	body := string(result.Body)
	for name, err := range map[string]error{
		"Write": second(w.Write([]byte("x"))), "WriteString": second(w.WriteString("x")), "FlushError": w.FlushError(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	close(stop)
	wg.Wait()
	if string(result.Body) != body {
		t.Errorf("the body changed after Close")
	}
	if again := w.Close(); again.Status != 0 || again.Passed {
		t.Errorf("second Close: %+v", again)
	}
}

func second[T any](_ T, err error) error { return err }

// bare is a writer that can do nothing beyond the interface, as that of http.TimeoutHandler.
type bare struct{ http.ResponseWriter }

// wraps pretends to flush and to hijack, as Gin's and Echo's writers do over anything.
type wraps struct {
	http.ResponseWriter
	http.Flusher
	http.Hijacker
}

func (w wraps) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestWriterOverOneThatCannot(t *testing.T) {
	rec := httptest.NewRecorder()
	for name, outer := range map[string]http.ResponseWriter{"bare": bare{rec}, "wrapped": wraps{ResponseWriter: bare{rec}}} {
		w := capturing100(outer)
		_, _ = io.WriteString(w, "x")
		if err := w.FlushError(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("%s: FlushError: %v", name, err)
		}
		w.Flush()
		if _, _, err := w.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("%s: Hijack: %v", name, err)
		}
		if err := w.Push("/x", nil); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("%s: Push: %v", name, err)
		}
		if result := w.Close(); result.Passed || string(result.Body) != "x" {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestWriterCommit(t *testing.T) {
	outer := httptest.NewRecorder()
	var order []string
	w := New(Outer{Writer: outer, Commit: func(send func()) {
		order = append(order, "before")
		send()
		order = append(order, "after")
	}}, "GET", host.Call{Limit: 1, Passing: func(reason string) string {
		order = append(order, reason)
		return "c"
	}})
	outer.Header().Set("X-Outer", "1")
	for range 3 {
		_, _ = io.WriteString(w, "x")
	}
	if want := []string{"too-large", "before", "after"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if !w.Passed() || outer.Body.String() != "xxx" || outer.Header().Get("Cache-Status") != "c" {
		t.Errorf("passed %v, body %q, header %v", w.Passed(), outer.Body, outer.Header())
	}
}

// hijackFails can be hijacked in principle.
type hijackFails struct {
	*httptest.ResponseRecorder
	http.Hijacker
}

func TestWriterHijackFails(t *testing.T) {
	outer := hijackFails{httptest.NewRecorder(), &discard{}}
	w := capturing100(outer)
	if _, _, err := w.Hijack(); err == nil {
		t.Fatal("hijacked")
	}
	http.Error(w, "no", http.StatusNotImplemented)
	if result := w.Close(); !result.Passed || outer.Code != http.StatusNotImplemented || outer.Body.String() != "no\n" || outer.Header().Get("Content-Type") == "" {
		t.Errorf("%+v: %d %q %v", result, outer.Code, outer.Body, outer.Header())
	}
}

func TestWriterTrailerNotAnnounced(t *testing.T) {
	w := capturing100(httptest.NewRecorder())
	_, _ = io.WriteString(w, "x")
	w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	if result := w.Close(); result.Flaw != "trailer" || result.After[http.TrailerPrefix+"X-Sum"] == nil {
		t.Errorf("%+v", result)
	}
}

func TestWriterInformational(t *testing.T) {
	outer := httptest.NewRecorder()
	w := capturing100(outer) // without Inform
	w.WriteHeader(103)
	w.WriteHeader(404)
	if result := w.Close(); result.Status != 404 || len(outer.Header()) > 0 {
		t.Errorf("%+v, outer header %v", result, outer.Header())
	}
}

func TestWriterInvalidStatus(t *testing.T) {
	w := capturing100(httptest.NewRecorder())
	defer func() {
		if p := recover(); p != "invalid WriteHeader code 1000" {
			t.Errorf("recovered %v", p)
		}
		if w.Started() {
			t.Error("started")
		}
	}()
	w.WriteHeader(1000)
}

func TestWriterOuterHeaderUntouched(t *testing.T) {
	outer := httptest.NewRecorder()
	outer.Header().Set("Vary", "Origin")
	w := capturing100(outer)
	w.Header().Add("Vary", "Accept")
	w.Header().Set("X-Handler", "1")
	w.WriteHeader(200)
	result := w.Close()
	if h := outer.Header(); len(h) != 1 || len(h["Vary"]) != 1 {
		t.Errorf("outer header %v", h)
	}
	outer.Header().Set("X-Outer", "1")
	w.Header().Set("X-Late", "1")
	if len(result.Before) != 1 || len(result.After) != 2 {
		t.Errorf("before %v, after %v", result.Before, result.After)
	}
}

func BenchmarkWriter(b *testing.B) {
	outer := httptest.NewRecorder()
	outer.Header().Set("Vary", "Origin")
	body := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		w := New(Outer{Writer: outer}, "GET", host.Call{Limit: 1 << 20})
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(body)
		w.Close()
	}
}
