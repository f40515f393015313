// Command cachetests measures examples/proxy with the public suite for HTTP caches, http-cache-tests, in every adapter, with
// memory and with a redis-server of its own:
//
//	make conformance                           the version of the npm registry
//	make conformance SUITE=../cache-tests      a checkout of github.com/http-tests/cache-tests, after npm install there
//	go run ./internal/cachetests -adapter gin -backend memory -test vary-match
//
// It counts as the suite's own page does: a test that depends on one which failed has not passed. It fails if a
// score is below the recorded one (scores.txt), or if a required or optimal test fails on nethttp that docs/rfc9111.md does not name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	scoresFile = "internal/cachetests/scores.txt"
	matrixFile = "docs/rfc9111.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE) // leave no process behind
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cachetests", flag.ExitOnError)
	dir := flags.String("suite", "", "directory of the suite; empty: version "+version+" from the npm registry")
	adapters := flags.String("adapter", "nethttp,gin,echo,fiber", "adapters, comma separated")
	backends := flags.String("backend", "memory,redis", "backends, comma separated")
	test := flags.String("test", "", "run only the test with this id, and print what goes over the wire")
	record := flags.Bool("record", false, "write the scores to "+scoresFile)
	failures := flags.String("failures", "", "write what failed to this file")
	_ = flags.Parse(args)

	work, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	s, err := findSuite(ctx, *dir)
	if err != nil {
		return err
	}
	lab, err := newLab(ctx, s, work, strings.Contains(*backends, "redis"))
	if err != nil {
		return err
	}
	defer lab.close()

	var runs []*score
	for backend := range strings.SplitSeq(*backends, ",") {
		for adapter := range strings.SplitSeq(*adapters, ",") {
			runs = append(runs, &score{adapter: adapter, backend: backend})
		}
	}
	if *test != "" {
		for _, r := range runs {
			fmt.Printf("%s, %s\n", r.adapter, r.backend)
			if err := lab.show(ctx, r, *test); err != nil {
				return err
			}
		}
		return nil
	}

	if err := lab.measureAll(ctx, runs); err != nil {
		return err
	}
	below, err := compare(filepath.FromSlash(scoresFile), runs)
	for again := 0; again < 2 && err == nil && len(below) > 0 && !*record; again++ {
		// The tests are about seconds. Where the machine had other things to do, a second look tells.
		fmt.Println("measuring those below their recorded score once more, one by one")
		for _, r := range below {
			if err := lab.measureAll(ctx, []*score{r}); err != nil {
				return err
			}
		}
		below, err = compare(filepath.FromSlash(scoresFile), runs)
	}
	if err != nil {
		return err
	}

	fmt.Printf("\n%-8s %-7s %10s %10s %10s\n", "adapter", "backend", "required", "optimal", "checks yes")
	for _, r := range runs {
		fmt.Printf("%-8s %-7s %10s %10s %10s\n", r.adapter, r.backend, r.of("required"), r.of("optimal"), r.of("check"))
	}
	failed := listFailures(runs)
	fmt.Printf("\n%s\n", failed)
	if *failures != "" {
		if err := os.WriteFile(*failures, []byte(failed), 0o644); err != nil { //nolint:gosec // a report for others to read
			return err
		}
	}
	if *record {
		return recordScores(filepath.FromSlash(scoresFile), runs)
	}
	if len(below) > 0 {
		err = errors.New("a score is below the recorded one")
	}
	return errors.Join(err, named(filepath.FromSlash(matrixFile), runs))
}

// listFailures names every required or optimal test that failed somewhere, with the runs where it did.
func listFailures(runs []*score) string {
	type failure struct {
		result
		where []string
	}
	failures := map[string]*failure{}
	var ids []string
	for _, r := range runs {
		for _, t := range r.results {
			if t.Passed || t.Kind == "check" {
				continue
			}
			f := failures[t.ID]
			if f == nil {
				f = &failure{result: t}
				failures[t.ID] = f
				ids = append(ids, t.ID)
			}
			f.where = append(f.where, r.adapter+"/"+r.backend)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return strings.Compare(failures[b].Kind+failures[b].Suite+a, failures[a].Kind+failures[a].Suite+b) // required first
	})
	var b strings.Builder
	for _, id := range ids {
		f := failures[id]
		where := strings.Join(f.where, " ")
		if len(f.where) == len(runs) {
			where = "everywhere"
		}
		fmt.Fprintf(&b, "%-9s %s: %s\n          %s\n          %s: %s\n", f.Kind, f.ID, f.Name, where, f.Verdict, f.Message)
	}
	return b.String()
}
