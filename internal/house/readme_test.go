package house

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The README is for a reader of five minutes.
const readmeLimit = 15_000

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > readmeLimit {
		t.Errorf("README.md has %d bytes, more than %d: move something to docs", len(text), readmeLimit)
	}
	return string(text)
}

// fences returns the blocks of code in a language.
func fences(text, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// around is what the reader has around a statement of a snippet, by what occurs in the statement; the first that
// occurs counts. The rest of the line is parameters.
var around = []struct{ has, params string }{
	{"ginmw.", "r *gin.Engine, product gin.HandlerFunc"},
	{"echomw.", "e *echo.Echo, product echo.HandlerFunc"},
	{"fibermw.", "app *fiber.App, product fiber.Handler"},
	{"r.With(", "r chi.Router, product http.HandlerFunc"},
	{"nethttpmw.", "mux *http.ServeMux, product http.Handler"},
	{"", ""},
}

const snippetsHead = `package readme

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/echomw"
	"github.com/herdgate/herdgate/fibermw"
	"github.com/herdgate/herdgate/ginmw"
	"github.com/herdgate/herdgate/nethttpmw"
)

var (
	ctx  context.Context
	rdb  *redis.Client
	gate *core.Gate
	_    = time.Second
)
`

// Every Go snippet compiles: each statement in a function of its own, for one README shows the same line for five routers.
func TestReadmeSnippetsCompile(t *testing.T) {
	var source strings.Builder
	source.WriteString(snippetsHead)
	statements := 0
	for _, snippet := range fences(readme(t), "go") {
		text := "package p\nfunc _() {\n" + snippet + "\n}\n"
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "snippet.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%v in\n%s", err, snippet)
		}
		for _, stmt := range f.Decls[0].(*ast.FuncDecl).Body.List {
			line := text[fset.Position(stmt.Pos()).Offset:fset.Position(stmt.End()).Offset]
			at := slices.IndexFunc(around, func(a struct{ has, params string }) bool { return strings.Contains(line, a.has) })
			fmt.Fprintf(&source, "\nfunc _(%s) {\n\t%s\n", around[at].params, line)
			if define, ok := stmt.(*ast.AssignStmt); ok && define.Tok == token.DEFINE {
				for _, name := range define.Lhs {
					fmt.Fprintf(&source, "\t_ = %s\n", show(fset, name))
				}
			}
			source.WriteString("}\n")
			statements++
		}
	}
	if statements < 8 {
		t.Fatalf("%d statements: the test does not see the snippets", statements)
	}

	// A package that exists in the build only.
	file := filepath.Join(t.TempDir(), "snippets.go")
	if err := os.WriteFile(file, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root(t), "internal", "readme", "snippets.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-overlay", overlayFile}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race") // the dependencies have just been compiled that way
	}
	build := exec.Command("go", append(args, "./internal/readme")...)
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\nof\n%s", err, out, source.String())
	}
}

// elsewhere are the commands that neither CI nor a test can run, with the reason.
var elsewhere = map[string]string{
	"go get " + module: "it needs a published version",
}

// Every command is run by CI (.ci/run), by this test, or is a program whose own tests run it.
func TestReadmeCommands(t *testing.T) {
	text := readme(t)
	ci, err := os.ReadFile(filepath.Join(root(t), ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.Command("make", "--no-print-directory", "-C", root(t), "help").Output()
	if err != nil {
		t.Fatalf("make help: %v", err)
	}
	commands := slices.Concat(strings.FieldsFunc(strings.Join(fences(text, "sh"), "\n"), func(r rune) bool { return r == '\n' }), inline(text, "make ", "go "))
	for _, command := range commands {
		words := strings.Fields(command)
		switch {
		case elsewhere[command] != "":
		case words[0] == "make" && len(words) > 1:
			if !bytes.Contains(help, []byte("  make "+words[1]+" ")) {
				t.Errorf("%s: make help does not know it", command)
			}
			if words[1] != "help" && !bytes.Contains(ci, []byte("\nmake "+words[1]+" ")) {
				t.Errorf("%s: CI does not run it", command)
			}
		case words[0] == "go" && words[1] == "run":
			dir := filepath.Join(root(t), filepath.FromSlash(words[2]))
			tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
			program, err := os.ReadFile(filepath.Join(dir, "main.go"))
			if err != nil || len(tests) == 0 {
				t.Errorf("%s: no such program, or it has no test: %v", command, err)
			}
			for _, flag := range words[3:] {
				if name, is := strings.CutPrefix(flag, "-"); is && !bytes.Contains(program, []byte(`"`+name+`",`)) {
					t.Errorf("%s: no flag %s", command, flag)
				}
			}
		default:
			t.Errorf("%s: nobody runs it", command)
		}
	}
	if len(commands) < 5 {
		t.Errorf("%q: the test does not see the commands", commands)
	}
}

// inline returns what stands between backquotes in a line and begins with one of the words.
func inline(text string, words ...string) (found []string) {
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(m[1], w) }) {
			found = append(found, m[1])
		}
	}
	return found
}

// Every option in the tables, and every name of core and of a gate in the text, exists; and every route option is in the table.
func TestReadmeNames(t *testing.T) {
	text := readme(t)
	functions, methods, routeOptions := map[string]bool{"KeyBy": true, "SkipIf": true}, map[string]bool{}, map[string]bool{}
	for _, line := range api(t, "core") {
		if m := regexp.MustCompile(`^func (\w+)\(`).FindStringSubmatch(line); m != nil {
			functions[m[1]] = true
			routeOptions[m[1]] = strings.HasSuffix(line, " RouteOption")
		}
		if m := regexp.MustCompile(`^method \(\*Gate\) (\w+)\(`).FindStringSubmatch(line); m != nil {
			methods[m[1]] = true
		}
	}
	named := map[string]bool{}
	for line := range strings.Lines(text) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(cell, -1) {
				named[m] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`\bcore\.([A-Z]\w*)\(`).FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	for name := range named {
		if !functions[name] {
			t.Errorf("%s: no such function in core", name)
		}
	}
	for _, m := range regexp.MustCompile(`\bgate\.([A-Z]\w*)\(`).FindAllStringSubmatch(text, -1) {
		if !methods[m[1]] {
			t.Errorf("gate.%s: no such method", m[1])
		}
	}
	for name, is := range routeOptions {
		if is && !named[name] {
			t.Errorf("the table of options lacks %s", name)
		}
	}
	if len(named) < 20 {
		t.Errorf("%v: the test does not see the table", named)
	}
}
