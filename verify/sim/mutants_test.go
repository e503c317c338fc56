package sim

import (
	"flag"
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
	mutant.Test(t, mutants, signs, *mutantFlag, report)
}
