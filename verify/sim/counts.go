// The counts of a run, and the floors that they must reach.

package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// Counts has the numbers of events in one or many schedules.
type Counts struct {
	Schedules  int
	Simulated  time.Duration
	Operations map[string]int
	Faults     map[string]int
	Losses     map[string]int
	Checks     map[string]int
	Violations int
}

// NewCounts returns empty counts.
func NewCounts() *Counts {
	return &Counts{
		Operations: map[string]int{}, Faults: map[string]int{}, Losses: map[string]int{}, Checks: map[string]int{},
	}
}

// Add adds other counts.
func (c *Counts) Add(other *Counts) {
	c.Schedules += other.Schedules
	c.Simulated += other.Simulated
	c.Violations += other.Violations
	sum(c.Operations, other.Operations)
	sum(c.Faults, other.Faults)
	sum(c.Losses, other.Losses)
	sum(c.Checks, other.Checks)
}

func sum(to, from map[string]int) {
	for name, n := range from {
		to[name] += n
	}
}

// Lines returns the lines that a run prints at its end.
func (c *Counts) Lines() []string {
	return []string{
		fmt.Sprintf("schedules   %d, %.1f hours, %d violations", c.Schedules, c.Simulated.Hours(), c.Violations),
		"operations  " + simreport.Counts(c.Operations),
		"faults      " + simreport.Counts(c.Faults),
		"losses      " + simreport.Counts(c.Losses),
		"checks      " + simreport.Counts(c.Checks),
	}
}

// Floors are the minimum counts of a run for each of its schedules. They are about half of the
// usual counts. A run with lower counts proves nothing.
type Floors struct {
	Operations, Faults, Losses, Checks map[string]float64
}

// Missed lists the counts of a run that are below their floors.
func (f Floors) Missed(c *Counts) []string {
	var out []string
	for _, part := range []struct {
		what  string
		least map[string]float64
		did   map[string]int
	}{
		{"operations", f.Operations, c.Operations},
		{"faults", f.Faults, c.Faults},
		{"losses", f.Losses, c.Losses},
		{"checks", f.Checks, c.Checks},
	} {
		for _, name := range slices.Sorted(maps.Keys(part.least)) {
			least := int(part.least[name] * float64(c.Schedules))
			if part.did[name] < least {
				out = append(out, fmt.Sprintf("%s %q: %d, the floor is %d", part.what, name, part.did[name], least))
			}
		}
	}
	return out
}
