package herdgatetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/herdgatetest"
	"github.com/herdgate/herdgate/nethttpmw"
)

// A service with a cached route, and what its clients get when Redis is gone, slow, and back again.
func Example() {
	backend, faults := herdgatetest.Wrap(core.Memory(64 << 20)) // core.Redis(rdb, "shop") in an integration test
	gate, err := core.New(backend)
	if err != nil {
		panic(err)
	}
	defer func() { _ = gate.Close(context.Background()) }()

	var computed atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("GET /products/{id}", nethttpmw.Cache(gate, core.FreshFor(time.Minute), core.Public())(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			computed.Add(1)
			fmt.Fprintf(w, "product %s", r.PathValue("id"))
		})))
	visit := func(path string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%d %s, computed %d times\n", w.Code, w.Body, computed.Load())
	}

	visit("/products/7")
	visit("/products/7")
	faults.Fail(true)
	visit("/products/7")
	faults.Calm()
	faults.Stall(time.Second)
	visit("/products/7")
	faults.Calm()
	visit("/products/7")

	// Output:
	// 200 product 7, computed 1 times
	// 200 product 7, computed 1 times
	// 200 product 7, computed 2 times
	// 200 product 7, computed 3 times
	// 200 product 7, computed 3 times
}

// Whatever the fault: clients get what the handler makes for their URL, or the documented 503, and in the end all is well. In a test
// of your own, t.Errorf takes the place of counting.
func ExampleFaults() {
	backend, faults := herdgatetest.Wrap(core.Memory(64 << 20))
	gate, err := core.New(backend)
	if err != nil {
		panic(err)
	}
	defer func() { _ = gate.Close(context.Background()) }()
	service := nethttpmw.Cache(gate, core.FreshFor(time.Minute), core.Public())( // your service, with all its routes
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "this is %s", r.URL.Path) }))
	visit := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}

	for i, fault := range []struct {
		name  string
		begin func()
	}{
		{"no Redis", func() { faults.Fail(true) }},
		{"a slow Redis", func() { faults.Stall(20 * time.Millisecond) }},
		{"a silent Redis", func() { faults.Stall(time.Minute) }},
		{"lost locks", func() { faults.LoseLocks(true) }},
		{"locks for everyone", func() { faults.GrantEveryone(true) }},
		{"lost announcements", func() { faults.DropAnnouncements(true) }},
		{"lost replies", func() { faults.Duplicate(true) }},
	} {
		fault.begin()
		var wrong atomic.Int64
		var clients sync.WaitGroup
		for client := range 50 {
			clients.Go(func() {
				path := fmt.Sprintf("/%d/%d", i, client%5)
				w := visit(path)
				degraded := w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != ""
				if !degraded && w.Body.String() != "this is "+path {
					wrong.Add(1)
				}
			})
		}
		clients.Wait()
		faults.Calm()
		last := fmt.Sprintf("/%d/last", i)
		visit(last)
		healed := visit(last).Header().Get("Age") != "" // a hit
		fmt.Printf("%s: %d wrong, healed %v\n", fault.name, wrong.Load(), healed)
	}

	// Output:
	// no Redis: 0 wrong, healed true
	// a slow Redis: 0 wrong, healed true
	// a silent Redis: 0 wrong, healed true
	// lost locks: 0 wrong, healed true
	// locks for everyone: 0 wrong, healed true
	// lost announcements: 0 wrong, healed true
	// lost replies: 0 wrong, healed true
}
