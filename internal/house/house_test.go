// Package house holds the rules of this repository that a compiler does not check: who may
// import whom, how tests may wait, which names are public, why each dependency is there.
// The package is nothing but its tests.
package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/herdgate/herdgate"

// frameworks are the imports that an adapter exists for. Nothing else that ships may reach
// them: a user of one adapter compiles that framework and no other.
var frameworks = map[string][]string{
	"ginmw":     {"github.com/gin-gonic/gin"},
	"echomw":    {"github.com/labstack/echo"},
	"fibermw":   {"github.com/gofiber/fiber", "github.com/valyala/fasthttp"},
	"nethttpmw": {}, // chi is a net/http router: its users need nothing of chi from us
}

// routers are frameworks that are served without an adapter of their own.
var routers = []string{"github.com/go-chi/chi"}

// observers belong to the package observe.
var observers = []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel"}

// testSupport are the packages that serve tests and have non-test files. No package that
// ships imports them. true: may import testing.
var testSupport = map[string]bool{
	"internal/redistest":           false, // its TB is enough
	"internal/conformance":         true,  // runs subtests
	"internal/capture/capturetest": true,  // likewise
	"internal/house":               true,
}

// testOnly are imports that bring flags, or a fake, into a user's program.
var testOnly = append([]string{"testing", "net/http/httptest", "go.uber.org/goleak", miniredis}, supportPaths()...)

const miniredis = "github.com/alicebob/miniredis"

func supportPaths() (paths []string) {
	for dir := range testSupport {
		paths = append(paths, module+"/"+dir)
	}
	return paths
}

// adapterTests are what an adapter's tests may import on top of what the adapter may.
var adapterTests = append([]string{"testing", "net/http/httptest", "go.uber.org/goleak", module + "/internal"}, routers...)

// exports are the exported names of each adapter, by which they are interchangeable.
var exports = []string{"Cache", "KeyBy", "Outcome", "SkipIf"}

// bubbles are the functions whose function argument runs on the fake clock of
// testing/synctest, where sleeping costs nothing and is exact.
var bubbles = []string{"synctest.Test", "bubble"}

// sleepers are the functions that may sleep on a real clock: "dir/file_test.go Func", with the reason.
var sleepers = map[string]string{}

func TestImports(t *testing.T) {
	files := load(t)
	for _, f := range files {
		for _, imp := range f.imports {
			if why := forbidden(f, imp); why != "" {
				t.Errorf("%s imports %s: %s", f.path, imp, why)
			}
		}
	}

	// What a package reaches over other packages counts as well.
	direct := map[string][]string{}
	for _, f := range files {
		if !f.test {
			direct[f.dir] = append(direct[f.dir], f.imports...)
		}
	}
	for _, dir := range append(slices.Sorted(maps.Keys(frameworks)), "core", ".") {
		if direct[dir] == nil && dir != "." {
			t.Errorf("no package %s", dir)
		}
		for imp, over := range reach(direct, dir) {
			if under(imp, foreign(dir)) || under(imp, testOnly) {
				t.Errorf("%s reaches %s over %s", dir, imp, over)
			}
		}
	}
}

// forbidden returns why a file must not import something, "" if it may.
func forbidden(f file, imp string) string {
	adapter := frameworks[f.dir] != nil
	example := f.dir == "examples" || strings.HasPrefix(f.dir, "examples/")
	mayTest, support := testSupport[f.dir]

	switch {
	case example && !f.test && under(imp, testOnly) && !under(imp, []string{miniredis}):
		return "examples are programs, not tests"
	case example:
		return "" // else examples import everything
	case under(imp, []string{module + "/examples"}):
		return "nothing imports examples"
	case support && !f.test && !mayTest && imp == "testing":
		return "test support takes an interface of its own"
	case !support && !f.test && under(imp, testOnly):
		return "what ships imports no test code"
	case (f.dir == "core" || adapter) && under(imp, observers):
		return "recorders live in observe"
	case f.dir == "core" && under(imp, foreign("core")):
		return "core imports no web framework"
	case !adapter || !strings.Contains(strings.Split(imp, "/")[0], "."): // the standard library
		return ""
	}

	allowed := append([]string{module + "/core", module + "/internal"}, frameworks[f.dir]...)
	if f.test {
		allowed = append(allowed, adapterTests...)
		allowed = append(allowed, module+"/"+f.dir) // an external test package
	}
	switch {
	case under(imp, allowed):
		return ""
	case strings.HasPrefix(imp, module+"/") && frameworks[strings.TrimPrefix(imp, module+"/")] != nil:
		return "adapters never import each other"
	default:
		return "an adapter imports core, internal packages and its own framework only"
	}
}

