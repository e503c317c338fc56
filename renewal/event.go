// This file is about the events that stories are made of, and the recorder that keeps the latest.

package renewal

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// EventKind is what an [Event] reports.
type EventKind uint8

// The events of a lease come from its own history. They are in its story only.
const (
	EventDue      EventKind = iota + 1 // the renewal was due and was not sent; Count calls of the lane were under way
	EventAttempt                       // a renewal was sent, Late after it was due; Took until it failed, 0 if it was under way
	EventDenied                        // the store has denied the ownership; Detail says what it has found
	EventDeadline                      // the deadline of the lease
	EventLost                          // the holder was told, Late after the deadline if that had passed
)

// The events of a watchdog.
const (
	EventSlow      EventKind = iota + 16 // a batch was renewed, but took half of the time that an attempt may take
	EventFailed                          // a batch had leases that were lost or not confirmed
	EventStalled                         // the process did not run, or got too little CPU time, for at least Took
	EventClockStep                       // the wall clock was stepped, or the host was suspended; by Took, which may be negative
)

// The events of a store are reported with Watchdog.Record. Detail names the server.
const (
	EventUnreachable   EventKind = iota + 32 // no connection could be opened
	EventDeadConn                            // a connection gave no answer, but the server answers on another one
	EventServerChanged                       // another server process answers: its run_id or its role has changed
	EventNoMessages                          // the server confirms no subscription, so waiters poll
)

var eventNames = map[EventKind]string{
	EventDue:           "renewal due, not sent",
	EventAttempt:       "renewal sent, not confirmed",
	EventDenied:        "ownership denied",
	EventDeadline:      "deadline",
	EventLost:          "holder told",
	EventSlow:          "renewed slowly",
	EventFailed:        "batch failed",
	EventStalled:       "process stalled",
	EventClockStep:     "clock stepped",
	EventUnreachable:   "server unreachable",
	EventDeadConn:      "dead connection",
	EventServerChanged: "server changed",
	EventNoMessages:    "no messages to waiters, which poll",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if name, ok := eventNames[k]; ok {
		return name
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// AllLanes is the Lane of an event that concerns every lease.
const AllLanes = -1

// Event is something that a watchdog or a store has noticed. The Kind says which fields are
// set.
type Event struct {
	Kind   EventKind
	At     time.Time     // when it happened, or ended
	Lane   int           // the lane, or AllLanes
	Late   time.Duration // how late it was
	Took   time.Duration // how long it took
	Count  int           // calls of Renew
	Leases int           // leases in the batch
	Lost   int           // leases of it that were lost
	Failed int           // leases of it that were not confirmed: no answer, or one that tells nothing of the lease
	Err    error         // the error of the batch
	Detail string        // the server, or what else is known
}

// String returns the time and the event in one line.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.At.Format("15:04:05.000 ") + e.Kind.String())
	separator := ": "
	add := func(format string, arg any) {
		b.WriteString(separator)
		fmt.Fprintf(&b, format, arg)
		separator = ", "
	}
	for _, c := range []struct {
		format string
		n      int
	}{{"%d calls of its lane under way", e.Count}, {"%d leases", e.Leases}, {"%d lost", e.Lost}, {"%d not confirmed", e.Failed}} {
		if c.n > 0 {
			add(c.format, c.n)
		}
	}
	if e.Took != 0 {
		add("%v", basic.Round(e.Took))
	}
	if e.Late != 0 {
		add("late %v", basic.Round(e.Late))
	}
	if e.Detail != "" {
		add("%s", e.Detail)
	}
	if e.Err != nil {
		add("%v", e.Err)
	}
	return b.String()
}

// Story is the events that led to a loss, in the order of their times.
type Story []Event

// String returns the events, each in a line of its own.
func (s Story) String() string {
	lines := make([]string, len(s))
	for i, e := range s {
		lines[i] = e.String()
	}
	return strings.Join(lines, "\n")
}

// recorderSize is the number of events that a recorder keeps. They take 33 kB, and a
// copy that the latest losses share takes as much.
const recorderSize = 256

// recorder keeps the latest events of a watchdog. Adding an event allocates nothing.
type recorder struct {
	mu    sync.Mutex // guards all below; nothing is called while it is held
	ring  []Event    // made for the first event
	n     uint64     // events added
	taken []Event    // the latest result of take; nil after another event was added
}

func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring == nil {
		r.ring = make([]Event, recorderSize)
	}
	r.ring[r.n%recorderSize] = e
	r.n++
	r.taken = nil
}

// take returns the events so far, in the order in which they were added. Nobody changes the
// result. Losses between which nothing has happened share one, so that the loss of a million
// leases takes a few copies.
func (r *recorder) take() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == nil {
		size := min(r.n, recorderSize)
		r.taken = make([]Event, 0, size)
		for i := r.n - size; i < r.n; i++ {
			r.taken = append(r.taken, r.ring[i%recorderSize])
		}
	}
	return r.taken
}

// Record keeps an event of the store, from which a [LostError] tells its story. An Event
// without a time happened now. Record takes a mutex that is never held for long, allocates
// nothing, and may be called from anywhere.
func (w *Watchdog[L]) Record(e Event) {
	if w.engine == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	w.recorder.add(e)
}

// recordBatch records a batch that was slow or failed. The caller holds mu.
func (w *Watchdog[L]) recordBatch(b *batch[L], info *BatchInfo) {
	e := Event{
		Kind: EventSlow, At: w.clock.timeOf(b.sent.mono + int64(info.Took)), Lane: info.Lane, Late: info.Late, Took: info.Took,
		Leases: info.Size, Lost: info.Lost, Failed: info.Unknown, Err: info.Err,
	}
	if info.Lost > 0 || info.Unknown > 0 {
		e.Kind = EventFailed
	}
	w.recorder.add(e)
}
