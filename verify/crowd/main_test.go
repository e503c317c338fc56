package crowd

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/verify/part"
)

var report = part.NewReport("crowd")

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(m)) }
