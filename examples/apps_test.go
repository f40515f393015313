package examples

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// Each small app runs by itself and, with -redis, on Redis: what was computed once is a hit afterwards, and it ends when it is told to.
func TestApps(t *testing.T) {
	build := []string{"build"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		build = append(build, "-race") // the dependencies have just been compiled that way
	}
	dir := t.TempDir()
	apps := []string{"gin", "echo", "fiber", "nethttp"}
	build = append(build, "-o", dir+string(filepath.Separator))
	for _, app := range apps {
		build = append(build, "./"+app)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, app := range apps {
		for name, flags := range map[string][]string{"alone": nil, "on Redis": {"-redis", redistest.Shared(t).Addr}} {
			t.Run(app+"/"+name, func(t *testing.T) { visit(t, filepath.Join(dir, app), flags...) })
		}
	}
}

func visit(t *testing.T, program string, flags ...string) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil { // the app listens there
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	app := exec.CommandContext(ctx, program, append(flags, "-listen", addr)...)
	var said strings.Builder
	app.Stderr = &said
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() (resp *http.Response, body string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/products/7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = strings.ToLower(strings.NewReplacer("/", ".", " ", ".").Replace(t.Name())) // of the key: all of them have one namespace on one Redis
		if resp, err = client.Do(req); err != nil {
			return nil, ""
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp, string(raw)
	}
	var first string
	redistest.Eventually(t, 30*time.Second, "the app answers", func() bool {
		var resp *http.Response
		resp, first = get()
		return resp != nil
	})
	resp, again := get()
	if resp == nil || resp.StatusCode != http.StatusOK || !strings.Contains(first, "7") || again != first || !strings.Contains(resp.Header.Get("Cache-Status"), "; hit") {
		t.Errorf("%q, then %q: %+v", first, again, resp)
	}
	if err := app.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := app.Wait(); err != nil {
		t.Errorf("the app ended with %v\n%s", err, said.String())
	}
}
