package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// version is the newest one in the npm registry. The repository has more tests under the same number.
const version = "0.4.5"

//go:embed report.mjs
var reportScript []byte

// suite is where the parts of the suite are.
type suite struct {
	dir                            string
	server, client, tests, verdict string
}

// result is what became of one test.
type result struct {
	Suite, ID, Name, Kind string
	Verdict, Message      string
	Passed                bool
}

// findSuite returns the suite in a directory, or, if that is empty, the one from the registry, installed once into the
// user's cache directory.
func findSuite(ctx context.Context, dir string) (*suite, error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("no %s in PATH: install Node.js 20 or newer (apt-get install nodejs npm)", tool)
		}
	}
	if dir == "" {
		var err error
		if dir, err = install(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range []suite{
		{dir: dir, server: "test-engine/server/server.mjs", client: "test-engine/cli.mjs", verdict: "test-engine/lib/results.mjs"},
		{dir: dir, server: "server/server.mjs", client: "cli.mjs", verdict: "lib/display.mjs"}, // as in the registry
	} {
		s.tests = "tests/index.mjs"
		if _, err := os.Stat(filepath.Join(dir, s.client)); err == nil {
			return &s, nil
		}
	}
	return nil, fmt.Errorf("%s: not a checkout of github.com/http-tests/cache-tests", dir)
}

func install(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	prefix := filepath.Join(cache, "herdgate", "http-cache-tests-"+version)
	dir := filepath.Join(prefix, "node_modules", "http-cache-tests")
	done := filepath.Join(prefix, "installed") // a torn installation is installed again
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	fmt.Println("installing http-cache-tests", version, "into", prefix)
	if err := os.MkdirAll(prefix, 0o755); err != nil { //nolint:gosec // a cache of public code
		return "", err
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--prefix", prefix, "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error", "http-cache-tests@"+version)
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install http-cache-tests@%s: %w\n%s", version, err, out)
	}
	return dir, os.WriteFile(done, nil, 0o600)
}

// node runs a module of the suite, with the settings that npm run would give it.
func (s *suite) node(ctx context.Context, module string, settings ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", "--no-warnings", filepath.Join(s.dir, module))
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "npm_package_config_id=", "npm_config_id=", "npm_config_protocol=http")
	cmd.Env = append(cmd.Env, settings...)
	return cmd
}

// run runs all tests against a proxy, and returns the suite's own verdicts.
func (s *suite) run(ctx context.Context, base, work string) ([]result, error) {
	client := s.node(ctx, s.client, "npm_config_base="+base)
	var complaints bytes.Buffer
	client.Stderr = &complaints
	out, err := client.Output()
	if err != nil {
		return nil, fmt.Errorf("the suite's client: %w\n%s", err, complaints.Bytes())
	}
	// Some tests log on stdout before the results come.
	if at := bytes.Index(out, []byte("\n{\n")); at >= 0 {
		out = out[at:]
	}
	found, script := filepath.Join(work, "results.json"), filepath.Join(work, "report.mjs")
	err = errors.Join(os.WriteFile(found, out, 0o600), os.WriteFile(script, reportScript, 0o600))
	if err != nil {
		return nil, err
	}
	report := exec.CommandContext(ctx, "node", script, filepath.Join(s.dir, s.verdict), filepath.Join(s.dir, s.tests), found)
	report.Dir = s.dir
	report.Stderr = os.Stderr
	lines, err := report.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the suite's results: %w", err)
	}
	var results []result
	for d := json.NewDecoder(bytes.NewReader(lines)); ; {
		var r result
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return results, nil
		case err != nil:
			return nil, err
		}
		results = append(results, r)
	}
}
