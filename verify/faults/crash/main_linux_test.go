package crash

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var report = simreport.NewReport("crash")

func TestMain(m *testing.M) {
	if o, ok := childOrder(); ok {
		if err := runChild(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(report.Around(m))
}

// rounds returns the number of rounds for the tier.
func rounds(quick, long int) int {
	if simreport.IsLong() {
		return long
	}
	return quick
}

// playRounds plays n rounds, and up to ten times as many while shown returns false. On a
// busy machine a process may lose its locks before it is killed. It returns the number of
// rounds.
func playRounds(n int, shown func() bool, play func(round int)) int {
	round := 0
	for ; round < n || round < 10*n && !shown(); round++ {
		play(round)
	}
	return round
}
