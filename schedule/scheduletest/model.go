// The model of an engine with which random operations are compared.

package scheduletest

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// model is a simple timer engine: a slice of timers, sorted by due time. The script in
// script.go does each operation on the engine under test and on the model, and compares
// the results. Each Run of the engine is compared with the model, too.
type model struct {
	t      *caseT
	c      Config
	e      Engine
	limit  int // Options.MaxPending
	start  time.Time
	source source

	mu       sync.Mutex    // guards the fields below and the timers; held by the script or by a Run
	pending  []*modelTimer // scheduled timers, earliest first
	running  []*modelTimer // timers whose Run is in progress
	known    []*modelTimer // a sample of all timers, including those that have ended
	armings  int           // calls of Schedule and Reset that succeeded
	released time.Duration // when a block of the workers last ended
	closing  bool          // Close was called
	closed   bool          // Close has reached the engine
	ended    bool          // Close has returned
	returned []schedule.Task
	failed   bool
	counts   counts
}

// modelTimer is a timer of the model. It is also the Task of that timer.
type modelTimer struct {
	m     *model
	timer schedule.Timer
	gate  chan struct{} // Run waits until it is closed; may be nil

	due     time.Duration // since model.start
	arming  int           // orders timers with the same due time
	armed   bool          // scheduled, and its Run has not begun
	running bool
	final   bool          // stopped
	ended   time.Duration // end of its last Run
}

// The methods below are called with mu held.

// now returns the time since start. It does not change while a script is running, because
// the clock of a bubble stops then.
func (m *model) now() time.Duration { return time.Since(m.start) }

// check reports the first failure of a script.
func (m *model) check(ok bool, what string) {
	if ok || m.failed {
		return
	}
	m.failed = true
	m.t.Errorf("operation %d, +%v: %s\n%s", m.counts.all, m.now(), what, replay(m.t.T))
}

// schedule calls Schedule and returns the timer, or nil if there is none.
func (m *model) schedule(d time.Duration, gate chan struct{}) *modelTimer {
	x := &modelTimer{m: m, gate: gate}
	var err error
	x.timer, err = m.e.Schedule(d, x)
	switch {
	case m.closed:
		m.check(errors.Is(err, schedule.ErrClosed), "Schedule on a closed engine")
		return nil
	case m.limit > 0 && m.used() >= m.limit:
		m.check(errors.Is(err, schedule.ErrFull), "Schedule on a full engine")
		return nil
	}
	m.check(err == nil, "Schedule returned an error")
	m.arm(x, d)
	m.checkDeadline(x)
	if len(m.known) < 512 {
		m.known = append(m.known, x)
	} else {
		m.known[m.source.intN(512)] = x
	}
	return x
}

func (m *model) reset(x *modelTimer, d time.Duration) {
	want := !m.closed && !x.final && (x.armed || x.running)
	m.check(x.timer.Reset(d) == want, "wrong result of Reset")
	if want {
		m.disarm(x)
		m.arm(x, d)
		m.checkDeadline(x)
	}
}

// checkDeadline compares the deadline of a timer that was just armed or stopped. A Run of a timer
// that is due may have begun and wait for mu.
func (m *model) checkDeadline(x *modelTimer) {
	at, ok := x.timer.Deadline()
	if !x.armed || m.closed {
		m.check(!ok, "a timer that has ended has a deadline")
		return
	}
	if x.due > m.now() {
		deadline := at.Sub(m.start)
		least := min(x.due, math.MaxInt64-1) // an engine may reserve the last instant
		m.check(ok && deadline >= least && deadline <= addTime(x.due, m.c.Slack), "wrong deadline")
	}
}

func (m *model) stop(x *modelTimer) {
	want := !m.closed && x.armed
	stop := x.timer.Stop
	if len(m.running) == 0 && m.source.intN(2) == 0 {
		stop = x.timer.StopAndWait
	}
	m.check(stop() == want, "wrong result of Stop")
	if !m.closed {
		m.disarm(x)
		x.final = true
	}
	m.checkDeadline(x)
}

