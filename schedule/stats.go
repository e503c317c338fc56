// The counters that all engines report.

package schedule

import (
	"fmt"
	"log/slog"
	"time"
)

// Stats are the counters of an engine since it was made. All engines of this module use
// them. The lateness of a Run is the time from the instant of its timer to the beginning of
// the Run. An engine with ticks counts from the end of the tick in which the timer was due.
type Stats struct {
	Pending     int           // timers that are pending or whose Run is in progress
	Fired       uint64        // Runs that have begun
	Panics      uint64        // Runs that panicked
	Wakeups     uint64        // times that a goroutine of the engine woke up to look for due timers
	LateMean    time.Duration // mean lateness of all Runs
	LateMax     time.Duration // greatest lateness
	Late        Histogram     // lateness of all Runs
	LongestTask time.Duration // duration of the longest Run that has ended
	Running     time.Duration // longest duration so far of a Run in progress; 0 if there is none, or if it is unknown
	DroppedLogs uint64        // records that were dropped because the Logger was slow or failed
}

// String returns all counters in one line. It rounds durations to about four digits.
func (s Stats) String() string {
	return fmt.Sprintf("%d pending, %d fired, %d panicked, %d wakeups, late by %v (mean) and %v (max), longest task %v, running for %v",
		s.Pending, s.Fired, s.Panics, s.Wakeups, round(s.LateMean), round(s.LateMax), round(s.LongestTask), round(s.Running))
}

// LogValue returns a group with one attribute for each field.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("pending", s.Pending),
		slog.Uint64("fired", s.Fired),
		slog.Uint64("panics", s.Panics),
		slog.Uint64("wakeups", s.Wakeups),
		slog.Duration("lateMean", s.LateMean),
		slog.Duration("lateMax", s.LateMax),
		slog.Duration("longestTask", s.LongestTask),
		slog.Duration("running", s.Running),
		slog.Uint64("droppedLogs", s.DroppedLogs),
		slog.Any("late", s.Late),
	)
}

// round rounds d to four significant digits.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 10_000 {
		unit *= 10
	}
	return d.Round(unit)
}
