// Package faulttest tests whether a function that holds locks survives what happens to them. It plays
// schedules of faults in virtual time: the store hangs, fails or loses answers, the process stops for
// longer than its lease, the lock goes to a rival, and the program is asked to end.
//
//	func TestReport(t *testing.T) {
//		faulttest.Run(t, 1000, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
//			return report(ctx, client, func(ctx context.Context) error { return r.Write(ctx) })
//		})
//	}
//
// [Server] is a store that hangs or fails when a test orders it.
//
// Run does not see everything:
//
//   - A write counts as protected if the function holds any lock, unless it holds all as a reader. Name
//     the lock by [Resource.Under], or a lock of another key goes unnoticed.
//   - It sees no writes but those of the Resource, and does not judge saves of a state
//     ([lock.Held.Save]).
//   - Goroutines cannot be frozen. A stop of the process delays the return of each call of the store
//     or the resource until its end, and the function goes on between such calls. In Run a write takes
//     effect before such a stop, so a check of Held.Valid right before the write suffices. [RunFenced]
//     also stops the process between that check and the write.
//   - A panic of a goroutine that the function has started ends the test binary, and a function that
//     waits for something outside of its bubble, such as a network, hangs.
//
// The function under test gets a client, and calls the [Resource] where it would write to what the
// lock protects. A test fails if
//
//   - a write has no lock: it was never acquired, was unlocked, or was lost and the holder could know it,
//   - the function does not return within 5 min after its ctx has ended, as when it waits in Lock without
//     that ctx, panics, or ends its goroutine as t.FailNow does,
//   - the function leaves a lock behind, which the client would renew for ever, or a goroutine, which
//     still runs 5 min after its return.
//
// The message has the shortest schedule that shows it. The same seed nearly always plays the same
// schedule, as far as the function does not depend on chance.
package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasewheel/leasewheel/lock"
)

// Run plays n schedules of faults with a function, each in a synctest bubble of its own. The first
// one has no faults: the function must succeed and acquire a lock. Run ends the test at the first
// schedule that shows a mistake.
//
// The function is one process. Its ctx ends 5 min after the start, as at a SIGTERM, or before that as
// a fault. It must return within 5 min after that. Its client has a TTL of 30 s. Errors that the
// function returns are no mistakes.
func Run(t *testing.T, n int, work func(ctx context.Context, client *lock.Client, r *Resource) error) {
	t.Helper()
	run(t, n, false, work)
}

// RunFenced is Run for functions that send fencing tokens. The process also stops between the last
// check of the function and its write, and a lock that was taken away counts as lost at once, though
// its holder cannot know. Only [Resource.WriteFenced] is right then.
func RunFenced(t *testing.T, n int, work func(ctx context.Context, client *lock.Client, r *Resource) error) {
	t.Helper()
	run(t, n, true, work)
}

type function = func(ctx context.Context, client *lock.Client, r *Resource) error

func run(t *testing.T, n int, fenced bool, work function) {
	t.Helper()
	if err := find(t, n, fenced, work); err != nil {
		t.Fatal(err)
	}
}

// Find is Run, but returns the failure as an error, or nil. With it, a test can show that it would
// find a mistake.
func Find(t *testing.T, n int, work func(ctx context.Context, client *lock.Client, r *Resource) error) error {
	t.Helper()
	return find(t, n, false, work)
}

// FindFenced is RunFenced, but returns the failure as an error, or nil.
func FindFenced(t *testing.T, n int, work func(ctx context.Context, client *lock.Client, r *Resource) error) error {
	t.Helper()
	return find(t, n, true, work)
}

func find(t *testing.T, n int, fenced bool, work function) error {
	t.Helper()
	base := play(t, nil, fenced, work)
	switch {
	case base.mistake != "":
		return base.report("without any fault")
	case base.err != nil && !errors.Is(base.err, context.Canceled):
		return fmt.Errorf("faulttest: without any fault: your function fails: %w", base.err)
	case base.granted == 0:
		return errors.New("faulttest: without any fault: your function acquires no lock of the client that it gets")
	}
	for seed := 1; seed < n; seed++ {
		faults := draw(uint64(seed), base.points, fenced)
		if o := play(t, faults, fenced, work); o.mistake != "" {
			return shrink(t, faults, o, fenced, work).report(fmt.Sprint("seed ", seed))
		}
	}
	return nil
}

// shrink returns the outcome of the fewest faults of a schedule that show a mistake.
func shrink(t *testing.T, faults []fault, shown outcome, fenced bool, work function) outcome {
	t.Helper()
	for again := true; again; {
		again = false
		for i := range faults {
			fewer := slices.Delete(slices.Clone(faults), i, i+1)
			if o := play(t, fewer, fenced, work); o.mistake != "" {
				faults, shown, again = fewer, o, true
				break
			}
		}
	}
	return shown
}

// outcome is what a schedule has shown.
type outcome struct {
	mistake string   // "" if there is none
	err     error    // of the function
	points  int      // calls at which a fault can occur
	granted int      // leases
	trace   []string // events
}

func (o outcome) report(when string) error {
	return fmt.Errorf("faulttest: %s: %s\n\n  %s", when, o.mistake, strings.Join(o.trace, "\n  "))
}
