// Package simreport has the tiers of the verification, and the reports that its packages print.
package simreport

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
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

// Counts lists counts in the order of their names.
func Counts(of map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(out, ", ")
}

// Report is what the tests of a package print at their end.
type Report = report.Lines

// NewReport returns an empty report. VERIFY_REPORT may name a folder for it.
func NewReport(name string) *Report { return report.NewLines(name, "VERIFY_REPORT") }
