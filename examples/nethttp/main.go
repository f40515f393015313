// Command nethttp is a shop with one slow page behind herdgate, on net/http.
//
//	go run ./examples/nethttp                          # inside one process, without Redis
//	go run ./examples/nethttp -redis localhost:6379    # for a fleet of them
//	curl -i http://127.0.0.1:8080/products/7           # look at Cache-Status
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/nethttpmw"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	redisAddr := flag.String("redis", "", "address of Redis; empty: keep responses in this process")
	flag.Parse()
	if err := run(*listen, *redisAddr); err != nil {
		log.Fatal(err)
	}
}

func run(listen, redisAddr string) error {
	backend := core.Memory(64 << 20)
	if redisAddr != "" {
		rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
		defer func() { _ = rdb.Close() }()
		backend = core.Redis(rdb, "shop")
	}
	gate, err := core.New(backend)
	if err != nil {
		return err
	}

	// The one line. However many ask for a product at once, one request computes it.
	cached := nethttpmw.Cache(gate, core.FreshFor(10*time.Second), core.Public())

	mux := http.NewServeMux()
	mux.Handle("GET /products/{id}", cached(http.HandlerFunc(product)))
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("http://%s/products/7", listen)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	// The server first: requests that are under way still need the gate. Then the gate, which finishes what it
	// computes and gives its locks back.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), gate.Close(ctx))
}

// product is a page that takes its time.
func product(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Second) // the database
	_, _ = fmt.Fprintf(w, "product %s, computed at %s\n", r.PathValue("id"), time.Now().Format(time.TimeOnly))
}
