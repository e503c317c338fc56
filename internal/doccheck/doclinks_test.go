package doccheck_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Addresses of the files and of the packages of this module.
const (
	repository = "https://github.com/leasewheel/leasewheel/blob/main/"
	packages   = "https://pkg.go.dev/github.com/leasewheel/leasewheel/"
)

var (
	brackets = regexp.MustCompile(`(?:^|[^\w"])(\[\*?(?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?\])`)
	docPages = regexp.MustCompile(`\b(?:docs/)?[A-Z]+\.md\b`)
)

// TestTheDocCommentsLinkToWhatExists checks each link in the doc comments of the core module:
// to names, to packages, and to pages of this repository. It also checks that the comments
// of packages mention pages only as links, because a reader at pkg.go.dev has no files.
func TestTheDocCommentsLinkToWhatExists(t *testing.T) {
	names := declared(t)
	folders := map[string]bool{}
	walk(t, func(path string) {
		nested := strings.HasPrefix(path, "verify") || strings.HasPrefix(path, "benchmarks")
		if filepath.Ext(path) == ".go" && !nested && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
			folders[filepath.Dir(path)] = true
		}
	})
	checked := 0
	for folder := range folders {
		c := docChecker{T: t, names: names, folder: folder}
		c.check()
		checked += c.links
	}
	assert.Greater(t, checked, 100)
}

// docChecker checks the doc comments of the package in a folder.
type docChecker struct {
	*testing.T
	names  declarations
	folder string
	parser *comment.Parser
	links  int // checked links to names
}

func (c *docChecker) check() {
	var files []*ast.File
	set := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(c.folder, "*.go"))
	require.NoError(c, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		require.NoError(c, err)
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, c.folder, doc.AllDecls|doc.PreserveAST)
	require.NoError(c, err)
	c.parser = pkg.Parser()
	for _, file := range files {
		if file.Doc != nil {
			c.comment(file.Doc, true)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, group := range docOf(n) {
				if group != nil {
					c.comment(group, false)
				}
			}
			return true
		})
	}
}

// docOf returns the comments that document a node.
func docOf(n ast.Node) []*ast.CommentGroup {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.CommentGroup{n.Doc}
	case *ast.GenDecl:
		return []*ast.CommentGroup{n.Doc}
	case *ast.TypeSpec:
		return []*ast.CommentGroup{n.Doc}
	case *ast.ValueSpec:
		return []*ast.CommentGroup{n.Doc, n.Comment}
	case *ast.Field:
		return []*ast.CommentGroup{n.Doc, n.Comment}
	}
	return nil
}

// comment checks the links of one comment.
func (c *docChecker) comment(group *ast.CommentGroup, ofPackage bool) {
	parsed := c.parser.Parse(group.Text())
	for _, def := range parsed.Links {
		assert.True(c, def.Used, "%s: nothing uses the link %s", c.folder, def.Text)
		c.url(def.URL)
	}
	for _, block := range parsed.Content {
		switch block := block.(type) {
		case *comment.Paragraph:
			c.texts(block.Text, ofPackage)
		case *comment.Heading:
			c.texts(block.Text, ofPackage)
		case *comment.List:
			for _, item := range block.Items {
				for _, b := range item.Content {
					if p, ok := b.(*comment.Paragraph); ok {
						c.texts(p.Text, ofPackage)
					}
				}
			}
		}
	}
}

func (c *docChecker) texts(texts []comment.Text, ofPackage bool) {
	for _, text := range texts {
		switch text := text.(type) {
		case comment.Plain:
			assert.Empty(c, brackets.FindString(string(text)), "%s: a link that leads nowhere", c.folder)
			if ofPackage {
				assert.Empty(c, docPages.FindString(string(text)), "%s: a page without a link", c.folder)
			}
		case *comment.DocLink:
			c.links++
			c.name(text)
		case *comment.Link:
			c.url(text.URL)
		}
	}
}

// name checks a link to a name of another package of this module. Links to names of the
// package itself are resolved by the parser.
func (c *docChecker) name(link *comment.DocLink) {
	if link.ImportPath == "" || link.Name == "" {
		return
	}
	members, ours := c.names.exported[link.ImportPath[strings.LastIndex(link.ImportPath, "/")+1:]]
	if !ours || !strings.HasPrefix(link.ImportPath, "github.com/leasewheel/leasewheel") {
		return
	}
	name := link.Name
	if link.Recv != "" {
		name = link.Recv + "." + name
	}
	assert.True(c, members[name], "%s: no %s in %s", c.folder, name, link.ImportPath)
}

// url checks a link to a file or a package of this module.
func (c *docChecker) url(url string) {
	for _, site := range []string{repository, packages} {
		if path, ours := strings.CutPrefix(url, site); ours {
			assert.NoError(c, checkLink("README.md", path), "%s links to %s", c.folder, url)
			return
		}
	}
	assert.NotContains(c, url, "leasewheel", "%s links to a part of this module in another way", c.folder)
}
