package scheduletest

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// horizon is how long a script lasts at most. A bubble's clock ends in the year
// 2262, which is 262 years away.
const horizon = 250 * 365 * 24 * time.Hour

// dice decide what a script does. The same dice make the same script, if the
// engine has one worker.
type dice interface {
	roll(n int64) int64 // a number from 0 to n-1
	worn() bool         // no further number is to be had
}

// random are dice for a script of any length.
type random struct{ *rand.Rand }

func (r random) roll(n int64) int64 { return r.Int64N(n) }
func (r random) worn() bool         { return false }

// tape are dice written down, of which a fuzzer can leave out what does not matter.
type tape struct{ bytes []byte }

func (t *tape) roll(n int64) int64 {
	sum := uint64(0)
	for size := uint64(n - 1); size > 0 && !t.worn(); size >>= 8 {
		sum = sum<<8 | uint64(t.bytes[0])
		t.bytes = t.bytes[1:]
	}
	return int64(sum % uint64(n))
}

func (t *tape) worn() bool { return len(t.bytes) == 0 }

// play runs one script, of about n operations, in a bubble of its own.
func play(t *testing.T, c Config, d dice, n int) (done tally) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{t: t, c: c, dice: d, start: time.Now()}
		if c.workers() == 1 && d.roll(4) == 0 { // several give room back some time after Run
			m.limit = 1 + int(d.roll(64))
		}
		m.e = open(t, c, Options{MaxPending: m.limit, OnPanic: func(any) {}})
		m.mu.Lock()
		defer m.mu.Unlock()
		for m.tally.all < n && !m.over() {
			m.burst()
			if m.dice.roll(16) == 0 {
				m.holdUp()
			}
			m.rest(m.pause())
		}
		if !m.over() && m.dice.roll(2) == 0 {
			m.rest(horizon - m.now())
		}
		m.finish()
		done = m.tally
	})
	return done
}

// The methods below are called with mu held. Only wait lets go of it.

// over reports whether the script cannot go on.
func (m *model) over() bool { return m.closing || m.failed || m.dice.worn() }

// wait lets d pass and the engine come to rest.
func (m *model) wait(d time.Duration) {
	m.mu.Unlock()
	settle(d)
	m.mu.Lock()
	if m.closing && !m.closed { // a Run is in the middle of close
		m.mu.Unlock()
		settle(time.Nanosecond)
		m.mu.Lock()
	}
}

// burst does some operations at one instant. What is due at once runs before the
// next of them, unless the engine is held up.
func (m *model) burst() {
	for range 1 + m.dice.roll(12) {
		m.operate(nil)
		m.wait(0)
	}
}

// rest lets d pass and looks for timers that should have run by then.
func (m *model) rest(d time.Duration) {
	m.wait(d)
	m.atRest()
}

// holdUp blocks all workers of the engine, as tasks that break their contract do,
// so that timers fall due and do not run. It works on those, and now and then
// closes the engine meanwhile.
func (m *model) holdUp() {
	gate := make(chan struct{})
	if m.limit == 0 || m.held() < m.limit {
		for range m.c.workers() {
			m.schedule(0, gate)
		}
	}
	m.wait(m.c.Slack)
	if len(m.running) == m.c.workers() { // unless another Run has moved or stopped one
		before := m.tally.all
		// The Runs of many workers do much when they go on, so more is done before.
		for range 1 + m.dice.roll(4) + int64(m.c.workers()/8) {
			m.burst()
			m.wait(m.pause())
		}
		if m.dice.roll(64) == 0 {
			m.close()
			m.burst()
		}
		m.tally.held += m.tally.all - before
	}
	m.released = m.now()
	close(gate)
	m.wait(0)
}

// close calls Close and waits until the engine knows. What it returns is in left.
func (m *model) close() {
	m.closing = true
	m.tally.closes++
	go func() {
		left := m.e.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.left, m.ended = left, true
	}()
	m.mu.Unlock()
	time.Sleep(time.Nanosecond) // not Wait, as this may be a Run, beside the script's Wait
	m.mu.Lock()
	m.closed = true
}

// finish closes the engine unless the script has, and settles up.
func (m *model) finish() {
	if !m.closing {
		m.close()
	}
	m.wait(0)
	m.check(m.ended, "Close does not return")
	m.returned(m.left)
	m.burst()
	m.check(len(m.e.Close()) == 0, "a second Close returns tasks")
	m.tally.closes++
}

// operate does one random operation; self is the timer whose Run does it.
func (m *model) operate(self *modelTimer) {
	m.tally.all++
	if self != nil {
		m.tally.inside++
	}
	x := m.pick(self)
	switch op := m.dice.roll(10); {
	case op < 4 || x == nil:
		m.tally.schedules++
		m.schedule(m.delay(), nil)
	case op < 7:
		m.tally.resets++
		m.reset(x, m.delay())
	default:
		m.tally.stops++
		m.stop(x)
	}
}

// pick chooses a timer, mostly one that is pending; nil if there is none to choose.
func (m *model) pick(self *modelTimer) *modelTimer {
	from := m.known
	switch {
	case self != nil && m.dice.roll(3) == 0:
		return self
	case len(m.pending) > 0 && m.dice.roll(4) > 0:
		from = m.pending
	}
	if len(from) == 0 {
		return nil
	}
	x := from[m.dice.roll(int64(len(from)))]
	if self != nil && x != self && m.c.workers() > 1 && (x.running || x.due <= m.now() || x.ended == m.now()) {
		return nil // another worker is about to begin its Run, or to end it
	}
	return x
}

// delay draws one of any magnitude, and often one that brings two timers together
// or a timer to the edge of a tick.
func (m *model) delay() time.Duration {
	switch m.dice.roll(8) {
	case 0:
		return []time.Duration{0, -1, -time.Hour, math.MinInt64}[m.dice.roll(4)]
	case 1:
		return []time.Duration{1, math.MaxInt64, math.MaxInt64 - 1, 100 * 365 * 24 * time.Hour}[m.dice.roll(4)]
	case 2:
		if len(m.pending) > 0 {
			return m.pending[m.dice.roll(int64(len(m.pending)))].due - m.now()
		}
	case 3:
		edge := m.c.Slack * time.Duration(1+m.dice.roll(3))
		return edge - m.now()%max(m.c.Slack, 1) + time.Duration(m.dice.roll(3)) - 1
	}
	return time.Duration(m.dice.roll(2 << m.dice.roll(62)))
}

// pause draws how long to rest: of any magnitude, or to the next timer or just
// before or after it.
func (m *model) pause() time.Duration {
	left := horizon - m.now()
	d := time.Duration(m.dice.roll(2 << m.dice.roll(61)))
	if len(m.pending) > 0 && m.dice.roll(2) == 0 {
		d = m.pending[0].due - m.now() + time.Duration(m.dice.roll(3)) - 1
		d += []time.Duration{0, m.c.Slack}[m.dice.roll(2)]
	}
	return min(d, left/8)
}

// inside is what the Run of x does.
func (m *model) inside(x *modelTimer) {
	for range m.dice.roll(3) {
		m.operate(x)
	}
	switch m.dice.roll(256) {
	case 1:
		panic("a task of a script panics")
	case 2:
		runtime.Goexit()
	case 3:
		if m.c.workers() == 1 && !m.closing && m.dice.roll(16) == 0 {
			m.close()
			m.operate(x)
		}
	}
}
