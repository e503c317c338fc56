package model

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/part"
)

var (
	shared testredis.Shared
	report = part.NewReport("model")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(report.Around(shared.Around(m))) }
