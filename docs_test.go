package leasewheel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

var (
	links      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	tests      = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	rules      = regexp.MustCompile(`(?m)^([a-z-]+):`)
	targets    = regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)")
	paths      = regexp.MustCompile("`([a-z]+(?:/[\\w.-]+)+)`")
	named      = regexp.MustCompile(`\bname: "(\w+)"`)
	firstField = regexp.MustCompile(`(?:\{|t\.Run\()"(\w+)", func\(`)
	sentences  = regexp.MustCompile("`([A-Za-z0-9]+(?:_[A-Za-z0-9]+){2,})`")
	programs   = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")
	exports    = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheDocsNameWhatExists checks each link of the pages and each test, make target,
// path and exported name that they mention.
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
			assert.NoError(t, checkLink(page, m[1]), "%s links to %s", page, m[1])
		}
		for _, test := range tests.FindAllString(text, -1) {
			assert.True(t, names.anywhere[test], "%s names %s", page, test)
		}
		for _, m := range targets.FindAllStringSubmatch(text, -1) {
			assert.True(t, made[m[1]], "%s names make %s", page, m[1])
		}
		for _, m := range paths.FindAllStringSubmatch(text, -1) {
			if folder, _, _ := strings.Cut(m[1], "/"); checkLink("README.md", folder) == nil {
				assert.NoError(t, checkLink("README.md", m[1]), "%s names %s", page, m[1])
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

// TestTheReadmeNamesTheVersions checks that the README names the versions in go.mod
// and every server that make servers can fetch.
func TestTheReadmeNamesTheVersions(t *testing.T) {
	readme, mod, servers := read(t, "README.md"), read(t, "go.mod"), read(t, ".ci/servers")
	version := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(mod)
		require.NotNil(t, found, pattern)
		return found[1]
	}
	assert.Contains(t, readme, "| Go | "+version(`(?m)^go (\d+\.\d+)`)+" or later")
	assert.Contains(t, readme, "| go-redis | "+version(`go-redis/v9 v([\d.]+)`)+" or later")
	for _, m := range regexp.MustCompile(`(?m)^(redis|valkey|redict)-(\d+\.\d+) +(?:wheel|debian) `).FindAllStringSubmatch(servers, -1) {
		name := strings.ToUpper(m[1][:1]) + m[1][1:]
		row := regexp.MustCompile(`(?m)^\| tested \|.*\b` + name + `\b[^a-zA-Z]*\b` + regexp.QuoteMeta(m[2]) + `\b`)
		assert.Regexp(t, row, readme, "%s %s", name, m[2])
	}
}

// TestTheProgramOfTheReadmeRuns runs the first program of the README on a server. It also
// checks that examples/quickstart is the same program, because the linters see only that.
func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	program := programs.FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, program)
	_, inTree, _ := strings.Cut(read(t, "examples/quickstart/main.go"), "\npackage main\n")
	require.Equal(t, "package main\n"+inTree, program[1])

	const address = "localhost:6379"
	require.Contains(t, program[1], address)
	text := strings.Replace(program[1], address, testredis.Start(t).Addr(), 1)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := goTool(t, "run", file)
	require.NoError(t, err, "%s", out)
	assert.Contains(t, out, "shipping with fencing token ")
}

// goTool runs the go command on a file. It builds as this test was built, with or without the race
// detector, so that the packages need not be compiled a second time.
func goTool(t *testing.T, command, file string) (output string, err error) {
	args := []string{command, file}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = []string{command, "-race", file}
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	return string(out), err
}

// TestThePagesOfSuitesNameCases checks the names of cases in WRITING-A-STORE.md and ENGINES.md.
func TestThePagesOfSuitesNameCases(t *testing.T) {
	for page, suite := range map[string]struct {
		dir  string
		name *regexp.Regexp
	}{
		"docs/WRITING-A-STORE.md": {"lock/locktest", named},
		"docs/ENGINES.md":         {"schedule/scheduletest", firstField},
	} {
		cases := map[string]bool{}
		walk(t, func(path string) {
			if filepath.ToSlash(filepath.Dir(path)) == suite.dir {
				for _, m := range suite.name.FindAllStringSubmatch(read(t, path), -1) {
					cases[m[1]] = true
				}
			}
		})
		checked := 0
		for _, m := range sentences.FindAllStringSubmatch(read(t, page), -1) {
			assert.True(t, cases[m[1]], "%s is no case of %s", m[1], suite.dir)
			checked++
		}
		assert.Positive(t, checked)
	}
}

// pages returns the paths of all Markdown files.
func pages(t *testing.T) []string {
	var found []string
	walk(t, func(path string) {
		if filepath.Ext(path) == ".md" {
			found = append(found, filepath.ToSlash(path))
		}
	})
	return found
}

// checkLink returns an error if the target of a link does not exist. It accepts
// links to other sites unchecked.
func checkLink(page, link string) error {
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

// slug returns the anchor of a heading: lower case, with hyphens for spaces and
// without punctuation.
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

// declarations are the names that Go files declare.
type declarations struct {
	anywhere map[string]bool
	exported map[string]map[string]bool // by package; methods and fields as Type.Name
}

// declared reads the declarations of all Go files but those in compat, whose packages have the
// names of others: redis.NewClient in a page is not theirs.
func declared(t *testing.T) declarations {
	all := declarations{map[string]bool{}, map[string]map[string]bool{}}
	walk(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.Contains(path, "testdata") || strings.HasPrefix(filepath.ToSlash(path), "compat/") {
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

// namesOf returns the names in a declaration, including fields and the methods of
// interfaces.
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

// receiver returns the receiver type of a method followed by a dot, or "" for a function.
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

// walk calls visit with each file outside hidden folders.
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
