// The operations of the random test, chosen at random or by a fuzzer.

package scheduletest

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// horizon is the maximum duration of a script. The clock of a bubble starts in the year 2000
// and ends in 2262.
const horizon = 250 * 365 * 24 * time.Hour

// source is where a script takes its random numbers from. If the engine has one worker, equal
// numbers lead to equal scripts.
type source interface {
	intN(n int64) int64 // returns a number from 0 to n-1
	exhausted() bool    // reports whether there are no more numbers
}

// random is an endless source.
type random struct{ *rand.Rand }

func (r random) intN(n int64) int64 { return r.Int64N(n) }
func (r random) exhausted() bool    { return false }

// recorded is a source that a fuzzer can change: each number takes as many bytes as it needs.
type recorded struct{ bytes []byte }

func (t *recorded) intN(n int64) int64 {
	sum := uint64(0)
	for size := uint64(n - 1); size > 0 && !t.exhausted(); size >>= 8 {
		sum = sum<<8 | uint64(t.bytes[0])
		t.bytes = t.bytes[1:]
	}
	return int64(sum % uint64(n))
}

func (t *recorded) exhausted() bool { return len(t.bytes) == 0 }

// runScript runs a script of about n operations in a bubble of its own.
func runScript(t *testing.T, c Config, d source, n int) (done counts) {
	inBubble(t, func(t *caseT) {
		m := &model{t: t, c: c, source: d, start: time.Now()}
		if c.workers() == 1 && d.intN(4) == 0 { // several workers free the room of a timer some time after its Run
			m.limit = 1 + int(d.intN(64))
		}
		m.e = newEngine(t, c, Options{MaxPending: m.limit, OnPanic: func(any) {}})
		m.mu.Lock()
		defer m.mu.Unlock()
		for m.counts.all < n && !m.over() {
			m.burst()
			if m.source.intN(16) == 0 {
				m.block()
			}
			m.advanceAndCheck(m.pause())
		}
		if !m.over() && m.source.intN(2) == 0 {
			m.advanceAndCheck(horizon - m.now())
		}
		m.finish()
		done = m.counts
	})
	return done
}

// The methods below are called with mu held. Only advance, close and Run release it.

// over reports whether the script must end.
func (m *model) over() bool { return m.closing || m.failed || m.source.exhausted() }

// advance moves the clock on and waits until the engine is idle.
func (m *model) advance(d time.Duration) {
	m.mu.Unlock()
	advance(d)
	m.mu.Lock()
	if m.closing && !m.closed { // a Run is inside model.close
		m.mu.Unlock()
		advance(time.Nanosecond)
		m.mu.Lock()
	}
}

// burst does some operations at the same time. Timers that are due at once run before the
// next operation, unless the workers are blocked.
func (m *model) burst() {
	for range 1 + m.source.intN(12) {
		m.operate(nil)
		m.advance(0)
	}
}

// advanceAndCheck moves the clock on and checks that no timer is overdue.
func (m *model) advanceAndCheck(d time.Duration) {
	m.advance(d)
	m.checkIdle()
}

// block blocks all workers of the engine, with tasks that break their contract. So timers
// become due and do not run. block operates on those timers, and sometimes closes the engine.
// An engine with unlimited workers cannot be blocked.
func (m *model) block() {
	if m.c.Workers == Unlimited {
		return
	}
	gate := make(chan struct{})
	if m.limit == 0 || m.used() < m.limit {
		for range m.c.workers() {
			m.schedule(0, gate)
		}
	}
	m.advance(m.c.Slack)
	if len(m.running) == m.c.workers() { // otherwise another Run has reset or stopped a blocking timer
		before := m.counts.all
		// The Runs of many workers do many operations after the block. More operations
		// during the block balance them.
		for range 1 + m.source.intN(4) + int64(m.c.workers()/8) {
			m.burst()
			m.advance(m.pause())
		}
		if m.source.intN(64) == 0 {
			m.close()
			m.burst()
		}
		m.counts.blocked += m.counts.all - before
	}
	m.released = m.now()
	close(gate)
	m.advance(0)
}

