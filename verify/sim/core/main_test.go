package core

import (
	"flag"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
	"github.com/leasewheel/leasewheel/verify/sim"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

var report = simreport.NewReport("core")

// The harness plays schedules one after another, because a step of the wall clock affects all
// watchdogs of a program.
var harness = &sim.Harness{
	Command: "go test ./sim/core -run TestSchedules", Simulate: simulate, Report: report,
	Schedules: map[string]int{simreport.Quick: 2000, simreport.Long: 200_000, simreport.Nightly: 200_000, simreport.Release: 200_000},
	Wide:      map[string]int{simreport.Quick: 150, simreport.Long: 10_000, simreport.Nightly: 10_000, simreport.Release: 10_000},
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }

func TestSchedules(t *testing.T) { harness.TestSchedules(t, usual) }

func TestWideSchedules(t *testing.T) { harness.TestWide(t, classNames[classes:], wideFloors) }

// A hung batch cost a short lease its second try. The seeds of other bugs are among the first.
func TestRegressions(t *testing.T) { harness.TestSeeds(t, 147541, 1172111) }

func TestSeedsRepeatTheirSchedules(t *testing.T) { harness.TestReplay(t) }

func TestMutants(t *testing.T) {
	if !simreport.IsLong() && *mutantFlag == "" {
		t.Log("the mutants are for TIER=long, or -mutant .")
		return
	}
	mutant.Test(t, slices.Concat(mutants, rare, wideMutants), signs, *mutantFlag, report)
}

// Tests of other packages catch the mutants that no schedule catches. CI runs those tests
// anyway. make verify, which sets VERIFY_REPORT, runs them here.
func TestSigns(t *testing.T) {
	signs.Check(t, mutants, rare, wideMutants)
	for _, seed := range signs.Schedules() {
		if seed >= sim.WideFrom { // the quick tier plays the others
			harness.Play(t, seed)
		}
	}
	if os.Getenv("VERIFY_REPORT") != "" {
		signs.Elsewhere(t)
	}
}
