package doccheck_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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
	benchmarks = regexp.MustCompile(`-bench ([A-Z]\w*)`)
	rules      = regexp.MustCompile(`(?m)^([a-z-]+):`)
	targets    = regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)")
	paths      = regexp.MustCompile("`([a-z]+(?:/[\\w.-]+)+)`")
	named      = regexp.MustCompile(`\bname: "(\w+)"`)
	firstField = regexp.MustCompile(`(?:\{|t\.Run\()"(\w+)", func\(`)
	sentences  = regexp.MustCompile("`([A-Za-z0-9]+(?:_[A-Za-z0-9]+){2,})`")
	snippets   = regexp.MustCompile("(?s)```go\n(.*?)```")
	exports    = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")
	places     = regexp.MustCompile(`(?m)^\| .*\? \| (.*) \|$`)
	identifier = regexp.MustCompile("`([A-Za-z_]\\w*)`")
)

// TestMain runs the tests in the root of the module, from which all paths start.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// TestTheDocsNameWhatExists checks each link of the pages and each test, benchmark, make target,
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
		for _, m := range benchmarks.FindAllStringSubmatch(text, -1) {
			known := slices.ContainsFunc(slices.Collect(maps.Keys(names.anywhere)), func(name string) bool {
				return strings.HasPrefix(name, "Benchmark") && strings.Contains(name, m[1])
			})
			assert.True(t, known, "%s names -bench %s", page, m[1])
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

// TestTablesHaveNoBlankLines checks that the header of a table follows each blank line before a row: without one,
// Markdown shows the row as text.
func TestTablesHaveNoBlankLines(t *testing.T) {
	for _, page := range pages(t) {
		lines := strings.Split(snippets.ReplaceAllString(read(t, page), ""), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "|") && (i == 0 || lines[i-1] == "") {
				assert.Regexp(t, `^\|[-:| ]+\|$`, lines[i+1], "%s: no header above %s", page, line)
			}
		}
	}
}

// TestTheTableOfPlacesIsTrue checks the answers under "Where is …?" in ARCHITECTURE.md: a file of the row
// has each name that the row gives.
func TestTheTableOfPlacesIsTrue(t *testing.T) {
	rows := places.FindAllStringSubmatch(read(t, "docs/ARCHITECTURE.md"), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		var texts strings.Builder
		for _, m := range paths.FindAllStringSubmatch(row[1], -1) {
			if filepath.Ext(m[1]) != "" {
				texts.WriteString(read(t, m[1]))
			}
		}
		for _, m := range identifier.FindAllStringSubmatch(row[1], -1) {
			assert.True(t, regexp.MustCompile(`\b`+m[1]+`\b`).MatchString(texts.String()), "no file of this row has %s: %s", m[1], row[0])
		}
	}
}

// commented are the folders in which each file says what it is about.
var commented = regexp.MustCompile(`^(schedule|wheel|heapqueue|renewal|cmd|contrib|lock|internal|tools/release|verify|benchmarks|examples)/`)

// TestEachFileSaysWhatItIsAbout checks that a comment comes first in each file, before or right after the
// package clause. ARCHITECTURE.md has no table of files because of these comments.
func TestEachFileSaysWhatItIsAbout(t *testing.T) {
	walk(t, func(path string) {
		path = filepath.ToSlash(path)
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") || !commented.MatchString(path) {
			return
		}
		for line := range strings.Lines(read(t, path)) {
			switch line = strings.TrimSpace(line); {
			case line == "", strings.HasPrefix(line, "//go:"), strings.HasPrefix(line, "package "):
			case strings.HasPrefix(line, "// "):
				return
			default:
				assert.Fail(t, "no comment comes first", path)
				return
			}
		}
	})
}

// TestTheReadmeNamesTheVersions checks that the READMEs name the versions in go.mod, and exactly the servers of
// make servers and make stores as tested.
func TestTheReadmeNamesTheVersions(t *testing.T) {
	readme, servers := read(t, "README.md"), read(t, ".ci/servers")
	version := func(file, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
		require.NotNil(t, found, pattern)
		return found[1]
	}
	assert.Contains(t, readme, "| Go | "+version("go.mod", `(?m)^go (\d+\.\d+)`)+" or later")
	assert.Contains(t, readme, "| go-redis | "+version("go.mod", `go-redis/v9 v([\d.]+)`)+" or later")
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		assert.Contains(t, read(t, page), tested(t, servers, "known")+"; "+tested(t, servers, "databases")+" |\n", page)
	}
	assert.Contains(t, servers, "\netcd-"+version("lock/etcdstore/check/go.mod", `etcd/server/v3 v(\d+\.\d+)`)+" ")
	assert.Contains(t, servers, "\nnats-"+version("lock/natsstore/check/go.mod", `nats-server/v2 v(\d+\.\d+)`)+" ")
}

