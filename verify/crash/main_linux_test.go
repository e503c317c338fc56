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
