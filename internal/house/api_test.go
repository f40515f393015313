package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file of core's exported names")

// A name that core exports is a promise. The golden file makes adding, changing and losing
// one visible in a review: only what users need is there.
func TestCoreAPI(t *testing.T) {
	got := strings.Join(api(t, "core"), "\n") + "\n"
	golden := filepath.Join("testdata", "core_api.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v: make golden", err)
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("core lost    %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("core gained  %s", line)
		}
	}
	if t.Failed() {
		t.Log("if this is meant: make golden, and a line in CHANGELOG.md")
	}
}

// api lists the exported names of a package, sorted, one a line: functions and methods with
// their types, types with their exported fields and methods, constants, variables.
func api(t *testing.T, dir string) []string {
	t.Helper()
	pkg, err := build.ImportDir(filepath.Join(root(t), dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range load(t) {
		if f.dir == dir && slices.Contains(pkg.GoFiles, filepath.Base(f.path)) {
			for _, decl := range f.ast.Decls {
				lines = append(lines, declared(f.fset, decl)...)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func declared(fset *token.FileSet, decl ast.Decl) (lines []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if !decl.Name.IsExported() {
			return nil
		}
		signature := strings.TrimPrefix(show(fset, decl.Type), "func")
		if decl.Recv == nil {
			return []string{"func " + decl.Name.Name + signature}
		}
		recv := show(fset, decl.Recv.List[0].Type)
		if !ast.IsExported(strings.TrimPrefix(recv, "*")) {
			return nil
		}
		return []string{fmt.Sprintf("method (%s) %s%s", recv, decl.Name.Name, signature)}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						lines = append(lines, decl.Tok.String()+" "+name.Name)
					}
				}
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					lines = append(lines, typed(fset, spec)...)
				}
			}
		}
	}
	return lines
}

func typed(fset *token.FileSet, spec *ast.TypeSpec) (lines []string) {
	name := spec.Name.Name
	members := func(word string, list *ast.FieldList) {
		for _, field := range list.List {
			for _, id := range field.Names {
				if id.IsExported() {
					lines = append(lines, fmt.Sprintf("%s %s.%s %s", word, name, id.Name, show(fset, field.Type)))
				}
			}
			if embedded := show(fset, field.Type); len(field.Names) == 0 && ast.IsExported(embedded[strings.LastIndexAny(embedded, "*.")+1:]) {
				lines = append(lines, fmt.Sprintf("%s %s.%s embedded", word, name, embedded))
			}
		}
	}
	var kind string
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		kind = "struct"
		members("field", typ.Fields)
	case *ast.InterfaceType:
		kind = "interface"
		members("method", typ.Methods)
	default:
		kind = show(fset, typ)
	}
	if spec.Assign.IsValid() {
		kind = "= " + kind
	}
	return append(lines, "type "+name+" "+kind)
}

func show(fset *token.FileSet, node ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
