package sim

import (
	"context"
	"encoding/json"
	"flag"
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

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

// mutant is a bug that is put into a copy of one file.
type mutant struct {
	name string
	file string
	from string // occurs once
	to   string
}

// mutantSeeds is within how many schedules a mutant must be caught.
const mutantSeeds = 2000

// Each mutant must be caught by the schedules. One that is not is a hole in the
// oracles.
func TestMutants(t *testing.T) {
	if !part.IsLong() && *mutantFlag == "" {
		t.Log("the mutants are for TIER=long, or -mutant .")
		return
	}
	wanted := regexp.MustCompile(*mutantFlag)
	caught, all := 0, 0
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		all++
		t.Run(m.name, func(t *testing.T) {
			begun := time.Now()
			seed, how := m.test(t)
			if assert.NotEmpty(t, how, "survived %d schedules", mutantSeeds) {
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
	program := filepath.Join(t.TempDir(), "sim.test")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", m.overlay(t), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(ctx, program, "-test.run=^TestSchedules$", "-test.timeout=2m", fmt.Sprintf("-schedules=%d", mutantSeeds))
	run.Env = append(os.Environ(), "VERIFY_REPORT=")
	out, err = run.CombinedOutput()
	if err == nil {
		return 0, ""
	}
	return firstViolation(string(out))
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
	mutated := filepath.Join(dir, "mutated.go")
	require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	return path
}
