package scheduletest

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// model is what an engine must equal: the armed timers, sorted by their instants.
// The script in script.go does each operation on both and holds the engine's
// answer against the model's; each Run is held against it, too.
type model struct {
	t     *testing.T
	c     Config
	e     Engine
	limit int // Options.MaxPending
	start time.Time
	dice  dice

	mu       sync.Mutex    // guards all below and the timers; held by the script or the Run that is at work
	pending  []*modelTimer // armed, earliest first
	running  []*modelTimer // their Run is in progress
	known    []*modelTimer // some of all timers, done ones too
	arrivals int
	released time.Duration // when the engine was last let go on
	closing  bool          // Close was called
	closed   bool          // and the engine knows
	ended    bool          // and Close has returned left
	left     []schedule.Task
	failed   bool
	tally    tally
}

// modelTimer is a timer and its own Task.
type modelTimer struct {
	m     *model
	timer schedule.Timer
	gate  chan struct{} // Run waits for it; nil = Run takes no time

	due     time.Duration // since model.start
	arrival int           // tells armings for the same instant apart
	armed   bool
	running bool
	final   bool          // stopped for good
	ended   time.Duration // when its Run ended
}

// The methods below are called with mu held.

// now is the present instant. Time stands still in a bubble while a script works.
func (m *model) now() time.Duration { return time.Since(m.start) }

func (m *model) check(ok bool, what string) {
	if ok || m.failed {
		return
	}
	m.failed = true
	m.t.Errorf("operation %d, +%v: %s\n%s", m.tally.all, m.now(), what, replay(m.t))
}

// schedule does one Schedule and returns the timer, nil if there is none.
func (m *model) schedule(d time.Duration, gate chan struct{}) *modelTimer {
	x := &modelTimer{m: m, gate: gate}
	var err error
	x.timer, err = m.e.Schedule(d, x)
	switch {
	case m.closed:
		m.check(errors.Is(err, schedule.ErrClosed), "Schedule on a closed engine")
		return nil
	case m.limit > 0 && m.held() >= m.limit:
		m.check(errors.Is(err, schedule.ErrFull), "Schedule on a full engine")
		return nil
	}
	m.check(err == nil, "Schedule was refused")
	m.arm(x, d)
	if len(m.known) < 512 {
		m.known = append(m.known, x)
	} else {
		m.known[m.dice.roll(512)] = x
	}
	return x
}

func (m *model) reset(x *modelTimer, d time.Duration) {
	want := !m.closed && !x.final && (x.armed || x.running)
	m.check(x.timer.Reset(d) == want, "Reset answers wrong")
	if want {
		m.disarm(x)
		m.arm(x, d)
	}
}

func (m *model) stop(x *modelTimer) {
	want := !m.closed && x.armed
	stop := x.timer.Stop
	if len(m.running) == 0 && m.dice.roll(2) == 0 {
		stop = x.timer.StopAndWait
	}
	m.check(stop() == want, "Stop answers wrong")
	if !m.closed {
		m.disarm(x)
		x.final = true
	}
}

// held returns how many timers hold room in the engine.
func (m *model) held() int {
	n := len(m.pending)
	for _, x := range m.running {
		if !x.armed {
			n++
		}
	}
	return n
}

func (m *model) arm(x *modelTimer, d time.Duration) {
	m.arrivals++
	x.armed, x.arrival, x.due = true, m.arrivals, later(m.now(), max(d, 0))
	i, _ := slices.BinarySearchFunc(m.pending, x, byInstant)
	m.pending = slices.Insert(m.pending, i, x)
}

func (m *model) disarm(x *modelTimer) {
	if !x.armed {
		return
	}
	i, _ := slices.BinarySearchFunc(m.pending, x, byInstant)
	m.pending = slices.Delete(m.pending, i, i+1)
	x.armed = false
}

func byInstant(a, b *modelTimer) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.arrival, b.arrival))
}

// later is the instant d after now, or the end of time.
func later(now, d time.Duration) time.Duration {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

// Run is that of every timer of a script.
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

// begin holds the beginning of a Run against the model.
func (m *model) begin(x *modelTimer, self schedule.Timer) {
	now := m.now()
	m.check(self == x.timer, "Run got another timer")
	m.check(!m.closed, "Run after Close")
	m.check(x.armed, "Run of a timer that is not armed")
	m.check(!x.running, "Run overlaps itself")
	m.check(len(m.running) < m.c.workers(), "more tasks at once than workers")
	m.check(now >= x.due, "Run is early")
	m.check(now <= m.latest(x) || now == m.released, "Run is late")
	m.disarm(x)
	m.check(m.c.Unordered || m.c.workers() > 1 || !m.overtaken(x), "Run before that of an earlier timer")
	x.running = true
	m.running = append(m.running, x)
	m.tally.fires++
}

// latest is when x must have run: it could not before its last Run had ended.
func (m *model) latest(x *modelTimer) time.Duration {
	return later(max(x.due, x.ended), m.c.Slack)
}

func (m *model) end(x *modelTimer) {
	x.running, x.ended = false, m.now()
	i := slices.Index(m.running, x)
	m.running = slices.Delete(m.running, i, i+1)
}

// overtaken reports whether a timer that is still to run should have run before x.
func (m *model) overtaken(x *modelTimer) bool {
	for _, earliest := range m.pending {
		if !earliest.running {
			return m.tick(x.due) > m.tickAtMost(earliest.due)
		}
	}
	return false
}

// tick returns the first tick that ends at the instant at or after it. The engine
// counts ticks from its making, as the model does.
func (m *model) tick(at time.Duration) time.Duration {
	if m.c.Slack == 0 {
		return at
	}
	return (at + m.c.Slack - 1) / m.c.Slack
}

// tickAtMost is tick, or the next one if at is the very end of a tick, which may
// be over already when the timer is armed.
func (m *model) tickAtMost(at time.Duration) time.Duration {
	if m.c.Slack == 0 {
		return at
	}
	return at/m.c.Slack + 1
}

// atRest holds the engine, nothing of which runs now, against the model.
func (m *model) atRest() {
	for _, x := range m.pending {
		if !x.running && !m.closed {
			m.check(m.now() < m.latest(x), "a timer was lost")
			return
		}
	}
}

// returned holds what Close has returned against the model.
func (m *model) returned(tasks []schedule.Task) {
	for _, task := range tasks {
		x := task.(*modelTimer)
		m.check(x.armed, "Close returns a task that is not to run, or twice")
		m.disarm(x)
	}
	m.check(len(m.pending) == 0, "Close does not return all that was to run")
}
