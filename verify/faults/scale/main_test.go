package scale

import (
	"context"
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var longFlag = flag.Bool("long", false, "use the numbers of the long tier")

var report = simreport.NewReport("scale")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }

// size returns the number for the tier.
func size(quick, long int) int {
	if simreport.IsLong() || *longFlag {
		return long
	}
	return quick
}

// tries is the number of measurements, because the machine may be busy.
const tries = 3

// assertBounded measures until the result is within its bound, at most tries times. It
// fails the test if no result is.
func assertBounded(t *testing.T, what string, measure func() (took, bound time.Duration)) {
	t.Helper()
	for i := range tries {
		took, bound := measure()
		if took <= bound {
			report.Add("%-36s %v of %v", what, took.Round(10*time.Microsecond), bound.Round(10*time.Microsecond))
			return
		}
		if i == tries-1 {
			assert.LessOrEqual(t, took, bound, what)
		}
	}
}

// heap returns the number of bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second collection empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
