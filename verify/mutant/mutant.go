// Package mutant shows that a simulation catches mistakes. Each is put, alone, into
// a copy of a file of the module; the simulation is built with the copy, and must
// fail within a number of schedules. One that survives is a hole in its oracles.
package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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

// Test tests the mutants whose names match the expression, on the simulation in the
// package under test, which has the flag -schedules and plays them in TestSchedules.
func Test(t *testing.T, mutants List, matching string, report *part.Report) {
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
			seed, how := m.test(t)
			if assert.NotEmpty(t, how, "survived %d schedules", Seeds) {
				caught++
				report.Add("mutant      %s: seed %d, %.1f s, %s", m.name, seed, time.Since(begun).Seconds(), how)
			}
		})
	}
	report.Add("mutants     %d of %d caught", caught, all)
}

// test builds the simulation with the mutant in the place of the file, which is not
// touched, and returns the first seed that catches it, and what that one said.
func (m mutant) test(t *testing.T) (seed int, how string) {
	out, err := m.run(t, 20*time.Minute, "-test.run=^TestSchedules$", "-test.timeout=15m", fmt.Sprintf("-schedules=%d", Seeds))
	if err == nil {
		return 0, ""
	}
	return firstViolation(out)
}

// run builds the tests with the mutant and runs them, in the quick tier, and returns
// what they printed; the error is that of the tests.
func (m mutant) run(t *testing.T, bound time.Duration, args ...string) (string, error) {
	program := filepath.Join(t.TempDir(), "mutated.test")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", m.overlay(t), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(ctx, program, args...)
	run.Env = append(os.Environ(), "VERIFY_REPORT=", "VERIFY_TIER=")
	out, err = run.CombinedOutput()
	return string(out), err
}

var (
	violation = regexp.MustCompile(`seed (\d+): [^:]+: (.*)`)
	hung      = regexp.MustCompile(`panic: (.*)`)
)

func firstViolation(out string) (seed int, how string) {
	if found := violation.FindStringSubmatch(out); found != nil {
		seed, _ = strconv.Atoi(found[1]) // the expression took digits only
		return seed, found[2]
	}
	if found := hung.FindStringSubmatch(out); found != nil {
		return -1, found[1]
	}
	return -1, "the floors: " + lastLine(out)
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// overlay writes the mutant and what the go command takes to use it.
func (m mutant) overlay(t *testing.T) string {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	file := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), m.from), "the place of the mutant in %s", m.file)
	dir := t.TempDir()
	mutated := filepath.Join(dir, "mutated"+filepath.Ext(file))
	require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	return path
}
