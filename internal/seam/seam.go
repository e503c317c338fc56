// Package seam gives the tests of this repository control over what a synctest bubble
// cannot change, and shows its demo the inside of a timer engine. Programs cannot import it.
package seam

import (
	"context"
	"sync/atomic"
	"time"
)

// StepWall steps the wall clock, as package renewal reads it, by d against the
// monotonic clock. It applies to all watchdogs of the process. The effect is that of a
// suspended host or a stepped clock. Package renewal sets StepWall.
var StepWall func(d time.Duration)

// RenewalPhase is the first phase of the watchdogs that are made now, as a fraction of its range,
// at least 0 and below 1. While it is nil, package renewal draws the phase at random. A
// simulation sets it, so that its seed decides the phase too, perhaps beside other tests.
var RenewalPhase atomic.Pointer[float64]

// Tuning is what tests change of the watchdog of package renewal and programs cannot. A zero field
// means the default.
type Tuning struct {
	MaxBatch int                           // the most leases in one call of Renew; 1,000
	InFlight int                           // the most concurrent calls of Renew per lane; 4
	Align    time.Duration                 // renewals are rounded down to its multiples, unless it is negative; 1/100 of the period of each lease
	Lost     func(lease any, reason error) // is called after each loss, in order, on the goroutine of the hooks
}

// Tuned returns a renewal.Policy with a Tuning.
func Tuned[Policy any](p Policy, t Tuning) Policy {
	Tune(&p, t)
	return p
}

// Tune sets the Tuning of a *renewal.Policy. Package renewal sets Tune.
var Tune func(policy any, t Tuning)

// PausableEngine is a timer engine of a simulated process that can be paused. Package
// renewal calls AwaitRunning before work that does not run on the engine.
type PausableEngine interface {
	// AwaitRunning blocks while the process is paused.
	AwaitRunning()
}

// InspectWheel returns where the timers of a *wheel.Wheel are. Package wheel sets it.
var InspectWheel func(w any) WheelState

// WheelState is a snapshot of a wheel, the sum of its shards.
type WheelState struct {
	Levels []WheelLevel // from level 0 up to the last one with timers, at least two; none before the first timer
}

// WheelLevel is a level of a wheel.
type WheelLevel struct {
	Width  time.Duration // of a bucket
	Hand   int           // the bucket of the current tick
	Timers []int         // in each bucket, which is a tick of level 0
}

// InspectHeap returns the upper levels of the heap of a *heapqueue.Scheduler. Package
// heapqueue sets it.
var InspectHeap func(s any) HeapState

// HeapState is a snapshot of a heap.
type HeapState struct {
	Timers int               // in the whole heap, and in its batch
	Levels [][]time.Duration // the time until each entry of the first five levels is due, from the root
}

type early struct{}

// MarkEarly marks the context of an early renewal, for simulators only.
func MarkEarly(ctx context.Context) context.Context { return context.WithValue(ctx, early{}, true) }

// IsEarly reports whether a context is that of an early renewal.
func IsEarly(ctx context.Context) bool { return ctx.Value(early{}) != nil }
