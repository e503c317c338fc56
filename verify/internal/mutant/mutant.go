// Package mutant shows that a simulation catches mistakes. It writes each mistake, alone, into
// a copy of a file of the module, and builds the simulation with the copy. The simulation must
// fail within a number of schedules. A mutant that survives shows that a check is missing.
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

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// List has four texts for each mutant: its name, the path of a file from the root of the
// module, a text that occurs once in that file, and the text that replaces it. The file is a
// Go file or one that Go embeds.
type List [][4]string

type mutant struct{ name, file, from, to string }

// Seeds is the number of schedules within which a mutant must be caught.
const Seeds = 2000

// Sign is a schedule or a test that catches a mutant, at least most of the time. It is tried
// before other schedules.
type Sign struct {
	Seed    uint64 // of a schedule
	Test    string // the name of a test, if there is no schedule
	Package string // the package of the test; empty for the package under test
}

// tries is how often a sign is tried, because a seed does not decide the order of goroutines.
const tries = 3

// Signs maps the names of mutants to their signs.
type Signs map[string]Sign

// Test tests the mutants whose names match a regular expression. It runs TestSchedules of the
// package under test, which has the flags -seed and -schedules.
func Test(t *testing.T, mutants List, signs Signs, matching string, report *simreport.Report) {
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

// Check fails the test if a mutant has no sign, if a sign has no mutant, or if the text of a
// mutant does not occur once in its file.
func (s Signs) Check(t *testing.T, lists ...List) {
	t.Helper()
	unused := maps.Clone(s)
	for _, row := range slices.Concat(lists...) {
		assert.Contains(t, s, row[0], "each mutant has a sign")
		mutant{row[0], row[1], row[2], row[3]}.text(t)
		delete(unused, row[0])
	}
	assert.Empty(t, unused, "signs without a mutant")
}

// Schedules returns the seeds of all signs, each once.
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

// Elsewhere runs the signs in other packages, without mutants.
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

// test tries the sign of the mutant, and then schedules. It returns what caught the mutant.
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

// exactly returns a -test.run expression for one test or subtest.
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
	require.Contains(t, string(out), "--- FAIL: "+sign.Test, "the run failed outside the test")
	return sign.Test
}

// build builds the tests with the mutant and returns the path of the binary. It does not
// change the file itself.
func (m mutant) build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "mutated.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", m.overlay(t), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// run runs a test binary in the quick tier. It returns the output and the error of the binary.
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

// firstViolation returns the first violation in the output of tests, with its seed.
func firstViolation(out string) string {
	if found := violation.FindStringSubmatch(out); found != nil {
		return fmt.Sprintf("seed %s: %s", found[1], found[2])
	}
	if found := hung.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	return "counts below their floors: " + lastLine(out)
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// overlay writes the mutant, and returns the path of an overlay file for the go command.
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

// text returns the path and the content of the mutant's file.
func (m mutant) text(t *testing.T) (file, text string) {
	file = filepath.Join(simreport.Root(), filepath.FromSlash(m.file))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	text = string(content)
	assert.Equal(t, 1, strings.Count(text, m.from), "occurrences of the text of %q in %s", m.name, m.file)
	return file, text
}