// close starts a goroutine that calls Close, and waits until Close has reached the engine.
func (m *model) close() {
	m.closing = true
	m.counts.closes++
	go func() {
		tasks := m.e.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.returned, m.ended = tasks, true
	}()
	m.mu.Unlock()
	time.Sleep(time.Nanosecond) // not synctest.Wait: this may be a Run, and the script may be in Wait
	m.mu.Lock()
	m.closed = true
}

// finish closes the engine, if the script has not, and checks the tasks that Close returned.
func (m *model) finish() {
	if !m.closing {
		m.close()
	}
	m.advance(0)
	m.check(m.ended, "Close did not return")
	if !m.ended {
		return // another Close would wait forever
	}
	m.checkReturned(m.returned)
	m.burst()
	m.check(len(m.e.Close()) == 0, "a second Close returned tasks")
	m.counts.closes++
}

// operate does one random operation; self is the timer whose Run does it.
func (m *model) operate(self *modelTimer) {
	m.counts.all++
	if self != nil {
		m.counts.inside++
	}
	x := m.pick(self)
	switch op := m.source.intN(10); {
	case op < 4 || x == nil:
		m.counts.schedules++
		m.schedule(m.delay(), nil)
	case op < 7:
		m.counts.resets++
		m.reset(x, m.delay())
	default:
		m.counts.stops++
		m.stop(x)
	}
}

// pick returns a random timer, preferably a pending one, or nil if there is none.
func (m *model) pick(self *modelTimer) *modelTimer {
	from := m.known
	switch {
	case self != nil && m.source.intN(3) == 0:
		return self
	case len(m.pending) > 0 && m.source.intN(4) > 0:
		from = m.pending
	}
	if len(from) == 0 {
		return nil
	}
	x := from[m.source.intN(int64(len(from)))]
	if self != nil && x != self && m.c.workers() > 1 && (x.running || x.due <= m.now() || x.ended == m.now()) {
		return nil // another worker may begin or end its Run at this moment
	}
	return x
}

// delay returns a random delay of any magnitude. It often matches the due time of another
// timer or the edge of a tick.
func (m *model) delay() time.Duration {
	switch m.source.intN(8) {
	case 0:
		return []time.Duration{0, -1, -time.Hour, math.MinInt64}[m.source.intN(4)]
	case 1:
		return []time.Duration{1, math.MaxInt64, math.MaxInt64 - 1, 100 * 365 * 24 * time.Hour}[m.source.intN(4)]
	case 2:
		if len(m.pending) > 0 {
			return m.pending[m.source.intN(int64(len(m.pending)))].due - m.now()
		}
	case 3:
		edge := m.c.Slack * time.Duration(1+m.source.intN(3))
		return edge - m.now()%max(m.c.Slack, 1) + time.Duration(m.source.intN(3)) - 1
	}
	return time.Duration(m.source.intN(2 << m.source.intN(62)))
}

// pause returns how far to advance the clock: by any magnitude, or to the next timer, just
// before it or just after it.
func (m *model) pause() time.Duration {
	left := horizon - m.now()
	d := time.Duration(m.source.intN(2 << m.source.intN(61)))
	if len(m.pending) > 0 && m.source.intN(2) == 0 {
		d = m.pending[0].due - m.now() + time.Duration(m.source.intN(3)) - 1
		d += []time.Duration{0, m.c.Slack}[m.source.intN(2)]
	}
	return min(d, left/8)
}

// inside does the operations of a Run of timer x.
func (m *model) inside(x *modelTimer) {
	for range m.source.intN(3) {
		m.operate(x)
	}
	switch m.source.intN(256) {
	case 1:
		panic("panic in a task of a script")
	case 2:
		runtime.Goexit()
	case 3:
		if m.c.workers() == 1 && !m.closing && m.source.intN(16) == 0 {
			m.close()
			m.operate(x)
		}
	}
}
