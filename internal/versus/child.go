package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // on the admin listener
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/herdgate/herdgate/core"
)

// childEnv holds the orders of a server process: the program starts itself again with it.
const childEnv = "HERDGATE_VERSUS_CHILD"

// orders are what a server process is told.
type orders struct {
	Contestant string
	Redis      string
	Namespace  string
	Work       time.Duration // what computing a page takes
	Fresh      time.Duration // how long herdgate takes it for fresh; 0: as long as entries live. It is stale for as long as they live
	Timed      bool          // the process keeps how long its requests took
}

// ready is its answer, one line on stdout.
type ready struct{ Addr, Admin string }

// counters are what it tells when asked.
type counters struct {
	Computations int64
	Mallocs      uint64
	CPU          time.Duration   // of the process, so far
	InUse        uint64          // heap and stacks, in bytes; after a collection
	Gate         core.Stats      // of herdgate
	Took         []time.Duration // in the handler, of all requests since it was last asked for; if the process keeps that
}

func serve(raw string) error {
	var o orders
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	var computations atomic.Int64
	pages := func(_ context.Context, path string) []byte {
		computations.Add(1)
		time.Sleep(o.Work)
		return page(path)
	}
	for _, c := range contestants() {
		if c.name() != o.Contestant {
			continue
		}
		if o.Timed {
			stopwatch = &times{}
		}
		app, err := c.open(environment{redis: o.Redis, namespace: o.Namespace, fresh: cmp.Or(o.Fresh, entriesLive), pages: pages})
		if err != nil {
			return err
		}
		return listen(app, &computations)
	}
	return fmt.Errorf("no contestant %q", o.Contestant)
}

// page computes the page behind /pages/<size>/<id>: who computed it and when that was done, and then as much as was asked for.
func page(path string) []byte {
	size, _, _ := strings.Cut(strings.TrimPrefix(path, pathPages), "/")
	n, err := strconv.Atoi(size)
	if err != nil || n < pageHead || n > 1<<20 {
		n = pageHead
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%23)
	}
	copy(b, fmt.Sprintf("%10d %20d ", os.Getpid(), time.Now().UnixNano()))
	return b
}

// pageHead is how many bytes of a page tell who computed it and when.
const pageHead = 32

func listen(app application, computations *atomic.Int64) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	http.HandleFunc("GET /counters", func(w http.ResponseWriter, r *http.Request) {
		c := counters{Computations: computations.Load(), CPU: cpu()}
		if r.URL.Query().Has("collect") {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.Mallocs, c.InUse = m.Mallocs, m.HeapAlloc+m.StackInuse
		if stopwatch != nil && r.URL.Query().Has("took") {
			c.Took = stopwatch.take()
		}
		if g := opened.Load(); g != nil {
			c.Gate = g.Stats()
		}
		_ = json.NewEncoder(w).Encode(c)
	})
	failed := make(chan error, 2)
	go func() { failed <- app(listener) }()
	go func() { failed <- http.Serve(admin, nil) }() //nolint:gosec // no timeouts: only our parent asks
	if err := json.NewEncoder(os.Stdout).Encode(ready{listener.Addr().String(), admin.Addr().String()}); err != nil {
		return err
	}
	go func() { // stdin is a pipe from the parent: it ends when the parent wants that, or is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return <-failed
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
