package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/herdgate/herdgate/internal/conformance"
)

// shown returns what documents may name as holding a sentence: a Go test, a case of internal/conformance, or a target of make.
func shown(t *testing.T) func(name string) bool {
	t.Helper()
	known := map[string]bool{}
	for _, f := range load(t) {
		for _, decl := range f.ast.Decls {
			if f.test {
				for _, name := range exported(decl) {
					known[name] = strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
				}
			}
		}
	}
	help, err := exec.Command("make", "--no-print-directory", "-C", root(t), "help").Output()
	if err != nil {
		t.Fatalf("make help: %v", err)
	}
	for _, target := range regexp.MustCompile(`(?m)^  (make \w+) `).FindAllStringSubmatch(string(help), -1) {
		known[target[1]] = true
	}
	cases := conformance.Cases()
	return func(name string) bool {
		return known[name] || slices.ContainsFunc(cases, func(c conformance.Case) bool {
			return c.ID == name || strings.HasPrefix(c.ID, name+"/") // one of several words
		})
	}
}

// rows returns the last cell of each row of the tables with so many columns in a document, with the row.
func rows(t *testing.T, name string, columns int) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	heading := ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|") || len(cells) != columns:
			heading = ""
		case heading == "":
			heading = line
		case !strings.HasPrefix(cells[0], "---"):
			all = append(all, [2]string{cells[columns-1], line})
		}
	}
	return all
}

var quoted = regexp.MustCompile("`([^`]+)`")

// Every test that docs/rfc9111.md names exists: a Go test, or a case of internal/conformance.
func TestMatrix(t *testing.T) { held(t, rows(t, "rfc9111.md", 5), 20) }

// Everything that docs/promises.md promises is held by what it names. (Kinds of fault are looked up where they are: internal/chaos.)
func TestPromises(t *testing.T) {
	held(t, rows(t, "promises.md", 2), 60)
	const most = 16_000
	if info, err := os.Stat(filepath.Join(root(t), "docs", "promises.md")); err != nil || info.Size() > most {
		t.Errorf("docs/promises.md is for one reading, %d bytes at most: %v, %v", most, info, err)
	}
}

func held(t *testing.T, rows [][2]string, least int) {
	t.Helper()
	exists := shown(t)
	for _, row := range rows {
		tests := quoted.FindAllStringSubmatch(row[0], -1)
		if len(tests) == 0 {
			t.Errorf("no test shows %s", row[1])
		}
		for _, test := range tests {
			if !exists(test[1]) && !strings.HasPrefix(test[1], "chaos: ") {
				t.Errorf("no test is called %s: %s", test[1], row[1])
			}
		}
	}
	if len(rows) < least {
		t.Errorf("%d rows: this test looks for the wrong thing", len(rows))
	}
}

// Whoever reads a script finds on its top what it takes and what it returns.
func TestScriptsSayWhatTheyTake(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root(t), "core", "scripts", "*.lua"))
	if err != nil || len(scripts) < 6 {
		t.Fatalf("%q, %v: this test looks in the wrong place", scripts, err)
	}
	for _, name := range scripts {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(source), "\n")
		end := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "--") })
		head, code := strings.Join(lines[:end], "\n"), strings.Join(lines[end:], "\n")
		from, rest, _ := strings.Cut(head, "KEYS")
		_, returns, _ := strings.Cut(rest, "Returns")
		if len(strings.TrimSpace(from)) < 20 || len(strings.TrimSpace(returns)) == 0 {
			t.Errorf("%s does not say what it does and returns on its top", name)
		}
		keys, args, _ := strings.Cut(rest, "ARGV")
		for array, said := range map[string]string{"KEYS": keys, "ARGV": args} {
			for _, used := range regexp.MustCompile(array+`\[(\d+)\]`).FindAllStringSubmatch(code, -1) {
				if !regexp.MustCompile(`\b` + used[1] + `\b`).MatchString(said) {
					t.Errorf("%s does not say on its top what %s is", name, used[0])
				}
			}
		}
	}
}

// A package whose code or tests start goroutines looks at the end of its tests whether one is left.
func TestGoroutinesAreLookedFor(t *testing.T) {
	starts, looks, tested := map[string]string{}, map[string]bool{}, map[string]bool{}
	begun := regexp.MustCompile(`(?m)^\s*go (func\(|\w[\w.]*\()|\.Go\(`)
	for _, f := range load(t) {
		source, err := os.ReadFile(filepath.Join(root(t), f.path))
		if err != nil {
			t.Fatal(err)
		}
		tested[f.dir] = tested[f.dir] || f.test
		if begun.Match(source) {
			starts[f.dir] = f.path
		}
		if f.test && slices.Contains(f.imports, "go.uber.org/goleak") {
			looks[f.dir] = true
		}
	}
	for dir, by := range starts {
		if tested[dir] && !looks[dir] && dir != "internal/house" { // which only speaks of them
			t.Errorf("%s starts goroutines, and no test of %s looks whether one is left: goleak.VerifyTestMain", by, dir)
		}
	}
	if !looks["core"] || starts["core"] == "" {
		t.Error("this test looks for the wrong thing")
	}
}
