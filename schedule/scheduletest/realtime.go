package scheduletest

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// testRealTime runs timers on the clock of the machine while all its processors
// are busy: none is early, none is lost. How late they are is not looked at.
func testRealTime(t *testing.T, c Config) {
	const callers, each, longest = 4, 2000, 200 * time.Millisecond
	defer hog()()
	e := open(t, c, Options{})
	r := &realTime{e: e}
	var arming sync.WaitGroup
	for i := range callers {
		arming.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 11))
			for range each {
				r.arm(t, rng.IntN(3), randomDelay(rng, longest))
			}
		})
	}
	arming.Wait()
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.due.Wait()
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		require.Fail(t, "timers were lost", "%d runs", r.runs.Load())
	}
	assert.Empty(t, e.Close())
	assert.EqualValues(t, callers*each*3/2, r.runs.Load(), "each once, every other one twice")
	assert.Zero(t, r.early.Load(), "runs before their instant")
}

// hog keeps all processors busy until the function that it returns is called.
func hog() (stop func()) {
	var stopped atomic.Bool
	var hogs sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		hogs.Go(func() {
			for spins := 0; !stopped.Load(); {
				spins++
			}
		})
	}
	return func() {
		stopped.Store(true)
		hogs.Wait()
	}
}

type realTime struct {
	e           Engine
	armed       atomic.Int64
	due         sync.WaitGroup // a count for each Run that is to come
	runs, early atomic.Int64
}

// arm arms a timer for d from now: at once, by a Reset from far or from near. Every
// other timer arms itself once more.
func (r *realTime) arm(t *testing.T, how int, d time.Duration) {
	task := &realTask{r: r, again: r.armed.Add(1)%2 == 0, d: d}
	r.due.Add(1)
	task.due = time.Now().Add(d)
	if how == 0 {
		_, err := r.e.Schedule(d, task)
		assert.NoError(t, err)
		return
	}
	timer, err := r.e.Schedule([]time.Duration{time.Hour, time.Minute}[how-1], task)
	assert.NoError(t, err)
	assert.True(t, timer.Reset(d))
}

type realTask struct {
	r     *realTime
	due   time.Time
	d     time.Duration
	again bool
}

func (x *realTask) Run(self schedule.Timer) {
	if time.Now().Before(x.due) {
		x.r.early.Add(1)
	}
	x.r.runs.Add(1)
	if !x.again {
		x.r.due.Done()
		return
	}
	x.again = false
	x.due = time.Now().Add(x.d)
	self.Reset(x.d)
}
