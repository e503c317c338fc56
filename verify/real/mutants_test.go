package real

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

// mutant is a mistake that is put into a copy of one file.
type mutant struct{ name, file, from, to string }

var mutants = []mutant{
	{
		"tokens are used again", "lock/redisstore/lua/prelude.lua",
		"new = math.max(tonumber(last) + 1, us)", "new = tonumber(last)",
	},
	{
		"a renewal moves no end", "lock/redisstore/lua/renew.lua",
		"call('PEXPIRE', key, ttl) == 0", "call('EXISTS', key) == 0",
	},
	{
		"a release does not look whose lock it is", "lock/redisstore/lua/release.lua",
		"if value and string.match(value, '^(.*) %d+$') == owner then", "if value then",
	},
	{
		"holders believe in a lease for longer than it lasts", "renewal/options.go",
		"return ttl - ttl/driftPart - o.margin(ttl)", "return ttl + ttl/2",
	},
	{
		"the deadline counts from the answer of a renewal", "renewal/dispatch.go",
		"e.settle(outcome, err, b.sent, now)", "e.settle(outcome, err, now, now)",
	},
}

// within is how many runs may pass before a mutant is caught.
const within = 20

// Each mutant must be caught by the runs. One that is not is a hole in the checkers.
func TestMutants(t *testing.T) {
	if !part.IsLong() && *mutantFlag == "" {
		t.Log("the mutants are for TIER=long, or -mutant .")
		return
	}
	wanted := regexp.MustCompile(*mutantFlag)
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			how := m.test(t)
			if assert.NotEmpty(t, how, "survived %d runs", within) {
				report.Add("mutant      %s: %.0f s, %s", m.name, time.Since(began).Seconds(), how)
			}
		})
	}
}

var violation = regexp.MustCompile(`(durable, seed \d+): (.*)`)

// test builds the tests with the mutant in the place of the file, which is not
// touched, and returns what the first run that catches it says.
func (m mutant) test(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "mutated.test")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", m.overlay(t), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(ctx, program, "-test.run=^TestRuns$/^durable$", fmt.Sprintf("-runs=%d", within), "-rounds=1")
	run.Env = append(os.Environ(), "VERIFY_REPORT=", "VERIFY_TIER=")
	if out, err = run.CombinedOutput(); err == nil {
		return ""
	}
	found := violation.FindSubmatch(out)
	require.NotNil(t, found, "it failed, but not for what it did:\n%s", out)
	return fmt.Sprintf("%s: %s", found[1], found[2])
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
