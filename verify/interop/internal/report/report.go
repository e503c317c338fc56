// Package report collects what the tests of a package have run against real libraries, and prints it
// after the last test: versions, contended rounds, hand-overs, and the libraries that were missing.
package report

import (
	"errors"
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/internal/report"
)

var lines *report.Lines

var rounds = flag.Int("rounds", 5000, "contended rounds of each side with the main lock of a library; others have a part of them")

// Runner is a *testing.M, or a wrapper of one.
type Runner = report.Runner

// Around returns a Runner that runs m and then prints the report.
func Around(m Runner, title string) Runner {
	lines = report.NewLines(title, "INTEROP_REPORT")
	return lines.Around(m)
}

// Rounds returns how many contended rounds a test has whose share of the work is one part in so many.
func Rounds(part int) int { return max(*rounds/part, 2) }

// Note adds a line.
func Note(format string, args ...any) { lines.Add(format, args...) }

// Contended adds contended rounds of a lock: so many of each side.
func Contended(peer, lock string, each int, took time.Duration) {
	Note("%-12s  %-28s  %d contended rounds of each side in %v", peer, lock, each, took.Round(10*time.Millisecond))
}

// HandOvers adds the times from a release on one side to the acquire that it enables on the other.
func HandOvers(peer, lock string, toPeer, toUs []time.Duration) {
	Note("%-12s  %-28s  hand-overs to the peer: %s; to us: %s", peer, lock, report.Quantiles(toPeer), report.Quantiles(toUs))
}

// Missing skips a test of a library because a program or a package that it needs is missing. The
// report shows it in capitals.
func Missing(t testing.TB, library string, because error) {
	t.Helper()
	Note("WARNING: NOT TESTED AGAINST %s, because %v", library, because)
	t.Skipf("NOT TESTED AGAINST %s, because %v", library, because)
}

// Programs skips the test of a library if one of the programs is not in PATH.
func Programs(t testing.TB, library string, names ...string) {
	t.Helper()
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		Missing(t, library, errors.New("PATH has no "+strings.Join(missing, ", ")))
	}
}