// used returns the number of timers that count against the limit.
func (m *model) used() int {
	n := len(m.pending)
	for _, x := range m.running {
		if !x.armed {
			n++
		}
	}
	return n
}

func (m *model) arm(x *modelTimer, d time.Duration) {
	m.armings++
	x.armed, x.arming, x.due = true, m.armings, addTime(m.now(), max(d, 0))
	i, _ := slices.BinarySearchFunc(m.pending, x, byDue)
	m.pending = slices.Insert(m.pending, i, x)
}

func (m *model) disarm(x *modelTimer) {
	if !x.armed {
		return
	}
	i, _ := slices.BinarySearchFunc(m.pending, x, byDue)
	m.pending = slices.Delete(m.pending, i, i+1)
	x.armed = false
}

// byDue orders timers by due time, and timers with the same due time by age.
func byDue(a, b *modelTimer) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.arming, b.arming))
}

// addTime returns now + d, or the greatest duration if the sum overflows.
func addTime(now, d time.Duration) time.Duration {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

// Run implements schedule.Task for all timers of a script.
func (x *modelTimer) Run(self schedule.Timer) {
	m := x.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(x, self)
	defer m.end(x)
	if x.gate != nil {
		m.mu.Unlock()
		<-x.gate
		m.mu.Lock()
	}
	m.inside(x)
}

// begin compares the start of a Run with the model.
func (m *model) begin(x *modelTimer, self schedule.Timer) {
	now := m.now()
	m.check(self == x.timer, "Run received another timer")
	m.check(!m.closed, "Run after Close")
	m.check(x.armed, "Run of a timer that is not scheduled")
	m.check(!x.running, "the Runs of a timer overlap")
	m.check(len(m.running) < m.c.workers(), "more tasks at once than workers")
	m.check(now >= x.due, "Run is early")
	m.check(now <= m.latest(x) || now == m.released, "Run is late")
	m.disarm(x)
	m.check(m.c.Unordered || m.c.workers() > 1 || !m.mustRunLater(x), "Run before the Run of an earlier timer")
	x.running = true
	m.running = append(m.running, x)
	m.counts.fires++
}

// latest returns the time by which x must run. The end of its last Run can delay it.
func (m *model) latest(x *modelTimer) time.Duration {
	return addTime(max(x.due, x.ended), m.c.Slack)
}

// end removes x from the running timers.
func (m *model) end(x *modelTimer) {
	x.running, x.ended = false, m.now()
	i := slices.Index(m.running, x)
	m.running = slices.Delete(m.running, i, i+1)
}

// mustRunLater reports whether another pending timer must run before x.
func (m *model) mustRunLater(x *modelTimer) bool {
	for _, earliest := range m.pending {
		if !earliest.running {
			return m.tick(x.due) > m.tickAtMost(earliest.due)
		}
	}
	return false
}

// tick returns the first tick that ends at the given time or later. The engine and the
// model count ticks from the same time.
func (m *model) tick(at time.Duration) time.Duration {
	if m.c.Slack == 0 {
		return at
	}
	return (at + m.c.Slack - 1) / m.c.Slack
}

// tickAtMost returns the last tick in which a timer that is due at the given time may fire.
// If that is the exact end of a tick, the tick may be over when the timer is scheduled.
func (m *model) tickAtMost(at time.Duration) time.Duration {
	if m.c.Slack == 0 {
		return at
	}
	return at/m.c.Slack + 1
}

// checkIdle checks that no timer is overdue. The engine is idle.
func (m *model) checkIdle() {
	for _, x := range m.pending {
		if !x.running && !m.closed {
			m.check(m.now() < m.latest(x), "a timer was lost")
			return
		}
	}
}

// checkReturned compares the tasks that Close has returned with the model.
func (m *model) checkReturned(tasks []schedule.Task) {
	for _, task := range tasks {
		x := task.(*modelTimer)
		m.check(x.armed, "Close returned a task that is not pending, or returned it twice")
		m.disarm(x)
	}
	m.check(len(m.pending) == 0, "Close did not return all pending tasks")
}
