// The monitor, which compares the clocks and ends entries whose timer did not fire, and its
// buckets of entries.

package renewal

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/seam"
)

const (
	// compareInterval is how often the clocks are compared while leases are held.
	compareInterval = time.Second

	// While a renewal has no answer, the monitor runs more often, to see whether the process could take it: each time
	// marginsPerRun margins have passed, which is an eighth of an attempt by default, but not before minInterval.
	marginsPerRun = 4
	minInterval   = 20 * time.Millisecond

	// maxPerHold is the most entries that a pass visits while it holds mu.
	maxPerHold = 1000
)

// monitor watches the timer engine and the clocks. If the engine is closed, starved, or
// blocked by a task of another user, the monitor ends the overdue entries, so that their
// holders are notified in time. It compares the clocks because timers use the monotonic clock,
// and the wall clock gets ahead of it while the host is suspended.
//
// The monitor runs on a runtime timer: once a second while leases are held, and at the
// instant of each expiry bucket. The watchdog's mu guards it.
type monitor[L any] struct {
	timer   *time.Timer // made for the first lease
	wakeAt  int64       // the instant for which timer is set, or asleep, or working
	pending int         // calls of runMonitor that the timer will start
	running bool        // a call of runMonitor is working

	expiries  expiries[L] // all entries except those of unvisited
	unvisited expiries[L] // entries that the pass under way has not visited yet
	pass      pass        // the pass under way
	epoch     uint16      // the number of passes so far

	suspecting bool // the pass collects the entries of some lanes for a verification

	ranBefore            int64         // when the clocks were compared last before the run under way, on the monotonic clock
	stalls               delays        // of the process
	delays               delays        // of timers, of workers, and of returns from Renew
	comparedAt           int64         // when the clocks were compared last, on the monotonic clock
	minOffset, maxOffset int64         // the range of the clock offset since the last step
	tolerance            time.Duration // the smallest margin so far: the clocks may differ by that

	late       time.Duration // the longest lateness of the engine since the last report
	reportedAt int64         // the instant of that report
	overdue    uint64        // entries that the monitor has ended
}

// Values of wakeAt while the timer is not set.
const (
	asleep  = math.MaxInt64 // the next lease must wake the monitor
	working = math.MinInt64 // the monitor is running and need not be woken
)

// pass is what a pass does with each entry.
type pass uint8

const (
	verifyPass    pass = iota // collects the entries of suspected lanes, as the other passes do too
	rearmPass                 // after a pause of the process
	clockStepPass             // after a step of a clock
)

// wakeMonitor makes the monitor run at the given instant or before. The caller holds mu.
func (w *Watchdog[L]) wakeMonitor(at int64, now instant) {
	m := &w.monitor
	if at >= m.wakeAt {
		return
	}
	if m.wakeAt == asleep {
		m.minOffset, m.maxOffset, m.comparedAt = now.clockOffset(), now.clockOffset(), now.mono
		at = min(at, now.mono+int64(compareInterval))
	}
	m.wakeAt = at
	delay := time.Duration(at - now.mono)
	switch {
	case m.timer == nil:
		m.timer = time.AfterFunc(delay, w.runMonitor)
		m.pending++
	case !m.timer.Reset(delay):
		m.pending++
	}
}

// runMonitor compares the clocks, ends overdue entries, and continues a pass.
func (w *Watchdog[L]) runMonitor() {
	if p, ok := w.engine.(seam.PausableEngine); ok {
		p.AwaitRunning()
	}
	w.mu.Lock()
	defer w.unlock()
	m := &w.monitor
	m.pending--
	if m.running || w.closed {
		w.signalDrained()
		return
	}
	now := w.clock.now()
	w.noteStall(now)
	m.running, m.wakeAt, m.ranBefore = true, working, m.comparedAt
	for w.compareClocks(now); w.endOverdue(now) || w.continuePass(now); w.compareClocks(now) {
		w.yield()
		if w.closed {
			break
		}
		now = w.clock.now()
	}
	m.running, m.wakeAt = false, asleep
	switch {
	case w.closed:
		w.signalDrained()
	case w.held == 0:
		m.expiries, m.unvisited = expiries[L]{}, expiries[L]{}
	default:
		m.wakeAt = asleep - 1 // wakeMonitor must not restart the comparison of the clocks
		at := now.mono + w.interval()
		if b := m.expiries.first(); b != nil {
			at = min(at, b.at)
		}
		w.wakeMonitor(at, w.clock.now())
	}
}

