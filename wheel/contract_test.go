package wheel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/schedule/scheduletest"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for name, o := range map[string]wheel.Options{
		"netty defaults": {},
		"1ms":            {Tick: time.Millisecond},
		"odd tick":       {Tick: 7*time.Millisecond + 13, Buckets: 64},
		"1us":            {Tick: time.Microsecond, Buckets: 4096},
	} {
		t.Run(name, func(t *testing.T) {
			slack := o.Tick
			if slack == 0 {
				slack = 100 * time.Millisecond
			}
			scheduletest.Test(t, scheduletest.Config{
				Slack: slack,
				New: func(t *testing.T, so scheduletest.Options) scheduletest.Engine {
					o := o
					o.MaxPending = so.MaxPending
					if so.OnPanic != nil {
						o.OnPanic = func(_ schedule.Task, value any, _ []byte) { so.OnPanic(value) }
					}
					w, err := wheel.New(&o)
					require.NoError(t, err)
					return w
				},
			})
		})
	}
}
