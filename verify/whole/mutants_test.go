package whole

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/mutant"
	"github.com/leasewheel/leasewheel/verify/part"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

func TestMutants(t *testing.T) {
	if !part.IsLong() && *mutantFlag == "" {
		t.Log("the mutants are for the tiers above quick, or -mutant .")
		return
	}
	mutant.Test(t, mutants, *mutantFlag, report)
}
