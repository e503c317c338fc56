package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// block is a range of lines in a file, as the coverage profile reports it.
type block struct {
	file        string
	first, last int
	executed    bool
}

func (b block) contains(file string, line int) bool {
	return b.file == file && b.first <= line && line <= b.last
}

// maxTestTime bounds a single test without a mutant.
const maxTestTime = 10 * time.Minute

// suite builds the tests of a folder with all mutants of the target. The folder holds
// the target itself or a package that uses it. The suite knows which lines of the
// target each test executes. Failing are the tests that fail without a mutant.
func (t *target) suite(dir string, skip *regexp.Regexp) (s *suite, failing []string, err error) {
	name := filepath.Join(t.work, filepath.Base(dir))
	original := &suite{program: name + ".cover", dir: dir, timeout: maxTestTime}
	if out, err := compileTests(dir, "-cover", "-coverpkg="+t.ImportPath, "-o", original.program); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	s = &suite{program: name + ".test", dir: dir, timeout: maxTestTime}
	if out, err := compileTests(dir, "-overlay", t.overlayPath(), "-o", s.program); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	if failing, err = s.measure(regexp.MustCompile("."), skip); err != nil {
		return nil, failing, err
	}
	for i := range s.tests {
		test := &s.tests[i]
		profile := filepath.Join(t.work, "cover.out")
		err := original.execute(0, maxTestTime, "-test.run=^"+test.name+"$", "-test.coverprofile="+profile)
		if err != nil {
			continue // without a profile, the test counts as one that executes every line
		}
		if test.blocks, err = readProfile(profile); err != nil {
			return nil, nil, err
		}
	}
	return s, failing, nil
}

var profileLine = regexp.MustCompile(`([^/\s]+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)`)

// readProfile reads the blocks of a coverage profile.
func readProfile(path string) ([]block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	blocks := []block{}
	for _, found := range profileLine.FindAllStringSubmatch(string(text), -1) {
		first, _ := strconv.Atoi(found[2])
		last, _ := strconv.Atoi(found[3])
		blocks = append(blocks, block{found[1], first, last, found[4] != "0"})
	}
	return blocks, nil
}
