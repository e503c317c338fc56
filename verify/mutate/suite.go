package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// suite is a test program.
type suite struct {
	program string
	dir     string        // in which it runs
	bound   time.Duration // of one test without a mutant
	tests   []test        // the quickest first
}

// test is a test function.
type test struct {
	name   string
	took   time.Duration
	blocks []block // of the package; nil: it executes all
}

// A mutant may take so many times as long as its tests do without it, and the
// grace. What takes longer hangs.
const (
	patience = 5
	grace    = 5 * time.Second
)

var errTimeout = errors.New("timed out")

// names lists the tests of the program.
func (s *suite) names(only, skip *regexp.Regexp) ([]string, error) {
	list := exec.Command(s.program, "-test.list=.")
	list.Dir = s.dir
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		isTest := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example")
		if isTest && only.MatchString(name) && !skip.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// time runs each test by itself, without a mutant. Those that fail then, or take
// too long, are left out, and returned.
func (s *suite) time(only, skip *regexp.Regexp) (failing []string, err error) {
	names, err := s.names(only, skip)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		begun := time.Now()
		if err := s.execute(0, s.bound, "-test.run=^"+name+"$"); err != nil {
			failing = append(failing, name)
			continue
		}
		s.tests = append(s.tests, test{name: name, took: time.Since(begun)})
	}
	if len(s.tests) == 0 {
		return failing, errors.New("no test passes without a mutant")
	}
	slices.SortFunc(s.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return failing, nil
}

// stages part the tests by how long they take. The quickest have a run of their own:
// most mutants do not survive them.
var stages = []time.Duration{50 * time.Millisecond, time.Second, time.Hour}

// try runs the tests that execute the line of a mutant, unless others have killed it.
func (s *suite) try(m *mutant) {
	if m.outcome == killed || m.outcome == timedOut {
		return
	}
	tests := s.tests
	for _, stage := range stages {
		var names []string
		var took time.Duration
		for len(tests) > 0 && tests[0].took < stage {
			if tests[0].executes(m) {
				names, took = append(names, tests[0].name), took+tests[0].took
			}
			tests = tests[1:]
		}
		if len(names) == 0 {
			continue
		}
		m.outcome = survived
		err := s.execute(m.id, patience*took+grace, "-test.run=^("+strings.Join(names, "|")+")$")
		switch {
		case errors.Is(err, errTimeout):
			m.outcome = timedOut
			return
		case err != nil:
			m.outcome, m.detail = killed, err.Error()
			return
		}
	}
}

// executes tells whether the test executes the line of a mutant. The cases of a switch
// belong to no block: of those it is the function that counts.
func (t test) executes(m *mutant) bool {
	known, inFunction := false, t.blocks == nil
	for _, b := range t.blocks {
		if b.has(m.file, m.line) && !m.inCase {
			if b.executed {
				return true
			}
			known = true
		}
		within := b.file == m.file && m.begin <= b.from && b.till <= m.end
		inFunction = inFunction || within && b.executed
	}
	return inFunction && !known
}

// execute runs tests, with a mutant or with none, up to the first that fails.
func (s *suite) execute(mutant int, bound time.Duration, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound+grace)
	defer cancel()
	args = append([]string{"-test.failfast", "-test.parallel=8", "-test.timeout=" + bound.String()}, args...)
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(mutant), "GOMAXPROCS=1", "GOMEMLIMIT=1GiB")
	cmd.WaitDelay = time.Second // a server that a test has started may hold the output
	alone(cmd)
	defer endGroup(cmd)
	var out head
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || strings.Contains(string(out.text), "panic: test timed out") {
		return errTimeout
	}
	return fmt.Errorf("%w: %s", err, out.text)
}

// head keeps the beginning of what a program prints: a mutant may print for ever.
type head struct{ text []byte }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	const most = 1 << 16
	h.text = append(h.text, p[:min(len(p), most-len(h.text))]...)
	return len(p), nil
}
