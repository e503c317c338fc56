// Evidence about a loss: what the answers, the engine, the clocks and the server have shown.

package renewal

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// EventKind is what an [Event] reports.
type EventKind uint8

// The events that a store reports. Detail names the server.
const (
	EventServerChanged EventKind = iota + 1 // another server process answers: its run_id or its role has changed
	EventNoMessages                         // the server confirms no subscription, so waiters poll
	EventVerify                             // the server may have lost leases: its connection has ended, or another process or role answers
)

// AllLanes is the Lane of an event that concerns every lease.
const AllLanes = -1

// Event is something that a store has noticed about a server.
type Event struct {
	Kind   EventKind
	Lane   int // of the leases that it concerns, or AllLanes
	Detail string
}

// Record notes what a store has noticed. An EventServerChanged explains a loss of the same lane before its next
// confirmed renewal. After an EventVerify the leases of the lane are renewed early, once the server answers. That is at most one
// pass in a period of the longest lease, unless an EventServerChanged of the lane came in between. Record takes mutexes that are
// never held for long. It must not be called from Laner.Lane.
func (w *Watchdog[L]) Record(e Event) {
	if w.engine == nil {
		return
	}
	w.mu.Lock()
	defer w.unlock()
	l, now := w.lane(e.Lane), w.clock.now()
	switch e.Kind {
	case EventServerChanged:
		l.changedAt, l.changedTo = now.mono, e.Detail
	case EventVerify:
		w.suspect(l, now)
	case EventNoMessages: // concerns no lease
	}
	w.forget(l)
}

// changedSince returns the latest EventServerChanged of a lane, if it is not earlier than begin. The caller holds mu.
func (w *Watchdog[L]) changedSince(begin int64, l *lane[L]) (detail string, changed bool) {
	for _, of := range [...]*lane[L]{l, w.lanes[AllLanes]} {
		if of != nil && of.changedAt >= begin {
			return of.changedTo, true
		}
	}
	return "", false
}

// delay is a time in which something of this process was late, on the monotonic clock.
type delay struct{ from, to int64 }

// maxDelays is how many delays are remembered. Each is longer than the smallest margin, so they cover two attempts of most leases.
const maxDelays = 64

// delays are the latest delays of one kind. They do not overlap.
type delays struct {
	ring [maxDelays]delay
	n    uint64
	last int64 // the end of the latest one
}

// add adds what is new of a delay, unless it is at most tolerance long.
func (d *delays) add(from, to int64, tolerance time.Duration) {
	if from = max(from, d.last); to-from > int64(tolerance) {
		d.ring[d.n%maxDelays] = delay{from, to}
		d.n++
		d.last = to
	}
}

// between returns how long the delays between two instants were. It reports false if older ones may be missing.
func (d *delays) between(from, to int64) (sum time.Duration, complete bool) {
	for _, r := range d.ring[:min(d.n, maxDelays)] {
		sum += time.Duration(max(min(r.to, to)-max(r.from, from), 0))
	}
	return sum, d.n <= maxDelays || d.ring[d.n%maxDelays].from <= from
}

// noteAttempt remembers a renewal that has failed. The caller holds mu.
func (e *Entry[L]) noteAttempt() {
	end := e.completion()
	if e.failures == 0 || end.attempts == 0 {
		end.attempts, end.firstDue = 0, e.renewAt
	}
	end.attempts++
}

// evidence is what is known about a loss. It does not change.
type evidence struct {
	answer   Outcome       // by which the store has ended the lease; otherwise Unknown
	sent     int           // renewals since the last confirmed one
	answered bool          // the last one has ended with an error that is no timeout
	refused  bool          // by its error, the last one was not sent
	unsent   bool          // a renewal was due and was not sent
	inQueue  bool          // its timer has fired
	calls    int           // of the lane that were under way then
	silent   bool          // none of them has returned for half of the window
	window   time.Duration // since the first renewal was due that was not confirmed
	attempt  time.Duration // the time that an attempt may take
	stalled  time.Duration // the process did not run, within the window
	delayed  time.Duration // timers, workers or returns of this process were late, within the window
	complete bool          // stalled and delayed are complete
	engine   bool          // the process ran, but the timer engine had not started the renewal
	slow     time.Duration // another answer of the server took so long, 0 if none was slow
	stepped  bool          // a clock was stepped before any renewal had failed, which has moved the deadline
	changed  bool          // another server process answered
	server   string        // which
}

