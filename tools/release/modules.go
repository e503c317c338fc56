// The modules of the repository, and their requirements of each other.

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// private are names of folders whose modules are only for this repository and its readers.
var private = []string{"benchmarks", "check", "examples", "recipes", "renewdemo", "tools", "verify"}

// module is a module of the repository.
type module struct {
	path, folder string
	rel          string // the folder below the root, with slashes; "." for the core
	public       bool
	core         string // the path of the core module
}

// findModules returns the modules below a root in the order of their paths, the core first.
func findModules(root string) ([]module, error) {
	var all []module
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m := module{path: modfile.ModulePath(text), folder: filepath.Dir(path)}
		rel, err := filepath.Rel(root, m.folder)
		if err != nil {
			return err
		}
		m.rel = filepath.ToSlash(rel)
		m.public = !slices.ContainsFunc(strings.Split(m.rel, "/"), func(name string) bool { return slices.Contains(private, name) })
		all = append(all, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	if len(all) == 0 || all[0].rel != "." {
		return nil, fmt.Errorf("%s: there is no core module", root)
	}
	public := map[string]bool{}
	for i := range all {
		all[i].core = all[0].path
		public[all[i].path] = all[i].public
	}
	for _, m := range all {
		if err := m.checkRequirements(public); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tag returns the name of the tag of a version.
func (m module) tag(version string) string {
	if m.rel == "." {
		return version
	}
	return m.rel + "/" + version
}

// ours reports whether a module belongs to the repository.
func (m module) ours(path string) bool { return path == m.core || strings.HasPrefix(path, m.core+"/") }

func (m module) read() (*modfile.File, error) {
	path := filepath.Join(m.folder, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, text, nil)
}

// checkRequirements refuses requirements of a public module that its users could not resolve, though
// a replace directive resolves them here.
func (m module) checkRequirements(public map[string]bool) error {
	if !m.public {
		return nil
	}
	file, err := m.read()
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		if m.ours(r.Mod.Path) && !public[r.Mod.Path] {
			return fmt.Errorf("%s/go.mod requires %s, which gets no tag", m.rel, r.Mod.Path)
		}
	}
	if m.rel == "." && len(file.Replace) > 0 {
		return fmt.Errorf("go.mod of the core has a replace directive, so go install would refuse its commands")
	}
	return nil
}

// setVersions makes the module require a version of the other modules of the repository, and reports
// whether it requires any.
func (m module) setVersions(version string) (requires bool, err error) {
	file, err := m.read()
	if err != nil {
		return false, err
	}
	for _, r := range file.Require {
		if m.ours(r.Mod.Path) {
			requires = true
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return false, err
			}
		}
	}
	if !requires {
		return false, nil
	}
	text, err := file.Format()
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(filepath.Join(m.folder, "go.mod"), text, 0o644)
}
