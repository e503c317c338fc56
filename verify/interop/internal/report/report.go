// Package report collects what the tests of a package have run against real libraries, and prints it
// after the last test: versions, contended rounds, hand-overs, and the libraries that were missing.
package report

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Env is the environment variable that names a folder for the report. Without it the report is
// printed. The go command prints the output of a package that passes only if it tests no other
// package.
const Env = "INTEROP_REPORT"

var collected struct {
	mu        sync.Mutex // guards all below
	notes     []string
	contended []string
	handOver  []string
	missing   []string
}

var rounds = flag.Int("rounds", 5000, "contended rounds of each side with the main lock of a library; others have a part of them")

// Rounds returns how many contended rounds a test has whose share of the work is one part in so many.
func Rounds(part int) int { return max(*rounds/part, 2) }

// Note adds a line.
func Note(format string, args ...any) { add(&collected.notes, fmt.Sprintf(format, args...)) }

// Contended adds contended rounds of a lock: so many of each side.
func Contended(peer, lock string, each int, took time.Duration) {
	add(&collected.contended, fmt.Sprintf("%s\t%s\t%d\t%v", peer, lock, each, took.Round(10*time.Millisecond)))
}

// HandOvers adds the times from a release on one side to the acquire that it enables on the other.
func HandOvers(peer, lock string, toPeer, toUs []time.Duration) {
	add(&collected.handOver, fmt.Sprintf("%s\t%s\t%s\t%s", peer, lock, quantiles(toPeer), quantiles(toUs)))
}

// T is the part of a *testing.T that skips a test.
type T interface {
	Helper()
	Skipf(format string, args ...any)
}

// Missing skips a test of a library because a program or a package that it needs is missing. The
// report says so in capitals.
func Missing(t T, library string, because error) {
	t.Helper()
	add(&collected.missing, fmt.Sprintf("WARNING: NOT TESTED AGAINST %s, because %v", library, because))
	t.Skipf("NOT TESTED AGAINST %s, because %v", library, because)
}

// Programs skips the test of a library if one of the programs is not in PATH.
func Programs(t T, library string, names ...string) {
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

func add(to *[]string, line string) {
	collected.mu.Lock()
	defer collected.mu.Unlock()
	if !slices.Contains(*to, line) {
		*to = append(*to, line)
	}
}

// quantiles returns the number of durations, the median, the 99th percentile and the maximum as cells.
func quantiles(took []time.Duration) string {
	if len(took) == 0 {
		return "0\t-\t-\t-"
	}
	slices.Sort(took)
	n := len(took)
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d\t%v\t%v\t%v", n, round(took[n/2]), round(took[n*99/100]), round(took[n-1]))
}

// Runner is the interface of a *testing.M.
type Runner interface{ Run() int }

// Around returns a Runner that runs m and then prints the report.
func Around(m Runner, title string) Runner { return around{m, title} }

type around struct {
	Runner
	title string
}

// Run implements Runner.
func (a around) Run() int {
	code := a.Runner.Run()
	if err := a.report(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func (a around) report() error {
	out := os.Stdout
	if dir := os.Getenv(Env); dir != "" {
		file, err := os.Create(filepath.Join(dir, strings.ReplaceAll(a.title, "/", " ")+".txt"))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		out = file
	}
	return write(out, a.title)
}

// write writes what was collected. The warnings come last.
func write(out io.Writer, title string) error {
	collected.mu.Lock()
	defer collected.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "== "+title)
	section(w, "", collected.notes)
	section(w, "peer\tlock\tcontended rounds of each side\ttook", collected.contended)
	section(w, "peer\tlock\thand-overs to the peer\tmedian\tp99\tmax\tto us\tmedian\tp99\tmax", collected.handOver)
	section(w, "", collected.missing)
	return w.Flush()
}

// section writes lines in their order below a header, and a blank line. Each section has columns of its own.
func section(w io.Writer, header string, lines []string) {
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	if header != "" {
		fmt.Fprintln(w, header)
	}
	fmt.Fprintln(w, strings.Join(lines, "\n"))
	fmt.Fprintln(w)
}
