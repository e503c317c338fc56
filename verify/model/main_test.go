package model

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var (
	shared testredis.Shared
	report = simreport.NewReport("model")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(shared.Around(m))) }
