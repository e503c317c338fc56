// Lanes, their due entries, and the workers that renew these in batches.

package renewal

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// startWorker starts a worker for the due leases of a lane, after the given wait. It does
// nothing if a worker is about to take them. It also does nothing if the
// lane has all its workers: one of them will take the leases. The caller holds mu.
func (w *Watchdog[L]) startWorker(l *lane[L], wait time.Duration) {
	if l.lingering || l.workers == w.opts.tuning.InFlight || w.closed {
		return
	}
	l.lingering = true
	l.workers++
	w.workers++
	go w.runWorker(l, wait, w.clock.now().mono+int64(wait))
}

// batch is the leases of one call of Renew, and the memory of one worker.
type batch[L any] struct {
	entries        []*Entry[L]
	leases         []L
	validities     []time.Duration // of the TTLs that the leases are sent with
	outcomes       []Outcome
	sent           instant
	late           time.Duration // the longest lateness
	attemptTimeout time.Duration // the longest attempt timeout
	deadline       instant       // the latest deadline
	early          bool          // of a verification
}

// begin empties the batch, to be sent at that instant.
func (b *batch[L]) begin(sent instant) {
	*b = batch[L]{b.entries[:0], b.leases[:0], b.validities[:0], b.outcomes, sent, 0, 0, instant{distantPast, distantPast}, b.early}
}

// add adds the lease of an entry.
func (b *batch[L]) add(e *Entry[L]) {
	b.entries = append(b.entries, e)
	b.leases = append(b.leases, e.lease)
	b.validities = append(b.validities, e.validity)
	if d := e.deadline(); d.mono > b.deadline.mono {
		b.deadline = d
	}
}

// runWorker renews batches until nothing is due. A Renew that calls runtime.Goexit, as
// FailNow of a test does, ends the goroutine, but the deferred calls still run. It begins after the given wait, at an instant on the
// monotonic clock.
func (w *Watchdog[L]) runWorker(l *lane[L], wait time.Duration, begin int64) {
	time.Sleep(wait)
	w.mu.Lock()
	defer w.unlock()
	l.lingering = false
	w.monitor.delays.add(begin, w.clock.now().mono, w.monitor.tolerance)
	b, _ := w.batches.Get().(*batch[L])
	if b == nil {
		b = new(batch[L])
	}
	defer func() {
		w.batches.Put(b)
		l.workers--
		w.workers--
		if l.next() != nil { // Renew has called runtime.Goexit
			w.startWorker(l, 0)
		}
		w.forget(l)
		if w.closed {
			w.signalDrained()
		}
	}()
	for w.fill(l, b) {
		if l.next() != nil {
			w.startWorker(l, 0)
		}
		w.renew(l, b)
	}
}

// fill moves due leases of one queue into b, at most maxBatch. It returns false if
// nothing is due. The time of sending is read here, before the request, because
// confirmed renewals count from it.
func (w *Watchdog[L]) fill(l *lane[L], b *batch[L]) bool {
	for {
		if w.closed {
			return false
		}
		b.begin(w.clock.now())
		budget := maxPerHold // for entries whose deadline has passed
		for q := l.next(); q != nil && len(b.entries) == 0 && budget > 0; q = l.next() {
			w.fillFrom(q, b, &budget)
		}
		if len(b.entries) > 0 {
			return true
		}
		if l.next() == nil {
			return false
		}
		w.yield()
	}
}

// fillFrom moves due leases of the queue into b.
func (w *Watchdog[L]) fillFrom(q *queue[L], b *batch[L], budget *int) {
	for e := q.head(); e != nil && len(b.entries) < w.opts.tuning.MaxBatch && *budget > 0; e = q.head() {
		if !e.startRenewal(b.sent) { // it has expired and left the queue
			*budget--
			continue
		}
		e.list.remove(e)
		b.add(e)
		late := max(time.Duration(b.sent.mono-e.renewAt)-lingerFor(e.period), 0)
		w.stats.Late.Add(late)
		b.late = max(b.late, late)
		b.attemptTimeout = max(b.attemptTimeout, e.attemptTimeout(b.sent))
	}
}

