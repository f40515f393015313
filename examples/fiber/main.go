// Command fiber is a shop with one slow page behind herdgate, on Fiber.
//
//	go run ./examples/fiber                          # inside one process, without Redis
//	go run ./examples/fiber -redis localhost:6379    # for a fleet of them
//	curl -i http://127.0.0.1:8080/products/7         # look at Cache-Status
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/fibermw"
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

	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(recover.New()) // Fiber itself does not survive a panic
	// The one line. However many ask for a product at once, one request computes it.
	app.Get("/products/:id", fibermw.Cache(gate, core.FreshFor(10*time.Second), core.Public()), product)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- app.Listen(listen) }()
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
	return errors.Join(app.ShutdownWithContext(ctx), gate.Close(ctx))
}

// product is a page that takes its time.
func product(c *fiber.Ctx) error {
	time.Sleep(time.Second) // the database
	return c.SendString(fmt.Sprintf("product %s, computed at %s\n", c.Params("id"), time.Now().Format(time.TimeOnly)))
}
