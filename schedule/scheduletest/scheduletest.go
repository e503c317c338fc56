// Package scheduletest holds the contract of a timer engine as tests: every
// engine calls [Test] from one of its own.
//
//	func TestContract(t *testing.T) {
//		scheduletest.Test(t, scheduletest.Config{New: newEngine, Slack: tick})
//	}
//
// All cases but one run in a testing/synctest bubble, so they take no real time,
// and the engine must keep its clock in objects made by New. The names of the
// cases begin with the id of the promise that they guard:
//
//	E1  never early
//	E2  late by at most the engine's slack
//	E3  each arming fires exactly once, or its Stop returned true
//	E4  Reset replaces the arming before it
//	E5  nothing starts after Close has returned; what never ran is returned
//	E6  after a pause all that is due fires, earlier instants first, each once
//	E7  the engines fire the same set
//	E8  zero, negative and 290-year delays work
package scheduletest

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Engine is what a timer engine offers beside Schedule: Close stops it, waits
// for the tasks that run, and returns those that never ran.
type Engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}

// Options are what the suite asks of a new engine.
type Options struct {
	MaxPending int             // how many timers it may hold; 0 = no limit
	OnPanic    func(value any) // called with what a task panicked with; may be nil
}

// Config describes the engine under test.
type Config struct {
	// New makes an engine, inside a bubble. The suite closes it.
	New func(t *testing.T, o Options) Engine

	// Slack is how late a timer may fire when nothing holds the engine up: the
	// tick of a wheel, 0 for an exact engine. It must be below a second, the shortest
	// time that some cases wait.
	Slack time.Duration

	// Workers is how many tasks the engine runs at once; 0 means 1. With one,
	// tasks that are due begin in the order of their instants, those within one Slack
	// in any order, unless Unordered is set: then one that is moved while it is due may
	// overtake others.
	Workers   int
	Unordered bool

	// Operations is how many random operations the model test does at least; 0
	// means 200,000. The environment variable SCHEDULETEST_OPERATIONS overrides it.
	Operations int
}

// workers is Workers with its default.
func (c Config) workers() int { return max(c.Workers, 1) }

// Test runs the whole contract against the engine.
func Test(t *testing.T, c Config) {
	for _, group := range [][]testCase{firing, stopping, awaiting, resetting, closing, failing, helping} {
		for _, tc := range group {
			t.Run(tc.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { tc.run(t, c) })
			})
		}
	}
	t.Run("E1_never_early_on_busy_processors", func(t *testing.T) { testRealTime(t, c) })
	t.Run("E7_random_operations_match_the_model", func(t *testing.T) { testModel(t, c) })
}

type testCase struct {
	name string
	run  func(t *testing.T, c Config)
}

// open makes an engine that is closed when the bubble ends.
func open(t *testing.T, c Config, o Options) Engine {
	t.Helper()
	e := c.New(t, o)
	t.Cleanup(func() { e.Close() })
	return e
}

// taskFunc is a function as a Task.
type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

// recorder notes the instants, since its making, at which its tasks ran.
type recorder struct {
	start time.Time

	mu   sync.Mutex // guards runs
	runs []run
}

type run struct {
	id int
	at time.Duration
}

func newRecorder() *recorder { return &recorder{start: time.Now()} }

func (r *recorder) note(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, run{id, time.Since(r.start)})
}

func (r *recorder) task(id int) schedule.Task {
	return taskFunc(func(schedule.Timer) { r.note(id) })
}

// all returns what has run so far, in order.
func (r *recorder) all() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]run(nil), r.runs...)
}

// count returns how often the task id has run.
func (r *recorder) count(id int) int {
	n := 0
	for _, run := range r.all() {
		if run.id == id {
			n++
		}
	}
	return n
}

// settle lets every goroutine of the bubble come to rest d later.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// randomDelay draws a delay whose magnitude is uniform from 1 ns to limit, so
// that every level of a wheel gets its share.
func randomDelay(rng *rand.Rand, limit time.Duration) time.Duration {
	span := limit
	for span > 1 && rng.IntN(4) != 0 {
		span /= 8
	}
	return time.Duration(rng.Int64N(int64(max(span, 1)))) + 1
}
