package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// block is a part of a file, from a line to another.
type block struct {
	file       string
	from, till int
	executed   bool
}

func (b block) has(file string, line int) bool {
	return b.file == file && b.from <= line && line <= b.till
}

// longest is what a test of a package may take by itself.
const longest = 10 * time.Minute

// suite returns the tests of a package, which may be that of the mutants or one that
// uses it, with all mutants in it and with what each test executes of their package.
func (t *target) suite(dir string, skip *regexp.Regexp) (s *suite, failing []string, err error) {
	name := filepath.Join(t.work, filepath.Base(dir))
	plain := &suite{program: name + ".cover", dir: dir, bound: longest}
	if out, err := compile(dir, "-cover", "-coverpkg="+t.ImportPath, "-o", plain.program); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	s = &suite{program: name + ".test", dir: dir, bound: longest}
	if out, err := compile(dir, "-overlay", t.overlayPath(), "-o", s.program); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	if failing, err = s.time(regexp.MustCompile("."), skip); err != nil {
		return nil, failing, err
	}
	for i := range s.tests {
		one := &s.tests[i]
		profile := filepath.Join(t.work, "cover.out")
		err := plain.execute(0, longest, "-test.run=^"+one.name+"$", "-test.coverprofile="+profile)
		if err != nil {
			continue // and counts as one that executes all
		}
		if one.blocks, err = covered(profile); err != nil {
			return nil, nil, err
		}
	}
	return s, failing, nil
}

var profileLine = regexp.MustCompile(`([^/\s]+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)`)

// covered reads the blocks of a package, and which of them were executed.
func covered(profile string) ([]block, error) {
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	blocks := []block{}
	for _, found := range profileLine.FindAllStringSubmatch(string(text), -1) {
		from, _ := strconv.Atoi(found[2])
		till, _ := strconv.Atoi(found[3])
		blocks = append(blocks, block{found[1], from, till, found[4] != "0"})
	}
	return blocks, nil
}
