package full

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
	"github.com/leasewheel/leasewheel/verify/sim"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

var report = simreport.NewReport("full")

var harness = &sim.Harness{
	Command: "go test ./sim/full -run TestSchedules -times 20", Simulate: alone, Report: report,
	Schedules: map[string]int{simreport.Quick: 200, simreport.Long: 10_000, simreport.Nightly: 1_000_000, simreport.Release: 10_000_000},
	Wide:      map[string]int{simreport.Quick: 25, simreport.Long: 1_000, simreport.Nightly: 50_000, simreport.Release: 500_000},
}

// alone plays a schedule when nothing is left of the ones before. go-redis keeps timers in a sync.Pool, and
// one that a bubble has made must not be used in another bubble, which is fatal. Two collections empty the
// pool. The harness plays schedules one after another.
func alone(seed uint64, trace func(string)) sim.Result {
	runtime.GC()
	runtime.GC()
	return simulate(seed, trace)
}

func TestMain(m *testing.M) {
	logging.Disable()
	debug.SetGCPercent(400) // schedules allocate much memory and keep little
	goleak.VerifyTestMain(report.Around(m))
}

func TestSchedules(t *testing.T) { harness.TestSchedules(t, usual) }

func TestWideSchedules(t *testing.T) { harness.TestWide(t, classNames[classes:], wideFloors) }

// Close of a quorum waited a tick for each member, a quorum called a writer lost because one server
// refused its Downgrade and one failed, a renewal was sent after its deadline, a quorum counted a
// server that it still asked as one that has nothing, and the answer to a renewal took back what a
// Multi had renewed since.
func TestRegressions(t *testing.T) { harness.TestSeeds(t, 130, 831, 1187, 1378, 504034, 920923) }

// The quick tier catches each mutant, because it plays the signs.
func TestSigns(t *testing.T) {
	signs.Check(t, scriptMutants, mutants, wideMutants, wideScriptMutants)
	seeds := signs.Schedules()
	harness.TestSeeds(t, seeds...)
	report.Add("signs       %d schedules", len(seeds))
	if os.Getenv("VERIFY_REPORT") != "" {
		signs.Elsewhere(t) // CI runs those tests anyway
	}
}

func skipMutants(t *testing.T) bool {
	skip := !simreport.IsLong() && *mutantFlag == ""
	if skip {
		t.Log("the mutants are for the tiers above quick, or -mutant .")
	}
	return skip
}

func TestMutants(t *testing.T) {
	if !skipMutants(t) {
		mutant.Test(t, slices.Concat(mutants, wideMutants), signs, *mutantFlag, report)
	}
}
