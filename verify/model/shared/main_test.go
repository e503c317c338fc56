package shared

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var report = simreport.NewReport("shared")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }
