package part

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// Result is what a schedule did.
type Result struct {
	Counts     *Counts
	Violations []string
	Digest     uint64 // of all events, whatever their order within an instant
}

// Play plays the schedule of a seed in a bubble of its own. The trace may be nil.
func Play(t *testing.T, seed uint64, trace func(string), simulate func(seed uint64, trace func(string)) Result) (r Result) {
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

// Held fails the test if a promise was broken, and says by which command to see it
// again.
func (r Result) Held(t *testing.T, seed uint64, command string) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", seed, v)
	}
	if len(r.Violations) > 0 {
		t.Logf("in folder verify, to see it again: %s -seed %d -args -trace", command, seed)
	}
}

// Diary takes down what happens in a schedule. It is for one goroutine at a time.
type Diary struct {
	Counts *Counts

	begun      time.Time
	trace      func(string) // may be nil
	violations []string
	digest     uint64
}

const mostViolations = 8

// NewDiary returns the diary of a schedule that begins now.
func NewDiary(trace func(string)) *Diary {
	return &Diary{Counts: NewCounts(), begun: time.Now(), trace: trace}
}

// Note adds an event.
func (d *Diary) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at := time.Since(d.begun)
	d.digest += chance.Mix(uint64(at), chance.Digest(text))
	if d.trace != nil {
		d.trace(fmt.Sprintf("%-14v %s", at, text))
	}
}

// Check notes that something was looked at.
func (d *Diary) Check(name string) { d.Counts.Checks[name]++ }

// Violated notes that a look found a promise broken.
func (d *Diary) Violated(check, format string, args ...any) {
	text := fmt.Sprintf("%v: %s: %s", time.Since(d.begun), check, fmt.Sprintf(format, args...))
	d.Note("VIOLATION %s", text)
	if len(d.violations) < mostViolations {
		d.violations = append(d.violations, text)
	}
}

// Result returns what a schedule of that class did, which is over.
func (d *Diary) Result(class string) Result {
	d.Counts.Schedules = 1
	d.Counts.Classes[class]++
	d.Counts.Simulated = time.Since(d.begun)
	d.Counts.Violations = len(d.violations)
	return Result{d.Counts, d.violations, d.digest}
}
