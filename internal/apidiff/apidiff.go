// Package apidiff finds what a package lacks of the exported interface of another one. Tests of
// packages that replace others use it.
package apidiff

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Pair are the import paths of a package and of the one that replaces it.
type Pair struct{ Original, Replacement string }

// Missing returns what the replacements lack of the originals: a line for each exported name,
// method or field that is missing or has another type. Names of parameters do not count. Types of
// all given packages correspond to each other. A replacement may have more names, but no more
// methods in an interface, because types of users implement it.
//
// The go command compiles the packages, in the module of the current folder.
func Missing(pairs ...Pair) ([]string, error) {
	load, err := compiled(pairs)
	if err != nil {
		return nil, err
	}
	s := speller{}
	for _, p := range pairs {
		s[p.Original] = p.Original
		s[p.Replacement] = p.Original
	}
	var missing []string
	for _, p := range pairs {
		original, err := load.Import(p.Original)
		if err != nil {
			return nil, err
		}
		replacement, err := load.Import(p.Replacement)
		if err != nil {
			return nil, err
		}
		missing = append(missing, s.compare(original, replacement)...)
	}
	return missing, nil
}

// compiled returns an importer of the packages and of all that they import.
func compiled(pairs []Pair) (types.Importer, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	for _, p := range pairs {
		args = append(args, p.Original, p.Replacement)
	}
	cmd := exec.Command("go", args...)
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apidiff: go list: %w\n%s", err, &faults)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
	return importer.ForCompiler(token.NewFileSet(), "gc", open), nil
}

// speller writes types as text, with the names of packages by their paths. Packages that
// correspond to each other have one name.
type speller map[string]string

// compare returns what the replacement lacks.
func (s speller) compare(original, replacement *types.Package) []string {
	var missing []string
	for _, name := range original.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		was := s.object(original.Scope().Lookup(name))
		var is []string
		if found := replacement.Scope().Lookup(name); found != nil {
			is = s.object(found)
		}
		for _, line := range was {
			if !slices.Contains(is, line) {
				missing = append(missing, line)
			}
		}
	}
	return missing
}

// object describes an exported object: a line for the object, and one for each field and method
// of a type.
func (s speller) object(o types.Object) []string {
	name := s.qualify(o.Pkg()) + "." + o.Name()
	switch o := o.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s = %s", name, s.text(o.Type()), o.Val().ExactString())}
	case *types.Var:
		return []string{"var " + name + " " + s.text(o.Type())}
	case *types.Func:
		return []string{"func " + name + " " + s.text(o.Type())}
	}
	lines := []string{"type " + name + " " + s.underlying(o.Type())}
	if of, ok := o.Type().Underlying().(*types.Struct); ok {
		for f := range of.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("field %s.%s %s, embedded: %t", name, f.Name(), s.text(f.Type()), f.Embedded()))
			}
		}
	}
	for _, receiver := range []types.Type{o.Type(), types.NewPointer(o.Type())} {
		for method := range types.NewMethodSet(receiver).Methods() {
			if m := method.Obj(); m.Exported() {
				lines = append(lines, fmt.Sprintf("method (%s) %s %s", s.text(receiver), m.Name(), s.text(m.Type())))
			}
		}
	}
	return lines
}

// underlying writes what a type is. Fields of a struct may be added, so they do not belong to it.
func (s speller) underlying(t types.Type) string {
	if _, ok := t.Underlying().(*types.Struct); ok {
		return "struct"
	}
	return s.text(t.Underlying())
}

// text writes a type without the names of parameters.
func (s speller) text(t types.Type) string {
	switch t := t.(type) {
	case *types.Pointer:
		return "*" + s.text(t.Elem())
	case *types.Slice:
		return "[]" + s.text(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), s.text(t.Elem()))
	case *types.Map:
		return "map[" + s.text(t.Key()) + "]" + s.text(t.Elem())
	case *types.Chan:
		return fmt.Sprintf("chan(%d) %s", t.Dir(), s.text(t.Elem()))
	case *types.Signature:
		return fmt.Sprintf("func(%s)(%s), variadic: %t", s.tuple(t.Params()), s.tuple(t.Results()), t.Variadic())
	case *types.Interface:
		var methods []string
		for m := range t.Methods() {
			methods = append(methods, m.Name()+" "+s.text(m.Type()))
		}
		slices.Sort(methods)
		return "interface{" + strings.Join(methods, "; ") + "}"
	default:
		return types.TypeString(t, s.qualify)
	}
}

func (s speller) tuple(t *types.Tuple) string {
	var list []string
	for v := range t.Variables() {
		list = append(list, s.text(v.Type()))
	}
	return strings.Join(list, ", ")
}

func (s speller) qualify(p *types.Package) string {
	if name, ok := s[p.Path()]; ok {
		return name
	}
	return p.Path()
}