// foreign returns the frameworks that a package must not reach.
func foreign(dir string) []string {
	all := slices.Clone(routers)
	for adapter, own := range frameworks {
		if adapter != dir {
			all = append(all, own...)
		}
	}
	return all
}

// reach returns every import that the non-test files of dir reach inside the module, each
// with the directory that imports it.
func reach(direct map[string][]string, dir string) map[string]string {
	found := map[string]string{}
	var visit func(dir string)
	visit = func(dir string) {
		for _, imp := range direct[dir] {
			if found[imp] != "" {
				continue
			}
			found[imp] = dir
			if next, ok := strings.CutPrefix(imp, module+"/"); ok {
				visit(next)
			}
		}
	}
	visit(dir)
	return found
}

func TestRulesBite(t *testing.T) {
	const gin, echo, fast = "github.com/gin-gonic/gin", "github.com/labstack/echo/v4", "github.com/valyala/fasthttp"
	for _, test := range []struct {
		path, imp string
		ok        bool
	}{
		{"core/gate.go", gin, false},
		{"core/gate_test.go", gin, false},
		{"core/gate.go", "github.com/go-chi/chi/v5", false},
		{"core/gate.go", "github.com/redis/go-redis/v9", true},
		{"core/gate.go", "github.com/prometheus/client_golang/prometheus", false},
		{"core/gate.go", module + "/internal/redistest", false},
		{"core/gate_test.go", module + "/internal/redistest", true},
		{"core/gate.go", module + "/examples/herd", false},
		{"core/gate.go", "testing", false},
		{"core/gate.go", "testing/synctest", false},
		{"internal/entry/codec.go", "net/http/httptest", false},
		{"internal/redistest/server.go", "testing", false},
		{"internal/conformance/suite.go", "testing", true},
		{"internal/conformance/suite.go", module + "/internal/redistest", true},
		{"internal/capture/writer.go", module + "/internal/capture/capturetest", false},
		{"ginmw/ginmw.go", gin, true},
		{"ginmw/ginmw.go", gin + "/render", true},
		{"ginmw/ginmw.go", gin + "x", false},
		{"ginmw/ginmw.go", echo, false},
		{"ginmw/ginmw.go", module + "/core", true},
		{"ginmw/ginmw.go", module + "/echomw", false},
		{"ginmw/ginmw_test.go", module + "/echomw", false},
		{"ginmw/ginmw_test.go", module + "/ginmw", true},
		{"ginmw/ginmw_test.go", module + "/internal/conformance", true},
		{"ginmw/ginmw.go", module + "/internal/conformance", false},
		{"nethttpmw/nethttpmw.go", "github.com/go-chi/chi/v5", false},
		{"nethttpmw/chi_test.go", "github.com/go-chi/chi/v5", true},
		{"nethttpmw/nethttpmw.go", "github.com/redis/go-redis/v9", false},
		{"nethttpmw/nethttpmw.go", "net/http", true},
		{"fibermw/fibermw.go", fast, true},
		{"echomw/echomw.go", fast, false},
		{"examples/herd/main.go", gin, true},
		{"examples/herd/main.go", miniredis + "/v2", true},
		{"examples/herd/main.go", "testing", false},
		{"core/memory.go", miniredis + "/v2", false},
	} {
		f := file{path: test.path, dir: path.Dir(test.path), test: strings.HasSuffix(test.path, "_test.go")}
		if why := forbidden(f, test.imp); (why == "") != test.ok {
			t.Errorf("%s imports %s: %q, allowed should be %v", test.path, test.imp, why, test.ok)
		}
	}

	over := reach(map[string][]string{"core": {module + "/internal/a"}, "internal/a": {module + "/internal/b"}, "internal/b": {gin}}, "core")
	if over[gin] != "internal/b" {
		t.Errorf("reach: %v", over)
	}

	const source = `package p
import ("time"; "testing"; clock "time"; "testing/synctest")
func TestA(t *testing.T) { time.Sleep(1); t.Skip() }
func TestB(t *testing.T) { synctest.Test(t, func(t *testing.T) { func() { time.Sleep(1) }() }) }
func TestC(t *testing.T) { synctest.Test(t, func(t *testing.T) {}); clock.Sleep(1); t.Run("", func(t *testing.T) { t.Skipf("") }) }
type suite struct { tb testing.TB }
func (s suite) d() { s.tb.SkipNow(); cfg.Skip(1) }
`
	sleeps, skips := offences(parse(t, "p_test.go", source))
	if len(sleeps) != 2 || sleeps[0].in != "TestA" || sleeps[1].in != "TestC" {
		t.Errorf("sleeps: %v", sleeps)
	}
	if len(skips) != 3 || skips[0].in != "TestA" || skips[1].in != "TestC" || skips[2].in != "d" {
		t.Errorf("skips: %v", skips)
	}
}

