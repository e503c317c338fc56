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

// target is a package whose mutants are tried.
type target struct {
	Dir, Name, ImportPath string
	GoFiles               []string

	finders []*finder
	mutants []*mutant
	work    string // a folder for what is built
}

// list asks the go command for a package.
func list(root, path string) (*target, error) {
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
	t, err := list(root, path)
	if err != nil {
		return nil, err
	}
	t.work = work
	for _, name := range t.GoFiles {
		text, err := os.ReadFile(filepath.Join(t.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := find(name, string(text))
		if err != nil {
			return nil, err
		}
		t.finders = append(t.finders, f)
		for _, m := range f.all {
			t.mutants = append(t.mutants, m)
			m.id = len(t.mutants)
		}
	}
	return t, nil
}

// build makes an overlay of the package with all mutants that compile. The others are
// those of the lines that the compiler complains about; it may have to be asked more
// than once.
func (t *target) build() error {
	for range 20 {
		lines, err := t.overlay()
		if err != nil {
			return err
		}
		cmd := exec.Command("go", "build", "-gcflags=-e", "-overlay", t.overlayPath(), ".")
		cmd.Dir = t.Dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if t.drop(lines, string(out)) == 0 {
			return fmt.Errorf("%s does not compile: %w\n%s", t.ImportPath, err, out)
		}
	}
	return errors.New(t.ImportPath + ": there is no end of mutants that do not compile")
}

// compile builds the test program of the package in a folder.
func compile(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-vet=off"}, args...), ".")...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (t *target) overlayPath() string { return filepath.Join(t.work, "overlay.json") }

// overlay writes the woven files. For each it returns which mutants are on which
// line.
func (t *target) overlay() (lines map[string][][]int, err error) {
	lines = make(map[string][][]int)
	replace := make(map[string]string)
	write := func(name, text string) error {
		place := filepath.Join(t.work, "woven_"+name)
		replace[filepath.Join(t.Dir, name)] = place
		return os.WriteFile(place, []byte(text), 0o600)
	}
	for _, f := range t.finders {
		woven := f.weave(func(m *mutant) bool { return m.outcome != doesNotCompile })
		lines[f.name] = marked(woven)
		if err := write(f.name, woven); err != nil {
			return nil, err
		}
	}
	if err := write("zz_switchboard.go", switchboard(t.Name)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return lines, os.WriteFile(t.overlayPath(), text, 0o600)
}

var markOf = regexp.MustCompile(`/\*m(\d+)\*/`)

// marked returns for each line of a woven file the mutants that have a part of it.
func marked(woven string) [][]int {
	lines := [][]int{nil} // they count from 1
	open := 0
	for line := range strings.SplitSeq(woven, "\n") {
		var here []int
		if open != 0 {
			here = append(here, open)
		}
		for _, found := range markOf.FindAllStringSubmatch(line, -1) {
			open, _ = strconv.Atoi(found[1])
			if open != 0 {
				here = append(here, open)
			}
		}
		lines = append(lines, here)
	}
	return lines
}

var compileError = regexp.MustCompile(`(?m)^(?:[^\s:]*/)?([^\s:/]+\.go):(\d+):(.*)`)

// drop notes the mutants that the compiler complains about, and returns how many.
func (t *target) drop(lines map[string][][]int, output string) int {
	dropped := 0
	for _, found := range compileError.FindAllStringSubmatch(output, -1) {
		line, _ := strconv.Atoi(found[2])
		of := lines[strings.TrimPrefix(found[1], "woven_")]
		if line >= len(of) {
			continue
		}
		for _, id := range of[line] {
			dropped += t.mutants[id-1].isBroken()
		}
		if len(of[line]) > 0 || !strings.Contains(found[3], "missing return") {
			continue
		}
		// A function that ends in an endless loop, out of which mutants break, or in a
		// panic, which they leave out.
		for len(of[line]) == 0 {
			line--
		}
		function := t.mutants[of[line][0]-1].function
		for _, m := range t.mutants {
			if m.function == function && (m.text == "break" || strings.HasPrefix(m.before, "panic(")) {
				dropped += m.isBroken()
			}
		}
	}
	return dropped
}

// isBroken notes that a mutant does not compile, and returns 1 if that is news.
func (m *mutant) isBroken() int {
	if m.outcome == doesNotCompile {
		return 0
	}
	m.outcome = doesNotCompile
	return 1
}
