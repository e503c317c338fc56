// Lines that the tests of a package print at their end.

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Lines are what the tests of a package print after the last of them. The methods are safe for concurrent use.
type Lines struct {
	name, folder string

	mu    sync.Mutex // guards lines
	lines []string
}

// NewLines returns no lines. If the environment variable names a folder, the lines are also written to a file there,
// because go test does not show the output of tests that pass.
func NewLines(name, variable string) *Lines { return &Lines{name: name, folder: os.Getenv(variable)} }

// Add adds a line, unless it was added before.
func (l *Lines) Add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.lines, line) {
		l.lines = append(l.lines, line)
	}
}

// Runner is a *testing.M, or a wrapper of one.
type Runner interface{ Run() int }

// Around returns a Runner that runs the tests and then prints the lines.
func (l *Lines) Around(m Runner) Runner { return around{m, l} }

type around struct {
	Runner
	lines *Lines
}

// Run implements Runner.
func (a around) Run() int {
	code := a.Runner.Run()
	if err := a.lines.print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func (l *Lines) print() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return nil
	}
	block := "== " + l.name + "\n" + strings.Join(l.lines, "\n") + "\n"
	fmt.Print(block)
	if l.folder == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(l.folder, strings.ReplaceAll(l.name, "/", " ")+".txt"), []byte(block), 0o600)
}

// Quantiles returns the number of durations, the median, the 99th percentile and the maximum. It sorts them.
func Quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d, p50 %v, p99 %v, max %v", len(all), at(50), at(99), at(100))
}
