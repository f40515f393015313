package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
	"github.com/herdgate/herdgate/nethttpmw"
)

// childEnv makes this test binary a process of the service. Its value is a setup in JSON.
const childEnv = "HERDGATE_FLEET_CHILD"

// setup is what a process of the service is told.
type setup struct {
	Redis     string
	Namespace string
	Origin    string // base URL of what the handler asks
	Lock      time.Duration
	Wait      time.Duration
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(childEnv); raw != "" {
		if err := serve(raw); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(redistest.Main(m))
}

// serve is the service: a handler that asks the origin, behind Cache. It ends with its stdin, so
// that none outlives the test, or on SIGTERM, as a service does.
func serve(raw string) error {
	var s setup
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()

	rdb := redis.NewClient(&redis.Options{Addr: s.Redis})
	gate, err := core.New(core.Redis(rdb, s.Namespace))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	cache := nethttpmw.Cache(gate, core.FreshFor(time.Minute), core.LockFor(s.Lock), core.WaitFor(s.Wait))
	mux.Handle("GET /", cache(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := fetch(r.Context(), s.Origin+r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, body)
	})))

	admin := http.NewServeMux()
	admin.HandleFunc("POST /invalidate", func(w http.ResponseWriter, r *http.Request) {
		if err := gate.Invalidate(r.Context(), core.Key{Host: "service", Target: r.FormValue("path")}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	admin.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(gate.Stats())
	})

	servers := []*http.Server{{Handler: mux, ReadHeaderTimeout: time.Minute}, {Handler: admin, ReadHeaderTimeout: time.Minute}}
	for _, server := range servers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		go func() { _ = server.Serve(ln) }()
	}

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, server := range servers {
		if err := server.Shutdown(ctx); err != nil {
			return err
		}
	}
	if err := gate.Close(ctx); err != nil {
		return err
	}
	return rdb.Close()
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
