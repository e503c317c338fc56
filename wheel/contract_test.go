package wheel_test

import (
	"sync"
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
		"goroutines":     {Tick: time.Millisecond, Executor: func(run func()) { go run() }},
	} {
		t.Run(name, func(t *testing.T) { scheduletest.Test(t, contract(o)) })
	}
}

func FuzzModel(f *testing.F) {
	scheduletest.Fuzz(f, contract(wheel.Options{Tick: time.Millisecond, Buckets: 64}))
}

func contract(o wheel.Options) scheduletest.Config {
	slack := o.Tick
	if slack == 0 {
		slack = 100 * time.Millisecond
	}
	workers := 1
	if o.Executor != nil {
		workers = scheduletest.Unlimited
	}
	return scheduletest.Config{
		Pending:   func(e scheduletest.Engine) int { return e.(*wheel.Wheel).Stats().Pending },
		Slack:     slack,
		Workers:   workers,
		Unordered: o.Executor != nil,
		New: func(t *testing.T, so scheduletest.Options) scheduletest.Engine {
			o := o
			o.MaxPending = so.MaxPending
			if so.OnPanic != nil {
				var mu sync.Mutex // lets one goroutine at a time call so.OnPanic
				o.OnPanic = func(_ schedule.Task, value any, _ []byte) {
					mu.Lock()
					defer mu.Unlock()
					so.OnPanic(value)
				}
			}
			w, err := wheel.New(&o)
			require.NoError(t, err)
			return w
		},
	}
}
