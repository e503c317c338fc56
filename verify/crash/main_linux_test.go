package crash

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/part"
)

var report = part.NewReport("crash")

func TestMain(m *testing.M) {
	if o, ok := ordered(); ok {
		if err := obey(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(report.Around(m))
}

// rounds is how often something is done.
func rounds(quick, long int) int {
	if part.IsLong() {
		return long
	}
	return quick
}

// enough plays n rounds, and goes on while they have not shown what they have to, for
// on a busy machine a process may lose its locks before it is ended; ten times as many
// at most. It returns how many it played.
func enough(n int, shown func() bool, play func(round int)) int {
	round := 0
	for ; round < n || round < 10*n && !shown(); round++ {
		play(round)
	}
	return round
}