// errGoexit is the error of a batch whose Renew has called runtime.Goexit.
var errGoexit = errors.New("renewal: Renew called runtime.Goexit")

// renew sends a batch and applies its outcomes. The caller holds mu, which is released
// during the call.
func (w *Watchdog[L]) renew(l *lane[L], b *batch[L]) {
	// The call ends with the latest deadline of its batch. With the earliest one, a short lease would
	// take time from healthy leases. Each entry's own timer guards its own deadline.
	timeout := min(cmp.Or(w.opts.Timeout, b.attemptTimeout), b.sent.until(b.deadline))
	parent := w.ctx
	if b.early {
		timeout, parent = min(timeout, b.attemptTimeout), seam.MarkEarly(parent)
	} else if l.calls++; l.calls == 1 {
		l.silentSince = b.sent.mono
	}
	if w.calls++; w.calls == 1 {
		w.wakeMonitor(b.sent.mono+w.interval(), b.sent)
	}
	w.unlock()
	err := errGoexit
	defer func() {
		w.mu.Lock()
		w.calls--
		if !b.early {
			l.calls--
			w.noteReturn(l, b, err, timeout)
		}
		w.applyOutcomes(l, b, err)
	}()
	ctx, cancel := context.WithTimeoutCause(parent, timeout, errNoAnswer)
	defer cancel()
	b.outcomes = slices.Grow(b.outcomes[:0], len(b.leases))[:len(b.leases)]
	clear(b.outcomes)
	err = w.renewer.Renew(ctx, b.leases, b.outcomes)
}

// noteReturn keeps what the return of a call of Renew shows about the server and about this process. The caller holds mu.
func (w *Watchdog[L]) noteReturn(l *lane[L], b *batch[L], err error, timeout time.Duration) {
	now := w.clock.now()
	m := &w.monitor
	m.delays.add(b.sent.mono+int64(timeout), now.mono, m.tolerance)
	if err == nil || !isTimeout(err) {
		l.silentSince = now.mono
	}
	took := time.Duration(now.mono - b.sent.mono)
	if err != nil || took < b.attemptTimeout/slowDivisor {
		return
	}
	w.noteStall(now)
	stalled, complete := m.stalls.between(b.sent.mono, now.mono)
	if delayed, all := m.delays.between(b.sent.mono, now.mono); complete && all && stalled+delayed < b.attemptTimeout/lateDivisor {
		l.slowAt, l.slowTook = now.mono, took
	}
}

// applyOutcomes applies the outcomes of a batch and drops its leases. The caller holds mu.
func (w *Watchdog[L]) applyOutcomes(l *lane[L], b *batch[L], err error) {
	now, denied := w.clock.now(), 0
	info := BatchInfo{Lane: l.id, Size: len(b.entries), Late: b.late, Took: time.Duration(now.mono - b.sent.mono), Err: err}
	for i, e := range b.entries {
		if i > 0 && i%maxPerHold == 0 {
			w.yield()
			now = w.clock.now()
		}
		outcome := b.outcomes[i]
		switch {
		case e.state != renewing && !b.early, e.state == ended:
			info.Ended++
		case outcome == Renewed:
			info.Renewed++
		case outcome.IsLost():
			info.Lost++
			e.completion().answer = outcome
			if !now.reached(e.deadline()) {
				denied++
			}
		default:
			info.Unknown++
		}
		if b.early {
			e.applyEarly(outcome, err, b.sent, b.validities[i], now)
		} else {
			e.applyOutcome(outcome, err, b.sent, b.validities[i], now)
		}
	}
	w.noteDenials(l, denied, info.Renewed, b.early, now)
	clear(b.entries)
	clear(b.leases)
	w.stats.Batches++
	w.stats.Renewed += uint64(info.Renewed)
	w.stats.Unknown += uint64(info.Unknown)
	if w.opts.Hooks.BatchDone != nil {
		w.reportBatch(info)
	}
}