// tested returns what the READMEs say of a table in .ci/servers: "Redis 5.0, 6.0, Valkey 8.1".
func tested(t *testing.T, servers, table string) string {
	names := strings.NewReplacer("redis", "Redis", "valkey", "Valkey", "redict", "Redict", "postgresql", "PostgreSQL", "pgbouncer", "PgBouncer", "mariadb", "MariaDB",
		"mysql", "MySQL", "sqlite", "SQLite", "zookeeper", "ZooKeeper", "nats", "NATS")
	found := regexp.MustCompile(`(?s)\n` + table + `='\n(.*?)'`).FindStringSubmatch(servers)
	require.NotNil(t, found, table)
	var products []string
	versions := make(map[string][]string)
	for line := range strings.Lines(found[1]) {
		fields := strings.Fields(line)
		name := fields[0]
		switch {
		case fields[1] == "nowhere":
			continue
		case name == "system":
			name = fields[2]
		}
		product, v, _ := strings.Cut(name, "-")
		if !slices.Contains(products, product) {
			products = append(products, product)
		}
		versions[product] = append(versions[product], v)
	}
	for i, product := range products {
		of := versions[product]
		slices.SortFunc(of, func(a, b string) int {
			var x, y [2]int
			_, _ = fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
			_, _ = fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
			return slices.Compare(x[:], y[:])
		})
		products[i] = strings.TrimSpace(names.Replace(product) + " " + strings.Join(of, ", "))
	}
	return strings.Join(products, ", ")
}

// TestTheSnippetOfTheReadmeRuns runs the first snippet of the README as it is pasted. It needs no server.
func TestTheSnippetOfTheReadmeRuns(t *testing.T) {
	snippet := snippets.FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, snippet)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(snippet[1]), 0o600))
	out, err := goTool(t, "run", file)
	require.NoError(t, err, "%s", out)
	assert.Contains(t, out, "shipping with fencing token ")
}

// TestQuickstartRuns runs the shortest example on a server.
func TestQuickstartRuns(t *testing.T) {
	const address = "localhost:6379"
	program := read(t, "examples/quickstart/main.go")
	require.Contains(t, program, address)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(program, address, testredis.Start(t).Addr())), 0o600))
	out, err := goTool(t, "run", file)
	require.NoError(t, err, "%s", out)
	assert.Contains(t, out, "shipping with fencing token ")
}

// TestBothReadmesSayTheSame checks that the Chinese README has the code, the commands, the figures and
// the links of the English one, and that each links to the other in its first line.
func TestBothReadmesSayTheSame(t *testing.T) {
	english, chinese := read(t, "README.md"), read(t, "README.zh-CN.md")
	first := func(text string) string { line, _, _ := strings.Cut(text, "\n"); return line }
	assert.Contains(t, first(english), "(README.zh-CN.md)")
	assert.Contains(t, first(chinese), "(README.md)")
	assert.LessOrEqual(t, strings.Count(english, "\n"), 90, "lines of a first screen")

	assert.Equal(t, snippets.FindAllString(english, -1), snippets.FindAllString(chinese, -1))
	all := func(pattern *regexp.Regexp, text string) (found []string) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, strings.TrimSpace(m[1]))
		}
		return found
	}
	commands := regexp.MustCompile(`(?m)^    ([^#\n]+)`) // comments are in the language of the page
	assert.Equal(t, all(commands, english), all(commands, chinese))
	quoted := regexp.MustCompile("`([^`\n]+)`")
	assert.Equal(t, all(quoted, english), all(quoted, chinese))
	targets := func(text string) []string {
		text = strings.NewReplacer("README.zh-CN.md", "README.md", "choose.zh-CN.svg", "choose.svg").Replace(text)
		return all(regexp.MustCompile(`(?:\]\(|srcset="|src=")([^)"]+)`), text)
	}
	assert.Equal(t, targets(english), targets(chinese))
	for _, target := range targets(english) {
		assert.NoError(t, checkLink("README.md", target), target)
	}
	rows := regexp.MustCompile(`(?m)^(\|.*\|)$`)
	figures := func(text string) [][]string {
		var of [][]string
		for _, row := range all(rows, text) {
			of = append(of, all(regexp.MustCompile(`(\d[\d.,]*\d|\d)`), row))
		}
		return of
	}
	assert.Equal(t, figures(english), figures(chinese))
}

// goTool runs the go command on a file. It builds as this test was built, with or without the race
// detector and the paths of the files, so that the packages need not be compiled a second time.
func goTool(t *testing.T, command, file string) (output string, err error) {
	args := []string{command}
	info, _ := debug.ReadBuildInfo()
	for _, flag := range []string{"-race", "-trimpath"} {
		if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: flag, Value: "true"}) {
			args = append(args, flag)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, file)...).CombinedOutput()
	return string(out), err
}

// TestThePageForAuthorsNamesCases checks the names of cases of both suites in EXTENDING.md.
func TestThePageForAuthorsNamesCases(t *testing.T) {
	stores, engines, found := strings.Cut(read(t, "docs/EXTENDING.md"), "\n## A timer engine\n")
	require.True(t, found)
	for _, part := range []struct {
		text, dir string
		name      *regexp.Regexp
	}{
		{stores, "lock/locktest", named},
		{engines, "schedule/scheduletest", firstField},
	} {
		cases := map[string]bool{}
		walk(t, func(path string) {
			if filepath.ToSlash(filepath.Dir(path)) == part.dir {
				for _, m := range part.name.FindAllStringSubmatch(read(t, path), -1) {
					cases[m[1]] = true
				}
			}
		})
		checked := 0
		for _, m := range sentences.FindAllStringSubmatch(part.text, -1) {
			assert.True(t, cases[m[1]], "%s is no case of %s", m[1], part.dir)
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
		if filepath.Ext(path) != ".go" || strings.Contains(path, "testdata") || strings.HasPrefix(filepath.ToSlash(path), "contrib/compat/") {
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