// A test that sleeps is slow on a fast machine and wrong on a slow one: it waits for what it
// waits for, or lives in a bubble. A test that is skipped proves nothing and looks green.
func TestNoSleepNoSkip(t *testing.T) {
	used := map[string]bool{}
	for _, f := range load(t) {
		if _, support := testSupport[f.dir]; !f.test && !support {
			continue
		}
		sleeps, skips := offences(f)
		for _, s := range sleeps {
			where := f.path + " " + s.in
			if used[where] = true; sleepers[where] == "" {
				t.Errorf("%s: time.Sleep in %s, outside a bubble: wait for a condition (redistest.Eventually), or use testing/synctest", f.fset.Position(s.pos), s.in)
			}
		}
		for _, s := range skips {
			t.Errorf("%s: %s is skipped: install what is missing (make deps), or delete the test", f.fset.Position(s.pos), s.in)
		}
	}
	for where := range sleepers {
		if !used[where] {
			t.Errorf("%q is excused for sleeping, and does not", where)
		}
	}
}

var tester = regexp.MustCompile(`^(\*?testing\.(T|B|F|TB)|\w*\.?TB)$`)

type offence struct {
	in  string // the top-level function
	pos token.Pos
}

// offences finds the calls of time.Sleep that are not inside a function literal given to a
// bubble, and the calls of Skip, Skipf and SkipNow on whatever the file declares as a
// *testing.T, B or F, or as a TB.
func offences(f file) (sleeps, skips []offence) {
	testers := map[string]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && tester.MatchString(show(f.fset, field.Type)) {
			for _, id := range field.Names {
				testers[id.Name] = true
			}
		}
		return true
	})
	clock := map[string]bool{}
	for _, imp := range f.ast.Imports {
		if imp.Path.Value == `"time"` {
			name := "time"
			if imp.Name != nil {
				name = imp.Name.Name
			}
			clock[name] = true
		}
	}
	for _, decl := range f.ast.Decls {
		in := "a declaration"
		if fn, ok := decl.(*ast.FuncDecl); ok {
			in = fn.Name.Name
		}
		var stack []ast.Node
		ast.Inspect(decl, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			sel, ok := n.(*ast.SelectorExpr) // time.Sleep as a value counts, too
			if !ok {
				return true
			}
			x := ""
			switch of := sel.X.(type) {
			case *ast.Ident:
				x = of.Name
			case *ast.SelectorExpr: // a field: suite.t
				x = of.Sel.Name
			}
			switch sel.Sel.Name {
			case "Sleep":
				if clock[x] && !inBubble(stack) {
					sleeps = append(sleeps, offence{in, n.Pos()})
				}
			case "Skip", "Skipf", "SkipNow":
				if testers[x] {
					skips = append(skips, offence{in, n.Pos()})
				}
			}
			return true
		})
	}
	return sleeps, skips
}

