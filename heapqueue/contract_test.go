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

// TestContract holds for several workers, too. There one task that blocks does not
// hold up the others, so those of E6 run in order because each runs on time.
func TestContract(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d_workers", workers), func(t *testing.T) {
			scheduletest.Test(t, contract(workers))
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
		Slack:      0,
		Workers:    workers,
		Operations: 500_000,
	}
}
