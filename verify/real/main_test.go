package real

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	seedFlag   = flag.Uint64("seed", 1, "the first seed")
	runsFlag   = flag.Int("runs", 0, "how many to play on each kind of server; 0: as many as the tier says")
	roundsFlag = flag.Int("rounds", 0, "how often each fault comes in a run; 0: as often as the tier says")
)

var report = part.NewReport("real")

func TestMain(m *testing.M) {
	// A toxiproxy leaves goroutines behind when a fault ends on a connection that has
	// ended before. Nothing else may.
	goleak.VerifyTestMain(report.Around(m),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
}
