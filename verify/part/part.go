// Package part is what the parts of the verification share: how long they may
// take, and how they report.
package part

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Tiers, from VERIFY_TIER; nothing means Quick.
const (
	Quick   = "quick"   // minutes, in CI
	Long    = "long"    // an hour
	Nightly = "nightly" // hours
	Release = "release" // a day
)

// Tier returns the tier.
func Tier() string { return cmp.Or(os.Getenv("VERIFY_TIER"), Quick) }

// IsLong tells whether the tier is Long, or above it.
func IsLong() bool { return Tier() != Quick }

// Report is the block that a part prints at its end. Its methods are safe for
// concurrent use.
type Report struct {
	name string

	mu    sync.Mutex // guards lines
	lines []string
}

// NewReport returns the report of a part.
func NewReport(name string) *Report { return &Report{name: name} }

// Add adds a line.
func (r *Report) Add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Print prints the block and, if VERIFY_REPORT names a folder, leaves it there as
// a file: go test shows nothing of tests that pass.
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