// noteStall records that the process did not run, if the monitor is late. It may be called at
// any time: a holder may notice a loss before the monitor runs. The caller holds mu.
func (w *Watchdog[L]) noteStall(now instant) {
	m := &w.monitor
	expected := m.comparedAt + int64(compareInterval)
	if m.wakeAt > m.comparedAt && m.wakeAt < expected { // neither asleep nor working
		expected = m.wakeAt
	}
	if !m.running && w.held > 0 {
		m.stalls.add(expected, now.mono, m.tolerance)
	}
}

// interval returns how long the monitor may sleep. The caller holds mu.
func (w *Watchdog[L]) interval() int64 {
	if w.calls == 0 {
		return int64(compareInterval)
	}
	return int64(min(max(marginsPerRun*w.monitor.tolerance, minInterval), compareInterval))
}

// compareClocks begins a pass if the clocks have moved apart, at once or gradually, or if
// the process was paused. It keeps the range of the clock offset. A step forward and a
// step back may each be within the tolerance, while their sum is not. That matters for a
// lease that was renewed between them. The caller holds mu.
func (w *Watchdog[L]) compareClocks(now instant) {
	m := &w.monitor
	offset := now.clockOffset()
	step := time.Duration(offset - m.minOffset)
	if back := time.Duration(m.maxOffset - offset); back > step {
		step = -back
	}
	paused := time.Duration(now.mono-m.comparedAt)-compareInterval > m.tolerance
	m.minOffset, m.maxOffset, m.comparedAt = min(m.minOffset, offset), max(m.maxOffset, offset), now.mono
	switch {
	case step > m.tolerance || step < -m.tolerance:
		m.minOffset, m.maxOffset = offset, offset
		w.beginPass(clockStepPass)
		w.records.add(func() {
			w.log.Warn("renewal: wall clock stepped against the monotonic clock", slog.Duration("by", step))
		})
	case paused:
		w.beginPass(rearmPass)
	}
}

// beginPass begins a pass over all entries. It restarts a pass that is under way, which keeps what it does beyond p.
func (w *Watchdog[L]) beginPass(p pass) {
	m := &w.monitor
	if m.unvisited.first() == nil || p > m.pass {
		m.pass = p
	}
	w.collectAgain()
	m.unvisited.takeAll(&m.expiries)
	m.epoch++
}

// continuePass visits the next entries of a pass, at most maxPerHold. It returns false
// when no pass is under way. Between two calls, tasks of a shared engine and holders can
// take mu.
func (w *Watchdog[L]) continuePass(now instant) bool {
	m := &w.monitor
	for range maxPerHold {
		b := m.unvisited.first()
		if b == nil {
			w.startVerifications()
			return false
		}
		e := b.head()
		m.unvisited.remove(e)
		e.epoch = m.epoch
		m.expiries.add(e)
		w.collectSuspect(e)
		switch m.pass {
		case clockStepPass:
			e.clockStepped(now)
		case rearmPass:
			e.rearm(now)
		}
	}
	return true
}

// endOverdue ends entries that the engine should have ended, at most maxPerHold. It returns
// true if there may be more.
func (w *Watchdog[L]) endOverdue(now instant) bool {
	m := &w.monitor
	for n := range maxPerHold {
		b := m.expiries.first()
		if b == nil || b.at > now.mono {
			return false
		}
		e := b.head()
		deadline, grace := e.deadline(), e.grace
		e.lose(ReasonExpired)
		m.overdue++
		// If the monitor is late as well, the process was paused.
		if late := time.Duration(now.mono - b.at); n == 0 && late <= grace {
			w.reportLate(time.Duration(now.mono-deadline.mono), now)
		}
	}
	return true
}

