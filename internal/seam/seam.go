// Package seam lets tests of this repository move apart what a synctest bubble
// keeps together. Programs cannot import it.
package seam

import "time"

// StepWall moves the wall clock, as package renewal reads it, by d against the
// monotonic clock, for all watchdogs of the process: what a suspended host or a
// stepped clock does. Package renewal sets it.
var StepWall func(d time.Duration)
