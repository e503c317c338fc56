package sim

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/leasewheel/leasewheel/verify/mutant"
	"github.com/leasewheel/leasewheel/verify/part"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

func TestMutants(t *testing.T) {
	if !part.IsLong() && *mutantFlag == "" {
		t.Log("the mutants are for TIER=long, or -mutant .")
		return
	}
	mutant.Test(t, slices.Concat(mutants, rare), signs, *mutantFlag, report)
}

// What no simulation sees the tests of the packages do. CI runs those anyway, and make
// verify, which asks for reports, runs them here.
func TestSigns(t *testing.T) {
	signs.Check(t, mutants, rare)
	if os.Getenv("VERIFY_REPORT") != "" {
		signs.Elsewhere(t)
	}
}
