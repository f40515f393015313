package herdgatetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
