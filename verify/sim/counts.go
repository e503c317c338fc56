package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Counts is what a run did, or many runs together.
type Counts struct {
	Schedules  int
	Simulated  time.Duration
	Classes    map[string]int
	Operations map[string]int
	Faults     map[string]int
	Losses     map[string]int
	Checks     map[string]int
	Violations int
}

func newCounts() *Counts {
	return &Counts{
		Classes: map[string]int{}, Operations: map[string]int{}, Faults: map[string]int{},
		Losses: map[string]int{}, Checks: map[string]int{},
	}
}

// add adds the counts of another run.
func (c *Counts) add(other *Counts) {
	c.Schedules += other.Schedules
	c.Simulated += other.Simulated
	c.Violations += other.Violations
	sum(c.Classes, other.Classes)
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

// lines are the block that a run prints at its end.
func (c *Counts) lines() []string {
	return []string{
		fmt.Sprintf("schedules   %d: %s", c.Schedules, listed(c.Classes)),
		fmt.Sprintf("simulated   %.1f hours", c.Simulated.Hours()),
		fmt.Sprintf("operations  %d: %s", total(c.Operations), listed(c.Operations)),
		fmt.Sprintf("faults      %d: %s", total(c.Faults), listed(c.Faults)),
		fmt.Sprintf("losses      %d: %s", total(c.Losses), listed(c.Losses)),
		fmt.Sprintf("checks      %d: %s", total(c.Checks), listed(c.Checks)),
		fmt.Sprintf("violations  %d", c.Violations),
	}
}

func total(of map[string]int) int {
	n := 0
	for _, one := range of {
		n += one
	}
	return n
}

func listed(of map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(out, ", ")
}

// floors are what a run of that many schedules does at the least, of each kind;
// one that did less looked at nothing. They stand at about half of what is usual.
type floors struct {
	operations, faults, losses, checks map[string]float64 // per schedule
}

// missed names what a run did too little of.
func (f floors) missed(c *Counts) []string {
	var out []string
	for _, part := range []struct {
		what  string
		least map[string]float64
		did   map[string]int
	}{
		{"operations", f.operations, c.Operations},
		{"faults", f.faults, c.Faults},
		{"losses", f.losses, c.Losses},
		{"checks", f.checks, c.Checks},
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
