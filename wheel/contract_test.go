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
		"serial pool":    {Tick: time.Millisecond, Executor: func(func()) {}},
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
	return scheduletest.Config{
		Pending:   func(e scheduletest.Engine) int { return e.(*wheel.Wheel).Stats().Pending },
		Slack:     slack,
		Unordered: o.Executor != nil,
		New: func(t *testing.T, so scheduletest.Options) scheduletest.Engine {
			o := o
			o.MaxPending = so.MaxPending
			if o.Executor != nil {
				o.Executor = serial(t)
			}
			if so.OnPanic != nil {
				o.OnPanic = func(_ schedule.Task, value any, _ []byte) { so.OnPanic(value) }
			}
			w, err := wheel.New(&o)
			require.NoError(t, err)
			return w
		},
	}
}

// serial returns an executor with one goroutine and an unbounded queue. With it the wheel
// keeps the whole contract, including the order of promise E6. Only a timer that is reset
// while it is due may keep its position in the queue.
func serial(t *testing.T) func(run func()) {
	t.Helper()
	var mu sync.Mutex // guards queue
	var queue []func()
	more := make(chan struct{}, 1)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var work func()
	work = func() {
		done := false
		defer func() {
			if !done {
				go work() // a task called runtime.Goexit
			}
		}()
		for {
			mu.Lock()
			var run func()
			if len(queue) > 0 {
				run, queue = queue[0], queue[1:]
			}
			mu.Unlock()
			if run != nil {
				run()
				continue
			}
			select {
			case <-more:
			case <-over:
				done = true
				return
			}
		}
	}
	go work()
	return func(run func()) {
		mu.Lock()
		defer mu.Unlock()
		queue = append(queue, run)
		select {
		case more <- struct{}{}:
		default:
		}
	}
}
