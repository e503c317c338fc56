package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// TestNoStateBreaksAPromise searches the spaces. It compares the numbers of states, so a
// change cannot shrink a space unnoticed.
func TestNoStateBreaksAPromise(t *testing.T) {
	for _, space := range Spaces {
		if space.Long && !simreport.IsLong() {
			continue
		}
		t.Run(space.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(space.Config, 0)
			assert.Empty(t, r.Broken, "%s", Explain(r))
			assert.True(t, r.Exhausted)
			assert.Equal(t, space.States, r.States)
			report.Add("space    %-48s %10d states", space.Name, r.States)
		})
	}
}

// TestEveryMutationIsFound breaks each rule of the protocol, one at a time.
func TestEveryMutationIsFound(t *testing.T) {
	seen := map[Mutation]bool{}
	for _, seeded := range Mutations {
		seen[seeded.Mutation] = true
		t.Run(seeded.Rule+": "+seeded.As, func(t *testing.T) {
			t.Parallel()
			c := seeded.Space
			c.Mutation = seeded.Mutation
			r := Search(c, 0)
			if seeded.Breaks == "" {
				assert.Empty(t, r.Broken, "%s", Explain(r))
				assert.True(t, r.Exhausted)
				report.Add("harmless %s: %s; all %d states", seeded.Rule, seeded.As, r.States)
				return
			}
			t.Log("\n" + Explain(r))
			assert.True(t, strings.HasPrefix(r.Broken, seeded.Breaks+":"), "it breaks %s instead", r.Broken)
			assert.Len(t, r.Trace, seeded.Successors, "the shortest trace")
			report.Add("bug      %s: %s; breaks %s", seeded.Rule, seeded.As, seeded.Breaks)
		})
	}
	for b := NoMutation + 1; b < mutations; b++ {
		assert.True(t, seen[b], "mutation %d is not in Mutations", b)
	}
}

// TestKnownLimits shows schedules that no promise covers.
func TestKnownLimits(t *testing.T) {
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
			report.Add("limit    %s: not promised, and broken in %d steps", limit.Name, len(r.Trace))
		})
	}
}
