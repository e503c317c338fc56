// The events and violations of a schedule, and its result.

package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// Result is the result of a schedule.
type Result struct {
	Counts     *Counts
	Violations []string
	Digest     uint64 // of all events; does not depend on their order within an instant
}

// play plays the schedule of a seed in its own bubble. The trace may be nil.
func play(t *testing.T, seed uint64, trace func(string), simulate func(uint64, func(string)) Result) (r Result) {
	r.Counts = NewCounts()
	defer func() {
		if p := recover(); p != nil {
			r.Violations = append(r.Violations, fmt.Sprintf("R1: %v", p))
			r.Counts.Violations++
		}
	}()
	synctest.Test(t, func(*testing.T) { r = simulate(seed, trace) })
	return r
}

// report fails the test if a promise was broken. The message has the command that plays the
// schedule again.
func (r Result) report(t *testing.T, seed uint64, command string) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", seed, v)
	}
	if len(r.Violations) > 0 {
		t.Logf("in folder verify, to see it again: %s -seed %d -args -trace", command, seed)
	}
}

// Trace records the events of a schedule. It is not safe for concurrent use.
type Trace struct {
	Counts *Counts

	begun      time.Time
	emit       func(string) // may be nil
	violations []string
	digest     uint64
}

const maxViolations = 8

// NewTrace returns the trace of a schedule that begins now. Each event is passed to emit,
// which may be nil.
func NewTrace(emit func(string)) *Trace {
	return &Trace{Counts: NewCounts(), begun: time.Now(), emit: emit}
}

// Note adds an event.
func (t *Trace) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at := time.Since(t.begun)
	t.digest += simrand.Mix(uint64(at), simrand.Hash(text))
	if t.emit != nil {
		t.emit(fmt.Sprintf("%-14v %s", at, text))
	}
}

// Check counts a check.
func (t *Trace) Check(name string) { t.Counts.Checks[name]++ }

// Violated records a broken promise.
func (t *Trace) Violated(check, format string, args ...any) {
	text := fmt.Sprintf("%v: %s: %s", time.Since(t.begun), check, fmt.Sprintf(format, args...))
	t.Note("VIOLATION %s", text)
	if len(t.violations) < maxViolations {
		t.violations = append(t.violations, text)
	}
}

// Result returns the result of a finished schedule.
func (t *Trace) Result(class string) Result {
	t.Counts.Schedules = 1
	t.Counts.Classes[class]++
	t.Counts.Simulated = time.Since(t.begun)
	t.Counts.Violations = len(t.violations)
	return Result{t.Counts, t.violations, t.digest}
}
