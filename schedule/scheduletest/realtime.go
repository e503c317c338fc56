// The case that runs in real time, on busy processors.

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

// testRealTime runs timers on the real clock while all CPUs are busy. It checks that no
// timer fires early and that none is lost. It does not check how late they fire.
func testRealTime(outer *testing.T, c Config) {
	t := &caseT{T: outer, outer: outer}
	const callers, each, longest = 4, 2000, 200 * time.Millisecond
	defer busyCPUs()()
	e := newEngine(t, c, Options{})
	r := &realTime{e: e}
	var adding sync.WaitGroup
	for i := range callers {
		adding.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 11))
			for range each {
				r.schedule(t, rng.IntN(3), randomDelay(rng, longest))
			}
		})
	}
	adding.Wait()
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
	assert.EqualValues(t, callers*each*3/2, r.runs.Load(), "every second timer runs twice")
	assert.Zero(t, r.early.Load(), "timers that fired early")
}

// busyCPUs keeps all CPUs busy until stop is called.
func busyCPUs() (stop func()) {
	var stopped atomic.Bool
	var spinners sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		spinners.Go(func() {
			for spins := 0; !stopped.Load(); {
				spins++
			}
		})
	}
	return func() {
		stopped.Store(true)
		spinners.Wait()
	}
}

type realTime struct {
	e           Engine
	timers      atomic.Int64
	due         sync.WaitGroup // counts the Runs to come
	runs, early atomic.Int64
}

// schedule schedules a timer for d from now. If how is not 0, it schedules a later timer and
// resets it. Every second timer resets itself once in its Run.
func (r *realTime) schedule(t *caseT, how int, d time.Duration) {
	task := &realTimeTask{r: r, again: r.timers.Add(1)%2 == 0, d: d}
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

type realTimeTask struct {
	r     *realTime
	due   time.Time
	d     time.Duration
	again bool
}

func (x *realTimeTask) Run(self schedule.Timer) {
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
