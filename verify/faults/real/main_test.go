package real

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var (
	seedFlag   = flag.Uint64("seed", 1, "the first seed")
	runsFlag   = flag.Int("runs", 0, "runs on each kind of server; 0 for the number of the tier")
	roundsFlag = flag.Int("rounds", 0, "rounds of all faults in a run; 0 for the number of the tier")
)

var report = simreport.NewReport("real")

func TestMain(m *testing.M) {
	// Toxiproxy leaks goroutines when a fault ends on a closed connection.
	goleak.VerifyTestMain(report.Around(m),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
}
