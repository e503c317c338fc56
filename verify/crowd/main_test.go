package crowd

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/part"
)

var report = part.NewReport("crowd")

func TestMain(m *testing.M) { goleak.VerifyTestMain(reporting{m}) }

// reporting prints the report after the tests.
type reporting struct{ *testing.M }

func (r reporting) Run() int {
	code := r.M.Run()
	if err := report.Print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
