// Random operations on an engine and its model.

package scheduletest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scriptLen is the number of operations of a script. Each script has its own engine.
const scriptLen = 2500

// counts counts the operations of scripts.
type counts struct {
	all, schedules, resets, stops int
	inside                        int // operations inside a Run
	blocked                       int // operations while the workers were blocked
	closes                        int // not included in all
	fires                         int // not included in all
}

// testModel runs random scripts until they have done enough operations. Each seed is a
// subtest, so that it can be run alone.
func testModel(t *testing.T, c Config) {
	want := c.Operations
	if want == 0 {
		want = 50_000
	}
	if s := os.Getenv("SCHEDULETEST_OPERATIONS"); s != "" {
		var err error
		want, err = strconv.Atoi(s)
		require.NoError(t, err, "SCHEDULETEST_OPERATIONS")
	}
	var sum counts
	all := true
	for seed := 0; !t.Failed() && (seed < want/scriptLen || all && sum.all < want); seed++ {
		ran := false
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			ran = true
			sum.add(runScript(t, c, random{rand.New(rand.NewPCG(uint64(seed), 42))}, scriptLen))
		})
		all = all && ran
	}
	if !all || t.Failed() {
		return // a failure, or go test -run selected some seeds
	}
	t.Logf("%+v", sum)
	assert.GreaterOrEqual(t, sum.all, want)
	for name, n := range map[string]int{
		"Schedule": sum.schedules, "Reset": sum.resets, "Stop": sum.stops,
		"inside Run": sum.inside, "blocked": sum.blocked, "fired": sum.fires,
	} {
		if name == "blocked" && c.Workers == Unlimited {
			continue
		}
		assert.Greater(t, n, sum.all/20, "the scripts have too few operations: %s", name)
	}
	assert.Greater(t, sum.closes, sum.all/scriptLen)
}

// Fuzz runs the model test with scripts from a fuzzer. Call it from a function FuzzXxx. Its
// seeds run with the other tests. go test -fuzz=FuzzXxx creates more scripts, and shortens a
// script that fails. Use -fuzzminimizetime=10x as well: coverage varies with the order of
// goroutines, and without this option the fuzzer shortens scripts that do not fail.
func Fuzz(f *testing.F, c Config) {
	c.check(f)
	for seed := range uint64(4) {
		bytes := make([]byte, 8000)
		rng := rand.New(rand.NewPCG(seed, 43))
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { runScript(t, c, &recorded{bytes}, len(bytes)) })
}

// replay returns the command that runs a failed script again.
func replay(t *testing.T) string {
	return "replay: go test -run '^" + regexp.QuoteMeta(t.Name()) + "$'"
}

// add adds the counts of a script.
func (t *counts) add(o counts) {
	t.all += o.all
	t.schedules += o.schedules
	t.resets += o.resets
	t.stops += o.stops
	t.closes += o.closes
	t.inside += o.inside
	t.blocked += o.blocked
	t.fires += o.fires
}
