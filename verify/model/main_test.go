package model

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	shared testredis.Shared
	report = part.NewReport("model")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(reporting{shared.Around(m)}) }

// reporting prints the report after the tests.
type reporting struct{ testredis.Runner }

// Run implements testredis.Runner.
func (r reporting) Run() int {
	code := r.Runner.Run()
	if err := report.Print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
