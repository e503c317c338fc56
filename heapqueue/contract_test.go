package heapqueue_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/schedule/scheduletest"
)

// With several workers, a task that blocks does not delay the others. The tasks of rule
// E6 still run in order, because each of them runs on time.
func TestContract(t *testing.T) {
	for workers, operations := range map[int]int{1: 50_000, 4: 50_000, 100: 10_000} {
		t.Run(fmt.Sprintf("%d_workers", workers), func(t *testing.T) {
			c := contract(workers)
			c.Operations = operations
			scheduletest.Test(t, c)
		})
	}
}

func FuzzModel(f *testing.F) { scheduletest.Fuzz(f, contract(1)) }

func contract(workers int) scheduletest.Config {
	return scheduletest.Config{
		New: func(t *testing.T, o scheduletest.Options) scheduletest.Engine {
			var mu sync.Mutex // lets one worker at a time call o.OnPanic
			options := heapqueue.Options{Workers: workers, MaxPending: o.MaxPending}
			if o.OnPanic != nil {
				options.OnPanic = func(_ schedule.Task, value any, _ []byte) {
					mu.Lock()
					defer mu.Unlock()
					o.OnPanic(value)
				}
			}
			s, err := heapqueue.NewScheduler(&options)
			require.NoError(t, err)
			return s
		},
		Pending: func(e scheduletest.Engine) int { return e.(*heapqueue.Scheduler).Stats().Pending },
		Slack:   0,
		Workers: workers,
	}
}
