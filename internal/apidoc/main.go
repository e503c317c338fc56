// Command apidoc writes the documentation of the public packages as Markdown, for the site.
//
//	apidoc MODULE FOLDER
//
// MODULE is the path of the module in the current folder. FOLDER gets a page for each package below the current folder,
// also in nested modules, and an index of them. No module is loaded: packages are found by their files.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: apidoc MODULE FOLDER")
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		log.Fatal("apidoc: ", err)
	}
}

var (
	private   = regexp.MustCompile(`(^|/)(internal|testdata|check|examples|recipes|tools|benchmarks|verify|cmd|build|\.[^/]+)$`)
	ours      = regexp.MustCompile(`\]\(https://(?:github\.com/[^/]+/[^/]+/blob/main|pkg\.go\.dev)/([^)#]+)`) // a link to a page or a package
	arguments = regexp.MustCompile(`\[.*\]`)                                                                  // of a generic type
)

func write(module, folder string) error {
	var packages []*build.Package
	pages := map[string]string{} // file names by import paths
	err := filepath.WalkDir(".", func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if private.MatchString(filepath.ToSlash(dir)) {
			return fs.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		if _, none := errors.AsType[*build.NoGoError](err); none || dir == "." || p.Name == "main" {
			return nil
		}
		p.ImportPath = module + "/" + filepath.ToSlash(dir)
		pages[p.ImportPath] = strings.ReplaceAll(filepath.ToSlash(dir), "/", "-") + ".md"
		packages = append(packages, p)
		return err
	})
	slices.SortStableFunc(packages, func(a, b *build.Package) int { // contrib is last
		return strings.Count(a.Dir, "contrib") - strings.Count(b.Dir, "contrib")
	})
	if err == nil {
		err = os.MkdirAll(folder, 0o777)
	}
	index := "# Packages\n\n| package | is |\n|---|---|\n"
	for _, from := range packages {
		if err != nil {
			return err
		}
		p := &page{pages: pages, fset: token.NewFileSet()}
		if err := p.render(from); err != nil {
			return fmt.Errorf("%s: %w", from.Dir, err)
		}
		name := pages[from.ImportPath]
		index += fmt.Sprintf("| [%s](%s) | %s |\n", filepath.ToSlash(from.Dir), name, strings.ReplaceAll(from.Doc, "|", `\|`))
		err = os.WriteFile(filepath.Join(folder, name), p.out.Bytes(), 0o666)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(folder, "README.md"), []byte(index), 0o666))
}

// page is the page of one package.
type page struct {
	out   bytes.Buffer
	pages map[string]string // of all packages
	fset  *token.FileSet
	pkg   *doc.Package
}

func (p *page) render(from *build.Package) error {
	var files []*ast.File
	for _, name := range slices.Concat(from.GoFiles, from.TestGoFiles, from.XTestGoFiles) {
		f, err := parser.ParseFile(p.fset, filepath.Join(from.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var err error
	if p.pkg, err = doc.NewFromFiles(p.fset, files, from.ImportPath); err != nil {
		return err
	}
	fmt.Fprintf(&p.out, "# %s\n\n```go\nimport %q\n```\n\n", filepath.ToSlash(from.Dir), from.ImportPath)
	p.text(p.pkg.Doc, 2)
	p.examples(p.pkg.Examples)
	p.values("## Constants\n\n", p.pkg.Consts)
	p.values("## Variables\n\n", p.pkg.Vars)
	p.funcs("##", p.pkg.Funcs)
	for _, t := range p.pkg.Types {
		fmt.Fprintf(&p.out, "## type %s {#%[1]s data-toc-label=%[1]s}\n\n", t.Name)
		ast.Inspect(t.Decl, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					p.anchor(t.Name + "." + name.Name)
				}
			}
			return true
		})
		p.code(t.Decl)
		p.text(t.Doc, 4)
		p.values("", slices.Concat(t.Consts, t.Vars))
		p.examples(t.Examples)
		p.funcs("###", slices.Concat(t.Funcs, t.Methods))
	}
	return nil
}

func (p *page) funcs(level string, funcs []*doc.Func) {
	for _, f := range funcs {
		title, id := f.Name, f.Name
		if f.Recv != "" {
			title = "(" + strings.ReplaceAll(f.Recv, "*", `\*`) + ") " + f.Name
			id = strings.TrimLeft(arguments.ReplaceAllString(f.Recv, ""), "*") + "." + f.Name
		}
		fmt.Fprintf(&p.out, "%s func %s {#%s data-toc-label=%s}\n\n", level, title, id, f.Name)
		p.code(f.Decl)
		p.text(f.Doc, 4)
		p.examples(f.Examples)
	}
}

func (p *page) values(heading string, values []*doc.Value) {
	for _, v := range values {
		p.out.WriteString(heading)
		heading = ""
		for _, name := range v.Names {
			p.anchor(name)
		}
		p.code(v.Decl)
		p.text(v.Doc, 4)
	}
}

func (p *page) examples(examples []*doc.Example) {
	for _, e := range examples {
		fmt.Fprintf(&p.out, "**%s**\n\n", strings.TrimSpace("Example "+e.Suffix))
		p.text(e.Doc, 4)
		if e.Play != nil { // a whole program
			p.code(e.Play)
		} else {
			p.code(&printer.CommentedNode{Node: e.Code, Comments: e.Comments})
		}
		if e.Output != "" {
			fmt.Fprintf(&p.out, "Output:\n\n```text\n%s```\n\n", e.Output)
		}
	}
}

// anchor makes the code that follows a target of links to the name, which has no heading.
func (p *page) anchor(name string) { fmt.Fprintf(&p.out, "<a id=%q></a>", name) }

func (p *page) code(node any) {
	p.out.WriteString("\n\n```go\n")
	if err := format.Node(&p.out, p.fset, node); err != nil {
		log.Fatal("apidoc: ", err) // the parser has accepted it
	}
	p.out.WriteString("\n```\n\n")
}

// text prints a doc comment. Links to documented packages and to pages of the repository lead to those of the site.
func (p *page) text(text string, level int) {
	to := p.pkg.Printer()
	to.HeadingLevel = level
	to.DocLinkURL = func(link *comment.DocLink) string {
		target := p.pages[link.ImportPath]
		if link.ImportPath != "" && target == "" {
			return link.DefaultURL("https://pkg.go.dev")
		}
		if link.Name != "" {
			target += "#" + strings.TrimPrefix(link.Recv+"."+link.Name, ".")
		}
		return target
	}
	markdown := strings.ReplaceAll(string(to.Markdown(p.pkg.Parser().Parse(text))), `\<`, "&lt;") // mkdocs has no \<
	p.out.WriteString(ours.ReplaceAllStringFunc(markdown, func(link string) string {
		path := ours.FindStringSubmatch(link)[1]
		if strings.HasPrefix(path, "docs/") {
			return "](../" + path
		}
		if page := p.pages[path]; page != "" {
			return "](" + page
		}
		return link
	}) + "\n")
}
