// Package scheduletest tests whether a timer engine keeps the contract of package
// schedule. Every engine calls [Test] from a test of its own.
//
//	func TestContract(t *testing.T) {
//		scheduletest.Test(t, scheduletest.Config{New: newEngine, Slack: tick})
//	}
//
// All cases but one run in a testing/synctest bubble, so they take no real time. The
// engine must read the clock only in New and later. The page [writing an engine]
// leads through the suite. The name of a case begins with the promise that it tests:
//
//	E1  a timer never fires early
//	E2  a timer fires late by at most the engine's slack
//	E3  each Schedule and each Reset leads to one Run, or to one Stop that returns true
//	E4  Reset replaces the previous due time
//	E5  no Run starts after Close has returned, and Close returns the tasks that did not run
//	E6  after a pause all due timers fire once, in the order of their due times
//	E7  the engine does what the model does
//	E8  zero, negative and 290-year delays work
//
// [writing an engine]: https://github.com/leasewheel/leasewheel/blob/main/docs/EXTENDING.md#a-timer-engine
package scheduletest

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// Engine is a timer engine. See package schedule for the rules of Close.
type Engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}

// Options are the options of an engine that the suite creates.
type Options struct {
	MaxPending int             // maximum number of timers; 0 means no limit
	OnPanic    func(value any) // receives the value of each panic of a task; may be nil
}

// Config describes the engine under test.
type Config struct {
	// New returns a new engine. The suite calls it inside a bubble and closes the engine.
	New func(t *testing.T, o Options) Engine

	// Slack is how late a timer may fire if nothing delays the engine: the tick of a wheel,
	// 0 for an exact engine. It must be less than a second.
	Slack time.Duration

	// Pending returns the number of timers that the engine reports as pending or running.
	// It may be nil if the engine has no such figure.
	Pending func(e Engine) int

	// Workers is the number of tasks that the engine runs at once; 0 means 1. It is
	// Unlimited if the engine starts a goroutine for each Run. If it is 1, the suite checks
	// that tasks begin in the order of their due times. Timers within one Slack may run in
	// any order.
	Workers int

	// Unordered means that a timer that is reset while it is due may run before timers
	// with an earlier due time.
	Unordered bool

	// Operations is the minimum number of random operations of the model test; 0 means
	// 50,000. The environment variable SCHEDULETEST_OPERATIONS overrides it.
	Operations int
}

// Unlimited is the Config.Workers of an engine that has no bound. The suite skips cases in
// which due timers wait for a worker.
const Unlimited = -1

// workers returns the number of workers.
func (c Config) workers() int {
	if c.Workers == Unlimited {
		return math.MaxInt
	}
	return max(c.Workers, 1)
}

// check fails the test if a field of c is wrong.
func (c Config) check(t testing.TB) {
	t.Helper()
	switch {
	case c.New == nil:
		t.Fatal("scheduletest: Config.New is nil")
	case c.Slack < 0 || c.Slack >= time.Second:
		t.Fatalf("scheduletest: Config.Slack is %v, which is not from 0 to less than 1s", c.Slack)
	case c.Workers < Unlimited:
		t.Fatalf("scheduletest: Config.Workers is %d", c.Workers)
	}
}

// Test runs the suite. A case that fails reports its first failure.
// The page [writing an engine] lists the usual mistake behind each failing case.
//
// [writing an engine]: https://github.com/leasewheel/leasewheel/blob/main/docs/EXTENDING.md#a-timer-engine
func Test(t *testing.T, c Config) {
	c.check(t)
	for _, group := range [][]testCase{
		firingCases, stopCases, stopAndWaitCases, resetCases, closeCases, failureCases, maxPendingCases, funcCases,
	} {
		for _, tc := range group {
			t.Run(tc.name, func(t *testing.T) {
				inBubble(t, func(t *caseT) { tc.run(t, c) })
			})
		}
	}
	t.Run("E1_never_early_on_busy_CPUs", func(t *testing.T) { testRealTime(t, c) })
	t.Run("E7_random_operations_match_the_model", func(t *testing.T) { testModel(t, c) })
}

type testCase struct {
	name string
	run  func(t *caseT, c Config)
}

// checkPending checks the number of timers that the engine reports.
func (c Config) checkPending(t *caseT, e Engine, want int) {
	t.Helper()
	if c.Pending != nil {
		assert.Equal(t, want, c.Pending(e), "timers pending")
	}
}

// newEngine returns an engine that is closed when the bubble ends.
func newEngine(t *caseT, c Config, o Options) Engine {
	t.Helper()
	e := c.New(t.T, o)
	t.Cleanup(func() { e.Close() })
	return e
}

// arm schedules a task.
func arm(t *caseT, e Engine, d time.Duration, task schedule.Task) schedule.Timer {
	t.Helper()
	timer, err := e.Schedule(d, task)
	require.NoError(t, err)
	return timer
}

// taskFunc is a Task that calls a function.
type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

// recorder records when its tasks run.
type recorder struct {
	start time.Time

	mu   sync.Mutex // guards runs
	runs []run
}

type run struct {
	id int
	at time.Duration // since recorder.start
}

func newRecorder() *recorder { return &recorder{start: time.Now()} }

// record adds a run of task id.
func (r *recorder) record(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, run{id, time.Since(r.start)})
}

// task returns a Task that records its runs as those of task id.
func (r *recorder) task(id int) schedule.Task {
	return taskFunc(func(schedule.Timer) { r.record(id) })
}

// all returns the runs so far, in order.
func (r *recorder) all() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]run(nil), r.runs...)
}

// count returns the number of runs of task id.
func (r *recorder) count(id int) int {
	n := 0
	for _, run := range r.all() {
		if run.id == id {
			n++
		}
	}
	return n
}

// advance moves the clock of the bubble on and waits until its goroutines are idle.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// randomDelay returns a delay from 1 ns to limit. Its magnitude is random, so that every
// level of a wheel is used.
func randomDelay(rng *rand.Rand, limit time.Duration) time.Duration {
	span := limit
	for span > 1 && rng.IntN(4) != 0 {
		span /= 8
	}
	return time.Duration(rng.Int64N(int64(max(span, 1)))) + 1
}
