// Schedules: the faults that a seed decides.

package faulttest

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// ttl is that of the client under test, from which the lengths of all faults follow.
const ttl = 30 * time.Second

// fault is something that happens at a call of the store or of the resource.
type fault struct {
	at   int // number of the call
	kind kind
	d    time.Duration
	flip bool // a second choice: whether a rival waits, or whether a stop comes before a write
}

type kind int

const (
	loseRequest kind = iota // the call fails and has no effect
	loseAnswer              // the call has its effect and fails
	hang                    // the call hangs, and fails after d
	outage                  // all calls of the store fail for d
	stop                    // the process stops for d
	take                    // the lock is taken away, and a rival holds it for d
	keep                    // the same, until the end of the schedule
	terminate               // the ctx of the function ends
	kinds                   // how many there are
)

// draw returns the faults of a seed, in the order of their calls. A function without faults makes
// so many calls.
func draw(seed uint64, calls int, fenced bool) []fault {
	r := simrand.New(seed, 17)
	faults := make([]fault, 1+r.IntN(3))
	for i := range faults {
		f := fault{at: r.IntN(calls + 2), kind: kind(r.IntN(int(kinds))), flip: r.Chance(500)}
		switch f.kind {
		case hang:
			f.d = r.Between(ttl/30, 2*ttl)
		case outage, stop:
			f.d = r.Between(ttl/3, 3*ttl)
		case take:
			f.d = r.Between(ttl/30, ttl)
		}
		faults[i] = f
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return a.at - b.at })
	return faults
}
