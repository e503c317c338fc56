package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/part"
)

// TestNoStateBreaksAPromise exhausts the spaces. That the number of states is the
// one known keeps a change from making the model look at less.
func TestNoStateBreaksAPromise(t *testing.T) {
	for _, space := range Spaces {
		if space.Long && !part.IsLong() {
			continue
		}
		t.Run(space.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(space.Config, 0)
			assert.Empty(t, r.Broken, "%s", Explain(r))
			assert.True(t, r.Exhausted)
			assert.Equal(t, space.States, r.States)
			report.Add("space    %-52s %11d states %12d transitions, depth %2d, %9d drained, %5.1f s",
				space.Name, r.States, r.Transitions, r.Depth, r.Drained, r.Took.Seconds())
		})
	}
}

// TestEveryBugIsFound breaks each rule of the protocol, one at a time.
func TestEveryBugIsFound(t *testing.T) {
	seen := map[Bug]bool{}
	for _, seeded := range Bugs {
		seen[seeded.Bug] = true
		t.Run(seeded.Rule+": "+seeded.As, func(t *testing.T) {
			t.Parallel()
			c := seeded.Space
			c.Bug = seeded.Bug
			r := Search(c, 0)
			if seeded.Breaks == "" {
				assert.Empty(t, r.Broken, "%s", Explain(r))
				assert.True(t, r.Exhausted)
				report.Add("harmless %s: %s; %d states", seeded.Rule, seeded.As, r.States)
				return
			}
			t.Log("\n" + Explain(r))
			assert.True(t, strings.HasPrefix(r.Broken, seeded.Breaks+":"), "breaks %s instead", r.Broken)
			assert.Len(t, r.Trace, seeded.Steps, "the shortest way")
			report.Add("bug      %-62s %-70s breaks %-7s in %2d steps, %6d states", seeded.Rule, seeded.As, seeded.Breaks, len(r.Trace), r.States)
		})
	}
	for b := NoBug + 1; b < bugs; b++ {
		assert.True(t, seen[b], "bug %d is nowhere seeded", b)
	}
}

// TestTheLimitsAreReal shows that what is said to be beyond the promises is.
func TestTheLimitsAreReal(t *testing.T) {
	limits := []Space{
		space("S1 one TTL after a fall-back, marks by the holder's token", bare, 0, stale, renews, func(c *Config) { c.S1Returns = true }),
		space("S3 if data is lost and the clock is set back", bare, 0, steppedBack, loss),
		space("S3 if the clock goes back by more than the memory", bare, 0, func(c *Config) { c.StepBack, c.Memory = 3, 1 }),
	}
	for _, limit := range limits {
		t.Run(limit.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(limit.Config, 0)
			t.Log("\n" + Explain(r))
			assert.NotEmpty(t, r.Broken)
			report.Add("limit    not promised, and broken in %2d steps: %s", len(r.Trace), limit.Name)
		})
	}
}
