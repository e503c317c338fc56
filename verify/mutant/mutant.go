// Package mutant shows that a simulation catches mistakes. Each is put, alone, into
// a copy of a file of the module; the simulation is built with the copy, and must
// fail within a number of schedules. One that survives is a hole in its oracles.
package mutant

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

// List is mistakes that somebody could make: for each a name, a file of the module
// from its root, Go or what Go embeds, a text that occurs once in it, and what stands
// there instead.
type List [][4]string

type mutant struct{ name, file, from, to string }

// Seeds is within how many schedules a mutant must be caught.
const Seeds = 2000

// Sign is what shows a mutant, most of the time at least: it is tried before schedules
// are searched.
type Sign struct {
	Seed    uint64 // of a schedule
	Test    string // or the name of a test
	Package string // in which that is, unless it is in the package under test
}

// tries is how often a sign is tried: which goroutine comes first no seed decides.
const tries = 3

// Signs are those of mutants, by their names.
type Signs map[string]Sign

// Test tests the mutants whose names match the expression, on the simulation in the
// package under test, which has the flags -seed and -schedules and plays in TestSchedules.
func Test(t *testing.T, mutants List, signs Signs, matching string, report *part.Report) {
	t.Helper()
	wanted := regexp.MustCompile(matching)
	caught, all := 0, 0
	for _, row := range mutants {
		m := mutant{row[0], row[1], row[2], row[3]}
		if !wanted.MatchString(m.name) {
			continue
		}
		all++
		t.Run(m.name, func(t *testing.T) {
			begun := time.Now()
			how := m.test(t, signs)
			if assert.NotEmpty(t, how, "survived %d schedules", Seeds) {
				caught++
				report.Add("mutant      %s: %.1f s, %s", m.name, time.Since(begun).Seconds(), how)
			}
		})
	}
	report.Add("mutants     %d of %d caught", caught, all)
}

// Check fails the test if some mutant has no sign, or some sign is of no mutant, or if
// the code has changed where a mutant was.
func (s Signs) Check(t *testing.T, lists ...List) {
	t.Helper()
	unused := maps.Clone(s)
	for _, row := range slices.Concat(lists...) {
		assert.Contains(t, s, row[0], "each mutant has a sign")
		mutant{row[0], row[1], row[2], row[3]}.text(t)
		delete(unused, row[0])
	}
	assert.Empty(t, unused, "signs of no mutant")
}

// Schedules are the seeds that are signs, each once.
func (s Signs) Schedules() []uint64 {
	var seeds []uint64
	for _, sign := range s {
		if sign.Test == "" {
			seeds = append(seeds, sign.Seed)
		}
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

// Elsewhere runs the tests of other packages that are signs, as they are.
func (s Signs) Elsewhere(t *testing.T) {
	t.Helper()
	var tests, packages []string
	for _, sign := range s {
		if sign.Package != "" {
			tests, packages = append(tests, sign.Test), append(packages, sign.Package)
		}
	}
	slices.Sort(packages)
	args := append([]string{"test", "-vet=off", "-run", "^(" + strings.Join(tests, "|") + ")$"}, slices.Compact(packages)...)
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// test has the mutant tested by its sign, and then by schedules, and returns what
// caught it.
func (m mutant) test(t *testing.T, signs Signs) (how string) {
	sign, known := signs[m.name]
	if sign.Package != "" {
		return m.testElsewhere(t, sign)
	}
	program := m.build(t)
	for range tries {
		if !known {
			break
		}
		if out, err := run(t, program, time.Minute, sign.args()...); err != nil {
			return cmp.Or(sign.Test, firstViolation(out))
		}
	}
	out, err := run(t, program, 20*time.Minute, "-test.run=^TestSchedules$", "-test.timeout=15m", fmt.Sprintf("-schedules=%d", Seeds))
	if err == nil {
		return ""
	}
	return firstViolation(out)
}

func (s Sign) args() []string {
	if s.Test != "" {
		return []string{"-test.run", exactly(s.Test)}
	}
	return []string{"-test.run=^TestSchedules$", fmt.Sprintf("-seed=%d", s.Seed)}
}

// exactly is an expression for the name of a test, and of its subtest.
func exactly(test string) string {
	return "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
}

// testElsewhere runs a test of another package with the mutant.
func (m mutant) testElsewhere(t *testing.T, sign Sign) (how string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-overlay", m.overlay(t), "-run", exactly(sign.Test), sign.Package).CombinedOutput()
	if err == nil {
		return ""
	}
	require.Contains(t, string(out), "--- FAIL: "+sign.Test, "it failed, but not in the test")
	return sign.Test
}

// build builds the tests with the mutant in the place of the file, which is not
// touched, and returns where they are.
func (m mutant) build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "mutated.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", m.overlay(t), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// run runs tests that were built, in the quick tier, and returns what they printed; the
// error is theirs.
func run(t *testing.T, program string, bound time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	tests := exec.CommandContext(ctx, program, args...)
	tests.Env = append(os.Environ(), "VERIFY_REPORT=", "VERIFY_TIER=")
	out, err := tests.CombinedOutput()
	return string(out), err
}

var (
	violation = regexp.MustCompile(`seed (\d+): [^:]+: (.*)`)
	hung      = regexp.MustCompile(`panic: (.*)`)
)

// firstViolation returns the seed that tests found something with, and what.
func firstViolation(out string) string {
	if found := violation.FindStringSubmatch(out); found != nil {
		return fmt.Sprintf("seed %s: %s", found[1], found[2])
	}
	if found := hung.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	return "the floors: " + lastLine(out)
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// overlay writes the mutant and what the go command takes to use it.
func (m mutant) overlay(t *testing.T) string {
	file, text := m.text(t)
	dir := t.TempDir()
	mutated := filepath.Join(dir, "mutated"+filepath.Ext(file))
	require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(text, m.from, m.to, 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	return path
}

// text returns the file of the mutant, and what is in it.
func (m mutant) text(t *testing.T) (file, text string) {
	file, err := filepath.Abs(filepath.Join("../..", filepath.FromSlash(m.file)))
	require.NoError(t, err)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	text = string(content)
	require.Equal(t, 1, strings.Count(text, m.from), "the place of %q in %s", m.name, m.file)
	return file, text
}