func inBubble(stack []ast.Node) bool {
	for i, n := range stack {
		call, ok := n.(*ast.CallExpr)
		if !ok || i+1 == len(stack) {
			continue
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			if x, ok := fun.X.(*ast.Ident); ok {
				name = x.Name + "." + fun.Sel.Name
			}
		}
		if _, literal := stack[i+1].(*ast.FuncLit); literal && slices.Contains(bubbles, name) {
			return true
		}
	}
	return false
}

// The adapters are interchangeable: the same four names, and nothing besides.
func TestAdapterExports(t *testing.T) {
	for adapter := range frameworks {
		var names []string
		for _, f := range load(t) {
			if f.dir != adapter || f.test {
				continue
			}
			for _, decl := range f.ast.Decls {
				names = append(names, exported(decl)...)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, exports) {
			t.Errorf("%s exports %v, want %v", adapter, names, exports)
		}
	}
}

func exported(decl ast.Decl) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			add(decl.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					add(id)
				}
			}
		}
	}
	return names
}

var requirement = regexp.MustCompile(`^(\S+\.\S+/\S+|\S+\.\S+) (v\S+)(.*)$`)

// A library's go.mod is part of what its users get.
func TestGoMod(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		switch word, _, _ := strings.Cut(line, " "); word {
		case "replace", "exclude", "toolchain":
			t.Errorf("go.mod:%d: %s has no effect for users, or binds them", n+1, word)
		case "go":
			if line != "go 1.25.0" {
				t.Errorf("go.mod:%d: %s: the floor is go 1.25.0; raising it is a decision (docs/adr)", n+1, line)
			}
		}
		m := requirement.FindStringSubmatch(line)
		if m == nil || strings.Contains(m[3], "// indirect") {
			continue
		}
		direct++
		if _, reason, _ := strings.Cut(m[3], "//"); strings.TrimSpace(reason) == "" {
			t.Errorf("go.mod:%d: %s has no trailing // reason", n+1, m[1])
		}
	}
	if direct == 0 {
		t.Error("go.mod: no direct requirement found")
	}
}

// Who guesses a token has somebody else's lock: tokens are made of crypto/rand, in a file without any other randomness.
func TestTokensCannotBeGuessed(t *testing.T) {
	made := 0
	for _, f := range load(t) {
		if f.dir != "core" || f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "newToken" {
				made++
				if !slices.Contains(f.imports, "crypto/rand") || under("math/rand/v2", f.imports) || under("math/rand", f.imports) {
					t.Errorf("%s makes tokens with %q", f.path, f.imports)
				}
			}
		}
	}
	if made != 1 {
		t.Errorf("%d functions make tokens: this test looks for the wrong thing", made)
	}
}

// file is one Go file of the module.
type file struct {
	path    string // slash-separated, from the module's root
	dir     string
	test    bool
	imports []string
	ast     *ast.File
	fset    *token.FileSet
}

var loaded []file

// load parses every Go file of the module, whatever its build tags.
func load(t *testing.T) []file {
	t.Helper()
	if loaded != nil {
		return loaded
	}
	base := root(t)
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			nested := err == nil && name != base
			if nested || d.Name() == "testdata" || d.Name() == "vendor" || name != base && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		loaded = append(loaded, parse(t, filepath.ToSlash(rel), string(source)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func parse(t *testing.T, name, source string) file {
	t.Helper()
	f := file{path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
	var err error
	if f.ast, err = parser.ParseFile(f.fset, name, source, parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.ast.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		f.imports = append(f.imports, imp)
	}
	return f
}

// root returns the module's directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal(fmt.Errorf("no go.mod of %s above the test", module))
		}
		dir = parent
	}
}

// under reports whether an import is one of the paths, or below one.
func under(imp string, paths []string) bool {
	for _, p := range paths {
		if imp == p || strings.HasPrefix(imp, p+"/") {
			return true
		}
	}
	return false
}
