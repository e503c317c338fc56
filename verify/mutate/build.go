package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// target is the package under test.
type target struct {
	Dir, Name, ImportPath string
	GoFiles               []string

	files   []*sourceFile
	mutants []*mutant
	work    string // a folder for generated files
}

// goList asks the go command about a package.
func goList(root, path string) (*target, error) {
	cmd := exec.Command("go", "list", "-json=Dir,Name,ImportPath,GoFiles", path)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", path, err)
	}
	t := new(target)
	return t, json.Unmarshal(out, t)
}

// load finds the mutants of a package.
func load(root, path, work string) (*target, error) {
	t, err := goList(root, path)
	if err != nil {
		return nil, err
	}
	t.work = work
	for _, name := range t.GoFiles {
		text, err := os.ReadFile(filepath.Join(t.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parseFile(name, string(text))
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, f)
		for _, m := range f.mutants {
			t.mutants = append(t.mutants, m)
			m.id = len(t.mutants)
		}
	}
	return t, nil
}

// build writes an overlay of the package with all mutants that compile. It removes the
// mutants on the lines of compile errors and tries again, because the compiler does not
// report all errors at once.
func (t *target) build() error {
	for range 20 {
		lines, err := t.writeOverlay()
		if err != nil {
			return err
		}
		cmd := exec.Command("go", "build", "-gcflags=-e", "-overlay", t.overlayPath(), ".")
		cmd.Dir = t.Dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if t.removeBroken(lines, string(out)) == 0 {
			return fmt.Errorf("%s does not compile: %w\n%s", t.ImportPath, err, out)
		}
	}
	return errors.New(t.ImportPath + ": still mutants that do not compile after 20 builds")
}

// compileTests builds the test program of the package in a folder.
func compileTests(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-vet=off"}, args...), ".")...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (t *target) overlayPath() string { return filepath.Join(t.work, "overlay.json") }

// overlay collects files that the go command reads in place of those of a folder.
type overlay struct {
	dir, work string
	prefix    string // of the names of generated files
	replace   map[string]string
}

// add writes the text that replaces a file of the folder.
func (o *overlay) add(name, text string) error {
	path := filepath.Join(o.work, o.prefix+name)
	o.replace[filepath.Join(o.dir, name)] = path
	return os.WriteFile(path, []byte(text), 0o600)
}

// write writes the file for the flag -overlay of the go command.
func (o *overlay) write(path string) error {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

const instrumentedPrefix = "instrumented_"

// writeOverlay writes the instrumented files. It returns, for each file and line, the
// mutants on that line.
func (t *target) writeOverlay() (lines map[string][][]int, err error) {
	lines = make(map[string][][]int)
	o := overlay{dir: t.Dir, work: t.work, prefix: instrumentedPrefix, replace: make(map[string]string)}
	for _, f := range t.files {
		text := f.instrument(func(m *mutant) bool { return m.status != notViable })
		lines[f.name] = mutantsByLine(text)
		if err := o.add(f.name, text); err != nil {
			return nil, err
		}
	}
	if err := o.add("zz_mutant.go", supportFile(t.Name)); err != nil {
		return nil, err
	}
	return lines, o.write(t.overlayPath())
}

var markPattern = regexp.MustCompile(`/\*m(\d+)\*/`)

// mutantsByLine returns, for each line of an instrumented file, the mutants that cover a
// part of it. Lines count from 1.
func mutantsByLine(text string) [][]int {
	lines := [][]int{nil}
	open := 0
	for line := range strings.SplitSeq(text, "\n") {
		var ids []int
		if open != 0 {
			ids = append(ids, open)
		}
		for _, found := range markPattern.FindAllStringSubmatch(line, -1) {
			open, _ = strconv.Atoi(found[1])
			if open != 0 {
				ids = append(ids, open)
			}
		}
		lines = append(lines, ids)
	}
	return lines
}

var compileError = regexp.MustCompile(`(?m)^(?:[^\s:]*/)?([^\s:/]+\.go):(\d+):(.*)`)

// removeBroken marks the mutants on the lines of compile errors as not viable. It
// returns their number.
func (t *target) removeBroken(lines map[string][][]int, output string) int {
	removed := 0
	for _, found := range compileError.FindAllStringSubmatch(output, -1) {
		line, _ := strconv.Atoi(found[2])
		byLine := lines[strings.TrimPrefix(found[1], instrumentedPrefix)]
		if line >= len(byLine) {
			continue
		}
		for _, id := range byLine[line] {
			removed += t.mutants[id-1].remove()
		}
		if len(byLine[line]) > 0 || !strings.Contains(found[3], "missing return") {
			continue
		}
		// The function ends in an endless loop or in a panic. A mutant breaks out of the
		// loop or leaves the panic out. The error is on the closing brace, after it.
		for len(byLine[line]) == 0 {
			line--
		}
		function := t.mutants[byLine[line][0]-1].function
		for _, m := range t.mutants {
			if m.function == function && (m.text == "break" || strings.HasPrefix(m.before, "panic(")) {
				removed += m.remove()
			}
		}
	}
	return removed
}

// remove marks a mutant as not viable. It returns 1 if the mutant was viable before.
func (m *mutant) remove() int {
	if m.status == notViable {
		return 0
	}
	m.status = notViable
	return 1
}
