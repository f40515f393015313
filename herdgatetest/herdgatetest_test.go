package herdgatetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/herdgatetest"
	"github.com/herdgate/herdgate/internal/redistest"
	"github.com/herdgate/herdgate/nethttpmw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// Whatever the fault, on either backend: each response is one computation's, whole, or the documented 503; and all is well afterwards.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(*herdgatetest.Faults){
		"fail":               func(f *herdgatetest.Faults) { f.Fail(true) },
		"stall":              func(f *herdgatetest.Faults) { f.Stall(time.Second) },
		"slow":               func(f *herdgatetest.Faults) { f.Stall(10 * time.Millisecond) },
		"lose locks":         func(f *herdgatetest.Faults) { f.LoseLocks(true) },
		"grant everyone":     func(f *herdgatetest.Faults) { f.GrantEveryone(true) },
		"drop announcements": func(f *herdgatetest.Faults) { f.DropAnnouncements(true) },
		"duplicate":          func(f *herdgatetest.Faults) { f.Duplicate(true) },
	} {
		for kind, backend := range map[string]func() core.Backend{
			"memory": func() core.Backend { return core.Memory(64 << 20) },
			"redis":  func() core.Backend { return core.Redis(redistest.Shared(t).Client(), redistest.Namespace()) },
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				wrapped, faults := herdgatetest.Wrap(backend())
				gate, err := core.New(wrapped)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := gate.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				var computed atomic.Int64
				h := nethttpmw.Cache(gate, core.FreshFor(50*time.Millisecond), core.StaleFor(0), core.LockFor(100*time.Millisecond))(
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						id := fmt.Sprintf("<%s#%d>", r.URL.Path, computed.Add(1))
						<-time.After(5 * time.Millisecond)
						_, _ = io.WriteString(w, strings.Repeat(id, 50))
					}))
				visit := func(path string) *httptest.ResponseRecorder {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
					return w
				}
				hit := func() bool { return strings.Contains(visit("/well").Header().Get("Cache-Status"), "; hit") }
				redistest.Eventually(t, 10*time.Second, "a hit before", hit)
				fault(faults)
				var clients sync.WaitGroup
				for i := range 8 {
					clients.Go(func() {
						for n := range 20 {
							path := fmt.Sprintf("/%d", (i+n)%3)
							w := visit(path)
							id, _, _ := strings.Cut(w.Body.String(), ">")
							switch {
							case w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "":
							case w.Code != http.StatusOK, !strings.HasPrefix(id, "<"+path+"#"), w.Body.String() != strings.Repeat(id+">", 50):
								t.Errorf("%s: %d %.60q", path, w.Code, w.Body)
							}
						}
					})
				}
				clients.Wait()
				faults.Calm()
				redistest.Eventually(t, 10*time.Second, "a hit afterwards", hit)
			})
		}
	}
}

// Two gates on one Redis are two processes. With locks that exclude nobody both compute one key at the same time.
func TestGrantEveryoneBetweenProcesses(t *testing.T) {
	ns := redistest.Namespace()
	both := make(chan struct{}) // closed when two computations are under way
	var under atomic.Int64
	var clients sync.WaitGroup
	for range 2 {
		backend, faults := herdgatetest.Wrap(core.Redis(redistest.Shared(t).Client(), ns))
		faults.GrantEveryone(true)
		gate, err := core.New(backend)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := gate.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		h := nethttpmw.Cache(gate, core.FreshFor(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if under.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(20 * time.Second):
				t.Error("the lock excludes the other process")
			}
			_, _ = io.WriteString(w, "body")
		}))
		clients.Go(func() {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody)); w.Body.String() != "body" {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		})
	}
	clients.Wait()
}
