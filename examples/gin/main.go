// Command gin is a shop with one slow page behind herdgate, on Gin.
//
//	go run ./examples/gin                          # inside one process, without Redis
//	go run ./examples/gin -redis localhost:6379    # for a fleet of them
//	curl -i http://127.0.0.1:8080/products/7       # look at Cache-Status
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/ginmw"
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

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	// The one line. However many ask for a product at once, one request computes it.
	r.GET("/products/:id", ginmw.Cache(gate, core.FreshFor(10*time.Second), core.Public()), product)

	// An http.Server of one's own instead of r.Run, which cannot be shut down.
	server := &http.Server{Addr: listen, Handler: r, ReadHeaderTimeout: 10 * time.Second}
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
func product(c *gin.Context) {
	time.Sleep(time.Second) // the database
	c.String(http.StatusOK, "product %s, computed at %s\n", c.Param("id"), time.Now().Format(time.TimeOnly))
}
