// Package simreport has the tiers of the verification, and the reports that its packages print.
package simreport

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Tiers are values of VERIFY_TIER. The default is Quick.
const (
	Quick   = "quick"   // minutes, in CI
	Long    = "long"    // an hour
	Nightly = "nightly" // hours
	Release = "release" // a day
)

// Tier returns the tier.
func Tier() string { return cmp.Or(os.Getenv("VERIFY_TIER"), Quick) }

// IsLong reports whether the tier is longer than Quick.
func IsLong() bool { return Tier() != Quick }

// Root returns the folder of the core module. Tests run in the folder of their package.
func Root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, found := os.Stat(filepath.Join(dir, "verify", "go.mod")); found == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	panic(fmt.Sprintf("simreport: no module root above %s: %v", dir, err))
}

// Report collects the lines that the tests of a package print at their end. Its methods are
// safe for concurrent use.
type Report struct {
	name string

	mu    sync.Mutex // guards lines
	lines []string
}

// NewReport returns an empty report.
func NewReport(name string) *Report { return &Report{name: name} }

// Add adds a line.
func (r *Report) Add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Print prints the report. If VERIFY_REPORT names a folder, it also writes a file there, because
// go test does not show the output of tests that pass.
func (r *Report) Print() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return nil
	}
	block := "== " + r.name + "\n" + strings.Join(r.lines, "\n") + "\n"
	fmt.Print(block)
	dir := os.Getenv("VERIFY_REPORT")
	if dir == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, r.name+".txt"), []byte(block), 0o600)
}
