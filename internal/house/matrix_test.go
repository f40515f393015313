package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/rfc9111.md names exists: a Go test, or a case of internal/conformance.
func TestMatrix(t *testing.T) {
	known := map[string]bool{}
	names := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(|\bID: "([a-z0-9/-]+)"`)
	for _, f := range load(t) {
		if !f.test && f.dir != "internal/conformance" {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root(t), f.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range names.FindAllStringSubmatch(string(source), -1) {
			known[found[1]+found[2]] = true
		}
	}
	matrix, err := os.ReadFile(filepath.Join(root(t), "docs", "rfc9111.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(string(matrix)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(strings.TrimSpace(cells[0]), "Section") || strings.HasPrefix(cells[0], "---") {
			continue
		}
		rows++
		tests := quoted.FindAllStringSubmatch(cells[4], -1)
		if len(tests) == 0 {
			t.Errorf("no test shows %s", line)
		}
		for _, test := range tests {
			if !known[test[1]] {
				t.Errorf("no test is called %s: %s", test[1], line)
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows: this test looks for the wrong thing", rows)
	}
}