// reportLate logs a late engine, at most once per logging.Window, so that the queue of
// reports stays short. The caller holds mu.
func (w *Watchdog[L]) reportLate(late time.Duration, now instant) {
	m := &w.monitor
	m.late = max(m.late, late)
	if m.reportedAt != 0 && time.Duration(now.mono-m.reportedAt) < logging.Window {
		return
	}
	late, overdue := m.late, m.overdue
	m.late, m.reportedAt = 0, now.mono
	engine := fmt.Sprintf("%T", w.engine)
	w.records.add(func() {
		logging.Condition(w.log, "renewal: timer engine is late: a task blocks it, or the process gets too little CPU time",
			slog.String("engine", engine), slog.Duration("late", late), slog.Uint64("leasesEndedByWatchdog", overdue))
	})
}

// yield releases mu between two parts of a pass. The caller holds mu.
func (w *Watchdog[L]) yield() {
	w.unlock()
	w.letOthersRun()
	w.mu.Lock()
}

// letOthersRun lets goroutines that wait for mu take it.
func (w *Watchdog[L]) letOthersRun() {
	if w.onYield != nil {
		w.onYield()
	}
	runtime.Gosched()
}

// expiries holds the entries that have not ended in buckets, by the instant at which the
// monitor ends them. The watchdog's mu guards it.
//
// A renewal moves an entry to a later bucket. While the engine is on time, the first
// bucket is therefore empty when its instant comes, and it is dropped. So the monitor
// never visits healthy entries, whatever their TTLs.
type expiries[L any] struct {
	buckets []*bucket[L] // in order of their instants
	recent  *bucket[L]   // the bucket of the last entry that was added
}

// bucket is the entries that the monitor ends at one instant.
type bucket[L any] struct {
	at   int64    // on the monotonic clock
	root Entry[L] // the sentinel of the ring of entries
}

// add puts an entry into the bucket for its deadline and returns the bucket's instant: the first
// multiple of the width after the grace.
func (x *expiries[L]) add(e *Entry[L]) int64 {
	b := x.recent
	if at := ((e.mono.Load() + int64(e.grace)) | e.bucketMask) + 1; b == nil || b.at != at {
		i, found := len(x.buckets), false
		if i > 0 && at <= x.buckets[i-1].at { // rare: most deadlines are later than all before
			i, found = slices.BinarySearchFunc(x.buckets, at, func(b *bucket[L], at int64) int { return cmp.Compare(b.at, at) })
		}
		if found {
			b = x.buckets[i]
		} else {
			b = &bucket[L]{at: at}
			b.root.expPrev, b.root.expNext = &b.root, &b.root
			x.buckets = slices.Insert(x.buckets, i, b)
		}
		x.recent = b
	}
	first := b.root.expNext
	e.expPrev, e.expNext = &b.root, first
	b.root.expNext, first.expPrev = e, e
	return b.at
}

// remove takes an entry out of its bucket.
func (*expiries[L]) remove(e *Entry[L]) {
	e.expPrev.expNext, e.expNext.expPrev = e.expNext, e.expPrev
	e.expPrev, e.expNext = nil, nil
}

// first drops the empty buckets at the front and returns the first bucket with entries,
// or nil if there is none.
func (x *expiries[L]) first() *bucket[L] {
	for len(x.buckets) > 0 {
		b := x.buckets[0]
		if b.head() != nil {
			return b
		}
		x.buckets[0] = nil // slices.Insert allocates a new array when this one is used up
		x.buckets = x.buckets[1:]
		if x.recent == b {
			x.recent = nil
		}
	}
	*x = expiries[L]{}
	return nil
}

// head returns an entry of the bucket, or nil if it is empty.
func (b *bucket[L]) head() *Entry[L] {
	if e := b.root.expNext; e != &b.root {
		return e
	}
	return nil
}

// takeAll moves all buckets of another set to the end of this one. The receiver is then
// only read, never added to.
func (x *expiries[L]) takeAll(other *expiries[L]) {
	x.buckets = append(x.buckets, other.buckets...)
	*other = expiries[L]{}
}