// collect returns the evidence about the loss of an entry. The caller holds mu, and the entry has not ended yet.
func (w *Watchdog[L]) collect(e *Entry[L], reason Reason, now instant) *evidence {
	v := &evidence{attempt: e.period}
	first, deadline := min(e.renewAt, now.mono), e.deadline()
	if end := e.end; end != nil {
		v.answer = end.answer
		if e.failures > 0 && end.attempts > 0 {
			err := end.lost.Err
			v.sent, v.answered, v.refused = end.attempts, err != nil && !isTimeout(err), errors.Is(err, ErrNotSent)
			first = end.firstDue
		}
	}
	v.window = time.Duration(now.mono - first)
	begin := max(deadline.mono-int64(e.validity), first-int64(e.period)) // right before the last confirmed renewal
	l := cmp.Or(e.lane, w.lane(0))
	v.server, v.changed = w.changedSince(begin, l)
	if reason == ReasonNotOwned {
		return v
	}
	w.noteStall(now)
	m, ran := &w.monitor, w.monitor.comparedAt
	if m.running {
		ran = m.ranBefore
	}
	stalled, allStalls := m.stalls.between(first, now.mono)
	delayed, allDelays := m.delays.between(first, now.mono)
	v.stalled, v.delayed, v.complete = stalled, delayed, allStalls && allDelays
	byWall := now.wall >= deadline.wall && deadline.mono-now.mono > int64(e.margin)
	v.stepped = reason == ReasonExpired && v.sent == 0 && (e.stepped || byWall)
	switch {
	case reason == ReasonFailed: // the last attempt has just ended
	case e.state == renewing:
		v.sent++
	case e.renewAt < now.mono:
		v.unsent, v.inQueue = true, e.state == due
		v.engine = e.state == waiting && ran > e.renewAt+int64(e.margin)
	}
	v.calls = l.calls
	v.silent = l.calls > 0 && now.mono-l.silentSince >= int64(v.window/2)
	if l.slowAt >= begin {
		v.slow = l.slowTook
	}
	return v
}

// Seen returns in one line what was seen of the loss: renewals, delays of the process, steps of a clock, and changes of the server. It
// is "" if nothing was seen. The text may change between versions.
func (e *LostError) Seen() string {
	v := e.evidence
	if v == nil {
		return ""
	}
	var seen []string
	say := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
	renewals := "renewals"
	if v.sent == 1 {
		renewals = "renewal"
	}
	window := basic.Round(v.window)
	switch {
	case v.answer == LostMissing:
		say("the store has no such lease")
	case v.answer == LostTaken:
		say("another owner has the lease")
	case v.refused:
		say("%d %s not sent within %v", v.sent, renewals, window)
	case v.answered:
		say("%d %s failed within %v", v.sent, renewals, window)
	case v.sent > 0:
		say("%d %s sent, no answer within %v", v.sent, renewals, window)
	case v.inQueue:
		say("a renewal was due for %v and was not sent, %d calls were under way", window, v.calls)
	case v.unsent:
		say("a renewal was due for %v, its timer had not fired", window)
	}
	if v.slow > 0 {
		say("the server took %v for another renewal", basic.Round(v.slow))
	}
	if v.stalled > 0 {
		say("the process did not run for %v", basic.Round(v.stalled))
	}
	if v.delayed > 0 {
		say("its timers and goroutines were late by %v", basic.Round(v.delayed))
	}
	if v.stepped {
		say("a clock was stepped")
	}
	if v.changed {
		say("another server process answered: %s", v.server)
	}
	return strings.Join(seen, "; ")
}
