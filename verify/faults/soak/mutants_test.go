package soak

import (
	"flag"
	"testing"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match, in any tier")

// TestMutants checks that the soak finds mistakes.
func TestMutants(t *testing.T) {
	mutants := []mutant.Tested{
		{
			Name: "one failure is a loss", File: "renewal/entry.go",
			From: "limit > 0 && int(e.failures) >= limit", To: "limit > 0",
			Shows: "lease lost: renewals failed",
		},
		{
			Name: "the timer of an ended lease keeps running", File: "renewal/entry.go",
			From: "\te.timer.Stop()\n", To: "",
			Shows: `timers are left`,
		},
		{
			Name: "a release without an answer is forgotten", File: "lock/held.go",
			From: "\tc.releaser.Add(lease)\n\t\treturn fmt.Errorf", To: "\treturn fmt.Errorf",
			Shows: `there are keys of locks that nobody holds`,
		},
	}
	for i := range mutants {
		mutants[i].Args = []string{"-test.run=TestSoak"}
	}
	mutant.InTests(t, mutants, *mutantFlag, report)
}
