package soak

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

func TestMutants(t *testing.T) {
	mutants := []mutant.Tested{
		{
			Name: "one failure is a loss", File: "renewal/entry.go",
			From: "limit > 0 && int(e.failures) >= limit", To: "limit > 0",
			Shows: `exclusive lease of .*: renewal: .*`,
		},
		{
			Name: "the timer of a lease that is over goes on", File: "renewal/entry.go",
			From: "	e.timer.Stop()\n", To: "",
			Shows: `timers are left`,
		},
		{
			Name: "a release without an answer is forgotten", File: "lock/holding.go",
			From: "\tc.cleaner.add(lease)\n\treturn fmt.Errorf", To: "\treturn fmt.Errorf",
			Shows: `there are keys of locks that nobody holds`,
		},
	}
	for i := range mutants {
		mutants[i].Args = []string{"-test.run=TestSoak"}
	}
	mutant.InTests(t, mutants, *mutantFlag, report)
}
