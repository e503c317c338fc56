package real

import (
	"flag"
	"fmt"
	"os"
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
	goleak.VerifyTestMain(reporting{m},
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
}

// reporting prints the report after the tests.
type reporting struct{ *testing.M }

// Run implements the interface that goleak takes.
func (r reporting) Run() int {
	code := r.M.Run()
	if err := report.Print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
