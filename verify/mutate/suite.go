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
	dir     string        // the working directory
	timeout time.Duration // of one test without a mutant
	tests   []test        // ordered by duration
}

// test is a test function.
type test struct {
	name     string
	duration time.Duration
	blocks   []block // of the target; nil if unknown: the test counts for every line
}

// Tests time out after timeoutFactor times their normal duration plus timeoutMargin. A
// mutant may make them slower, or hang.
const (
	timeoutFactor = 5
	timeoutMargin = 5 * time.Second
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

// measure runs each test alone and without a mutant. It returns the tests that fail or
// time out; the suite does not use them.
func (s *suite) measure(only, skip *regexp.Regexp) (failing []string, err error) {
	names, err := s.names(only, skip)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		start := time.Now()
		if err := s.execute(0, s.timeout, "-test.run=^"+name+"$"); err != nil {
			failing = append(failing, name)
			continue
		}
		s.tests = append(s.tests, test{name: name, duration: time.Since(start)})
	}
	if len(s.tests) == 0 {
		return failing, errors.New("no test passes without a mutant")
	}
	slices.SortFunc(s.tests, func(a, b test) int { return cmp.Compare(a.duration, b.duration) })
	return failing, nil
}

// stages group the tests by duration. Each stage is one run of the program. Most
// mutants do not survive the first stage, which is quick.
var stages = []time.Duration{50 * time.Millisecond, time.Second, time.Hour}

// run runs the tests that execute the line of a mutant, and sets its status. It does
// nothing if another suite has killed the mutant.
func (s *suite) run(m *mutant) {
	if m.status == killed || m.status == timedOut {
		return
	}
	tests := s.tests
	for _, stage := range stages {
		var names []string
		var duration time.Duration
		for len(tests) > 0 && tests[0].duration < stage {
			if tests[0].executes(m) {
				names, duration = append(names, tests[0].name), duration+tests[0].duration
			}
			tests = tests[1:]
		}
		if len(names) == 0 {
			continue
		}
		m.status = survived
		err := s.execute(m.id, timeoutFactor*duration+timeoutMargin, "-test.run=^("+strings.Join(names, "|")+")$")
		switch {
		case errors.Is(err, errTimeout):
			m.status = timedOut
			return
		case err != nil:
			m.status = killed
			return
		}
	}
}

// executes reports whether the test executes the line of a mutant. The condition of a
// case belongs to no block, so for these the whole function counts.
func (t test) executes(m *mutant) bool {
	inBlock, inFunction := false, t.blocks == nil
	for _, b := range t.blocks {
		if b.contains(m.file, m.line) && !m.inCase {
			if b.executed {
				return true
			}
			inBlock = true
		}
		within := b.file == m.file && m.firstLine <= b.first && b.last <= m.lastLine
		inFunction = inFunction || within && b.executed
	}
	return inFunction && !inBlock
}

// execute runs the program with a mutant, or with none if it is 0. It returns nil if
// the tests pass, errTimeout, or an error with the output of the first failure.
func (s *suite) execute(mutant int, timeout time.Duration, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+timeoutMargin)
	defer cancel()
	args = append([]string{"-test.failfast", "-test.parallel=8", "-test.timeout=" + timeout.String()}, args...)
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(mutant), "GOMAXPROCS=1", "GOMEMLIMIT=1GiB")
	cmd.WaitDelay = time.Second // a server that a test has started may keep the output open
	setProcessGroup(cmd)
	defer killProcessGroup(cmd)
	var out outputHead
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

// outputHead keeps the first part of the output of a program, because a mutant may
// print without end.
type outputHead struct{ text []byte }

// Write implements io.Writer.
func (h *outputHead) Write(p []byte) (int, error) {
	const limit = 1 << 16
	h.text = append(h.text, p[:min(len(p), limit-len(h.text))]...)
	return len(p), nil
}
