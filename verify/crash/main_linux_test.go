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
	goleak.VerifyTestMain(reporting{m})
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

// rounds is how often something is done.
func rounds(quick, long int) int {
	if part.IsLong() {
		return long
	}
	return quick
}
