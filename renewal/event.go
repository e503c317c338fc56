package renewal

import (
	"fmt"
	"strings"
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

// The events of a watchdog are kept in its flight recorder.
const (
	EventRenewed    EventKind = iota + 16 // Count batches were renewed, the slowest in Took
	EventSlow                             // a batch was renewed, but took half of the time that an attempt may take
	EventFailed                           // a batch had leases that were lost or not confirmed
	EventEngineLate                       // the timer engine fired late
	EventStalled                          // the process did not run, or got too little CPU time, for at least Took
	EventGCPause                          // a pause for garbage collection of Took or more
	EventClockStep                        // the wall clock was stepped, or the host was suspended; by Took, which may be negative
)

// The events of a store are reported with Watchdog.Record. Detail names the server.
const (
	EventConnected     EventKind = iota + 32 // a connection was opened; the server has not answered on it yet
	EventReady                               // the server has answered on a new connection, Took after it was opened
	EventUnreachable                         // no connection could be opened
	EventDeadConn                            // a connection gave no answer, but the server answers on another one
	EventServerChanged                       // another server process answers: its run_id or its role has changed
	EventMoved                               // another server has become responsible for some keys
	EventSignal                              // a lock was handed over to a waiter of this process
)

var eventNames = map[EventKind]string{
	EventDue:           "renewal due, not sent",
	EventAttempt:       "renewal sent",
	EventDenied:        "ownership denied",
	EventDeadline:      "deadline",
	EventLost:          "holder told",
	EventRenewed:       "renewed",
	EventSlow:          "renewed slowly",
	EventFailed:        "batch failed",
	EventEngineLate:    "timer engine late",
	EventStalled:       "process stalled",
	EventGCPause:       "GC pause",
	EventClockStep:     "clock stepped",
	EventConnected:     "connection opened",
	EventReady:         "connection ready",
	EventUnreachable:   "server unreachable",
	EventDeadConn:      "dead connection",
	EventServerChanged: "server changed",
	EventMoved:         "keys moved",
	EventSignal:        "lock handed over",
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
	Count  int           // how many similar events this one stands for, or calls; 0 means one
	Leases int           // leases in the batches
	Lost   int           // leases of them that were lost
	Failed int           // leases of them that were not confirmed: no answer, or one that tells nothing of the lease
	Err    error         // the error of a batch
	Detail string        // the server, or what else is known
}

// String returns the time and the event in one line.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.At.Format("15:04:05.000 "))
	b.WriteString(e.Kind.String())
	switch e.Kind {
	case EventAttempt:
		fmt.Fprintf(&b, " %s", signed(e.Late))
		if e.Took == 0 {
			b.WriteString(", no answer yet")
		} else {
			fmt.Fprintf(&b, ", not confirmed after %v", basic.Round(e.Took))
		}
	case EventDue:
		if e.Count > 0 {
			fmt.Fprintf(&b, ": %d calls of its lane were under way", e.Count)
		}
	case EventLost:
		fmt.Fprintf(&b, " %s", signed(e.Late))
	case EventRenewed, EventSlow, EventFailed:
		fmt.Fprintf(&b, ": %d leases in %d batches, %v, late %v", e.Leases, max(e.Count, 1), basic.Round(e.Took), basic.Round(e.Late))
		if e.Lost > 0 {
			fmt.Fprintf(&b, ", %d lost", e.Lost)
		}
		if e.Failed > 0 {
			fmt.Fprintf(&b, ", %d not confirmed", e.Failed)
		}
	case EventEngineLate:
		fmt.Fprintf(&b, " by %v", basic.Round(e.Late))
	case EventStalled:
		fmt.Fprintf(&b, " for %v", basic.Round(e.Took))
	case EventGCPause:
		fmt.Fprintf(&b, " of %v or more", basic.Round(e.Took))
	case EventReady:
		fmt.Fprintf(&b, " after %v", basic.Round(e.Took))
	case EventClockStep:
		fmt.Fprintf(&b, " by %v", basic.Round(e.Took))
	case EventSignal:
		if e.Count > 1 {
			fmt.Fprintf(&b, " %d times", e.Count)
		}
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func signed(d time.Duration) string {
	if d < 0 {
		return basic.Round(d).String()
	}
	return "+" + basic.Round(d).String()
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
