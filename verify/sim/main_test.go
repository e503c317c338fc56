package sim

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	seedFlag   = flag.Int64("seed", -1, "play this schedule alone")
	traceFlag  = flag.Bool("trace", false, "print all that happens in a schedule that is played alone")
	fromFlag   = flag.Uint64("from", 0, "the first seed of the schedules to play")
	amountFlag = flag.Int("schedules", 0, "how many to play; 0: as many as the tier says")
)

var report = part.NewReport("sim")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }
