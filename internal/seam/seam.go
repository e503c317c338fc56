// Package seam gives the tests of this repository control over what a synctest bubble
// cannot change. Programs cannot import it.
package seam

import "time"

// StepWall steps the wall clock, as package renewal reads it, by d against the
// monotonic clock. It applies to all watchdogs of the process. The effect is that of a
// suspended host or a stepped clock. Package renewal sets StepWall.
var StepWall func(d time.Duration)

// RenewalPhase returns the first phase of a watchdog as a fraction of its range, at least 0
// and below 1. While it is nil, package renewal draws the phase at random. A
// simulation sets it, so that its seed decides the phase too.
var RenewalPhase func() float64

// PausableEngine is a timer engine of a simulated process that can be paused. Package
// renewal calls AwaitRunning before work that does not run on the engine.
type PausableEngine interface {
	// AwaitRunning blocks while the process is paused.
	AwaitRunning()
}
