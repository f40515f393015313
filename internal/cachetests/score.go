package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// score is one run of the suite, or a recorded one.
type score struct {
	adapter, backend string
	results          []result
}

// count returns how many tests of a kind passed, and how many there are.
func (s *score) count(kind string) (passed, total int) {
	for _, r := range s.results {
		if r.Kind == kind {
			total++
			if r.Passed {
				passed++
			}
		}
	}
	return passed, total
}

func (s *score) of(kind string) string {
	passed, total := s.count(kind)
	return fmt.Sprintf("%d/%d", passed, total)
}

// recorded is a line of scores.txt. The totals tell the versions of the suite apart: its own number does not.
type recorded struct {
	adapter, backend                         string
	required, ofRequired, optimal, ofOptimal int
}

func (s *score) record() recorded {
	r := recorded{adapter: s.adapter, backend: s.backend}
	r.required, r.ofRequired = s.count("required")
	r.optimal, r.ofOptimal = s.count("optimal")
	return r
}

func (r recorded) String() string {
	return fmt.Sprintf("%s %s required %d/%d optimal %d/%d", r.adapter, r.backend, r.required, r.ofRequired, r.optimal, r.ofOptimal)
}

// same reports whether two lines are about the same measurement.
func (r recorded) same(o recorded) bool {
	return r.adapter == o.adapter && r.backend == o.backend && r.ofRequired == o.ofRequired && r.ofOptimal == o.ofOptimal
}

// readScores returns the comment at the top of the file, and the lines below it.
func readScores(path string) (comment string, lines []recorded, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		line := scan.Text()
		if strings.HasPrefix(line, "#") {
			comment += line + "\n"
			continue
		}
		var r recorded
		if _, err := fmt.Sscanf(line, "%s %s required %d/%d optimal %d/%d",
			&r.adapter, &r.backend, &r.required, &r.ofRequired, &r.optimal, &r.ofOptimal); err != nil {
			return "", nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		lines = append(lines, r)
	}
	return comment, lines, nil
}

// recordScores writes the scores down, and leaves those of other measurements alone.
func recordScores(path string, runs []*score) error {
	comment, lines, err := readScores(path)
	if err != nil {
		return err
	}
	for _, run := range runs {
		r := run.record()
		if at := slices.IndexFunc(lines, r.same); at >= 0 {
			lines[at] = r
		} else {
			lines = append(lines, r)
		}
	}
	var b strings.Builder
	b.WriteString(comment)
	for _, r := range lines {
		fmt.Fprintln(&b, r)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // a file of this repository
}

// compare returns the runs that are below their recorded scores.
func compare(path string, runs []*score) (below []*score, err error) {
	_, lines, err := readScores(path)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		r := run.record()
		at := slices.IndexFunc(lines, r.same)
		switch {
		case at < 0:
			fmt.Printf("no score is recorded for %v\n", r)
		case r.required < lines[at].required || r.optimal < lines[at].optimal:
			fmt.Printf("%v is below the recorded %v\n", r, lines[at])
			below = append(below, run)
		case r != lines[at]:
			fmt.Printf("%v is better than the recorded %v\n", r, lines[at])
		}
	}
	return below, nil
}

// named fails if a test that does not pass is not named, with its reason, in the matrix.
func named(path string, runs []*score) error {
	matrix, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var missing []string
	for _, run := range runs {
		for _, r := range run.results {
			if !r.Passed && r.Kind != "check" && !strings.Contains(string(matrix), "`"+r.ID+"`") {
				missing = append(missing, r.ID)
			}
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 {
		return fmt.Errorf("%s does not name: %s", path, strings.Join(missing, ", "))
	}
	return nil
}
