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

// scriptLen is how many operations make one script, with an engine of its own.
const scriptLen = 2500

// tally counts the operations of scripts.
type tally struct {
	all, schedules, resets, stops int
	inside                        int // of all, those from inside a Run
	held                          int // of all, those while the engine was held up
	closes                        int // beside all
	fires                         int // beside all
}

// testModel plays random scripts until there were enough operations. Each seed is
// a test of its own, so that one can be run alone.
func testModel(t *testing.T, c Config) {
	want := c.Operations
	if want == 0 {
		want = 200_000
	}
	if s := os.Getenv("SCHEDULETEST_OPERATIONS"); s != "" {
		var err error
		want, err = strconv.Atoi(s)
		require.NoError(t, err, "SCHEDULETEST_OPERATIONS")
	}
	var sum tally
	all := true
	for seed := 0; !t.Failed() && (seed < want/scriptLen || all && sum.all < want); seed++ {
		played := false
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			played = true
			sum.add(play(t, c, random{rand.New(rand.NewPCG(uint64(seed), 42))}, scriptLen))
		})
		all = all && played
	}
	if !all || t.Failed() {
		return // go test was told to run some seeds only
	}
	t.Logf("%+v", sum)
	assert.GreaterOrEqual(t, sum.all, want)
	for name, n := range map[string]int{
		"Schedule": sum.schedules, "Reset": sum.resets, "Stop": sum.stops,
		"inside Run": sum.inside, "held up": sum.held, "fired": sum.fires,
	} {
		assert.Greater(t, n, sum.all/20, "the scripts are one-sided: %s", name)
	}
	assert.Greater(t, sum.closes, sum.all/scriptLen)
}

// Fuzz is the model test with scripts written by a fuzzer, to be called from a
// FuzzXxx. Its seeds run with the other tests; go test -fuzz=FuzzXxx goes on from
// them, and shortens a script that fails. As goroutines make its coverage vary,
// -fuzzminimizetime=10x keeps it from shortening scripts that do not fail.
func Fuzz(f *testing.F, c Config) {
	for seed := range uint64(4) {
		bytes := make([]byte, 8000)
		rng := rand.New(rand.NewPCG(seed, 43))
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { play(t, c, &tape{bytes}, len(bytes)) })
}

// replay says how to run a failed script again.
func replay(t *testing.T) string {
	return "replay: go test -run '^" + regexp.QuoteMeta(t.Name()) + "$'"
}

func (t *tally) add(o tally) {
	t.all += o.all
	t.schedules += o.schedules
	t.resets += o.resets
	t.stops += o.stops
	t.closes += o.closes
	t.inside += o.inside
	t.held += o.held
	t.fires += o.fires
}
