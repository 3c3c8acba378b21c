package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's folder, seen from this package.
const root = "../.."

// load reads every package of the module.
func load(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath, Dir string
			Imports         []string
		}
		if err := d.Decode(&listed); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(listed.ImportPath, module+"/")
		pkgs = append(pkgs, pkg{path: path, imports: listed.Imports, files: files(t, base, listed.Dir)})
	}
}

// files reads every Go file of a folder, whatever its build constraints.
func files(t *testing.T, base, dir string) []file {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]file, 0, len(names))
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(base, name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file{
			name: relative, lines: bytes.Count(src, []byte("\n")), code: code(src),
			test: strings.HasSuffix(name, "_test.go"), funcs: functions(t, name, src),
		})
	}
	return out
}

// code counts the lines that hold more than a comment or nothing. Raw strings
// with lines that look like comments are rare enough.
func code(src []byte) int {
	n := 0
	for line := range bytes.Lines(src) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}

func functions(t *testing.T, name string, src []byte) []function {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []function
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			out = append(out, function{f.Name.Name, set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1})
		}
	}
	return out
}

func TestArrows(t *testing.T) {
	for _, wrong := range checkArrows(load(t)) {
		t.Error(wrong)
	}
}

func TestSizes(t *testing.T) {
	for _, wrong := range checkSizes(load(t)) {
		t.Error(wrong)
	}
}

// TestLoadSeesTheModule fails when go list or the counting stops seeing what
// the two tests above judge.
func TestLoadSeesTheModule(t *testing.T) {
	for _, p := range load(t) {
		if p.path != "internal/admin" {
			continue
		}
		var imports, lines, funcs int
		imports = len(p.imports)
		for _, f := range p.files {
			lines += f.lines
			funcs += len(f.funcs)
		}
		if imports < 5 || lines < 100 || funcs < 10 {
			t.Errorf("internal/admin: %d imports, %d lines, %d functions", imports, lines, funcs)
		}
		return
	}
	t.Error("internal/admin is not there")
}