// lane is the due leases that fail together, the workers that renew them, and what is known
// about their server. The watchdog's mu guards it. An idle worker takes all due leases, and the
// leases that become due meanwhile form the next batch. Workers exist only while leases are due.
// Each worker has its own batch, so a call of Renew that hangs does not affect other batches.
type lane[L any] struct {
	id        int
	queues    []*queue[L]
	workers   int
	calls     int  // calls of Renew under way
	lingering bool // a worker is about to take the due leases
	early     verification[L]

	// On the monotonic clock.
	silentSince int64         // the latest answer, or when the first call under way was sent
	slowAt      int64         // the latest answer that took half of an attempt, while this process was not late
	slowTook    time.Duration // its time
	changedAt   int64         // when another server process answered last
	changedTo   string        // which
}

// maxLanes is the number of lanes that the watchdog remembers while they have nothing to do.
const maxLanes = 1024

// lane returns a lane, or that of AllLanes, which has no leases. The caller holds mu.
func (w *Watchdog[L]) lane(id int) *lane[L] {
	l := w.lanes[id]
	if l == nil {
		l = &lane[L]{id: id, changedAt: distantPast, early: verification[L]{begun: distantPast, limit: distantPast, sample: distantPast}}
		w.lanes[id] = l
	}
	return l
}

// laneOf returns the lane of an entry. The caller holds mu.
func (w *Watchdog[L]) laneOf(e *Entry[L]) *lane[L] {
	return w.lane(w.laner.Lane(e.lease))
}

// oneLane is the Laner of a Renewer that is none.
type oneLane[L any] struct{}

func (oneLane[L]) Lane(L) int { return 0 }

// forget drops a lane that has nothing to do, if there are too many. The caller holds mu.
func (w *Watchdog[L]) forget(l *lane[L]) {
	if len(w.lanes) > maxLanes && l.workers == 0 && !l.early.running && !l.early.passing {
		delete(w.lanes, l.id)
	}
}

// queue is the due leases of a lane whose attempt timeouts differ by less than a factor of
// two. A batch comes from one queue. In a batch with longer timeouts, a call that hangs
// would leave a lease no time for its second attempt.
type queue[L any] struct {
	timeoutLog2 int     // the number of bits of the attempt timeout
	retries     list[L] // leases whose last renewal failed: they have the earliest deadlines
	fresh       list[L] // all others; leases with the same TTL are in order of their deadlines
}

// enqueue puts an entry into the queue for its attempt timeout.
func (l *lane[L]) enqueue(e *Entry[L], attemptTimeout time.Duration) {
	timeoutLog2 := bits.Len64(uint64(max(attemptTimeout, 0)))
	i := slices.IndexFunc(l.queues, func(q *queue[L]) bool { return q.timeoutLog2 == timeoutLog2 })
	if i < 0 {
		i = len(l.queues)
		l.queues = append(l.queues, &queue[L]{timeoutLog2: timeoutLog2})
	}
	q := l.queues[i]
	if e.failures > 0 {
		q.retries.push(e)
	} else {
		q.fresh.push(e)
	}
}

// next returns the queue of the next batch, or nil if nothing is due. Queues with retries
// come first, then the queue whose first lease has been due longest. In order of
// deadlines, a stream of short leases would delay long ones until their own deadlines.
func (l *lane[L]) next() *queue[L] {
	var first *queue[L]
	for _, q := range l.queues {
		if q.head() != nil && (first == nil || q.precedes(first)) {
			first = q
		}
	}
	return first
}

func (q *queue[L]) precedes(other *queue[L]) bool {
	if retries := q.retries.head != nil; retries != (other.retries.head != nil) {
		return retries
	}
	return q.head().renewAt < other.head().renewAt
}

// head returns the entry to be renewed next, or nil if none is due.
func (q *queue[L]) head() *Entry[L] { return cmp.Or(q.retries.head, q.fresh.head) }

// list is a linked list of entries, from which any entry can be removed in O(1).
type list[L any] struct {
	head, tail *Entry[L]
	len        int
}

func (l *list[L]) push(e *Entry[L]) {
	e.list, e.prev, e.next = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.len++
}

// age returns how long the first entry has been due, or 0 if there is none.
func (l *list[L]) age(now instant) time.Duration {
	if l.head == nil {
		return 0
	}
	return time.Duration(now.mono - l.head.renewAt)
}

func (l *list[L]) remove(e *Entry[L]) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.list, e.prev, e.next = nil, nil, nil
	l.len--
}
