package leasewheel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	links     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	tests     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	rules     = regexp.MustCompile(`(?m)^([a-z-]+):`)
	targets   = regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)")
	paths     = regexp.MustCompile("`([a-z]+(?:/[\\w.-]+)+)`")
	named     = regexp.MustCompile(`\bname: "(\w+)"`)
	sentences = regexp.MustCompile("`([A-Za-z0-9]+(?:_[A-Za-z0-9]+){2,})`")
	exports   = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheDocsNameWhatExists: what a page links to, each test that it names, each
// target of make, each path in a folder and each exported name of these packages
// is there.
func TestTheDocsNameWhatExists(t *testing.T) {
	names := declared(t)
	made := map[string]bool{}
	for _, m := range rules.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		made[m[1]] = true
	}
	pages := pages(t)
	require.Contains(t, pages, "README.md")
	for _, page := range pages {
		text := read(t, page)
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			assert.NoError(t, follow(page, m[1]), "%s links to %s", page, m[1])
		}
		for _, test := range tests.FindAllString(text, -1) {
			assert.True(t, names.anywhere[test], "%s names %s", page, test)
		}
		for _, m := range targets.FindAllStringSubmatch(text, -1) {
			assert.True(t, made[m[1]], "%s names make %s", page, m[1])
		}
		for _, m := range paths.FindAllStringSubmatch(text, -1) {
			if folder, _, _ := strings.Cut(m[1], "/"); follow("README.md", folder) == nil {
				assert.NoError(t, follow("README.md", m[1]), "%s names %s", page, m[1])
			}
		}
		for _, m := range exports.FindAllStringSubmatch(text, -1) {
			members, ours := names.exported[m[1]]
			if !ours {
				continue
			}
			assert.True(t, members[m[2]], "%s names %s`", page, m[0])
			assert.True(t, m[3] == "" || members[m[2]+"."+m[3]], "%s names %s`", page, m[0])
		}
	}
}

// The page for those who write a store names cases of the suite that it must pass.
func TestThePageOfStoresNamesCases(t *testing.T) {
	cases := map[string]bool{}
	walk(t, func(path string) {
		if filepath.ToSlash(filepath.Dir(path)) == "lock/locktest" {
			for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
				cases[m[1]] = true
			}
		}
	})
	told := 0
	for _, m := range sentences.FindAllStringSubmatch(read(t, "docs/STORES.md"), -1) {
		assert.True(t, cases[m[1]], "%s is no case", m[1])
		told++
	}
	assert.Positive(t, told)
}

// pages lists the pages of documentation of all modules.
func pages(t *testing.T) []string {
	var found []string
	walk(t, func(path string) {
		if filepath.Ext(path) == ".md" {
			found = append(found, filepath.ToSlash(path))
		}
	})
	return found
}

// follow returns an error if nothing is where the link of a page leads. Links out
// of the repository are not followed.
func follow(page, link string) error {
	if strings.Contains(link, "://") {
		return nil
	}
	file, anchor, _ := strings.Cut(link, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), file)
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || anchor == "" {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line && slug(title) == anchor {
			return nil
		}
	}
	return fs.ErrNotExist
}

// slug is the anchor that a heading gets: lower case, hyphens for spaces, without
// the other marks.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, strings.TrimSpace(title))
}

// names is what the source declares.
type names struct {
	anywhere map[string]bool
	exported map[string]map[string]bool // by package; a method or a field is Type.Name
}

// declared reads the source of all modules.
func declared(t *testing.T) names {
	all := names{map[string]bool{}, map[string]map[string]bool{}}
	walk(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.Contains(path, "testdata") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		in := all.exported[file.Name.Name]
		if in == nil {
			in = map[string]bool{}
			all.exported[file.Name.Name] = in
		}
		for _, d := range file.Decls {
			for _, name := range namesOf(d) {
				in[name] = true
				all.anywhere[name] = true
			}
		}
	})
	return all
}

// namesOf returns the names that a declaration gives, those of fields and of an
// interface's methods too.
func namesOf(d ast.Decl) []string {
	var list []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		list = append(list, receiver(d)+d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					list = append(list, n.Name)
				}
			case *ast.TypeSpec:
				list = append(list, s.Name.Name)
				for _, m := range members(s.Type) {
					list = append(list, s.Name.Name+"."+m)
				}
			}
		}
	}
	return list
}

// receiver returns the type of a method and a dot, nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	for {
		switch of := typ.(type) {
		case *ast.StarExpr:
			typ = of.X
		case *ast.IndexExpr:
			typ = of.X
		case *ast.IndexListExpr:
			typ = of.X
		default:
			return typ.(*ast.Ident).Name + "."
		}
	}
}

func members(typ ast.Expr) []string {
	var fields *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return nil
	}
	var list []string
	for _, f := range fields.List {
		for _, n := range f.Names {
			list = append(list, n.Name)
		}
	}
	return list
}

// walk calls visit with each file of the repository but those in hidden folders.
func walk(t *testing.T, visit func(path string)) {
	require.NoError(t, filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case !e.IsDir():
			visit(path)
		}
		return nil
	}))
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
