package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// TestNoStateBreaksAPromise searches the spaces. It compares the numbers of states, so a
// change cannot shrink a space unnoticed.
func TestNoStateBreaksAPromise(t *testing.T) {
	lines := inOrder(t, len(Spaces))
	for i, space := range Spaces {
		if space.Long && !simreport.IsLong() {
			continue
		}
		t.Run(space.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(space.Config, 0)
			assert.Empty(t, r.Broken, "%s", Explain(r))
			assert.True(t, r.Exhausted)
			assert.Equal(t, space.States, r.States)
			lines[i] = fmt.Sprintf("space    %-48s %10d states, %11d transitions, depth %2d, %9d drained, %5.1f s",
				space.Name, r.States, r.Transitions, r.Depth, r.LivenessChecked, r.Took.Seconds())
		})
	}
}

// TestEveryMutationIsFound breaks each rule of the protocol, one at a time.
func TestEveryMutationIsFound(t *testing.T) {
	seen := map[Mutation]bool{}
	lines := inOrder(t, len(Mutations))
	for i, seeded := range Mutations {
		seen[seeded.Mutation] = true
		t.Run(seeded.Rule+": "+seeded.As, func(t *testing.T) {
			t.Parallel()
			c := seeded.Space
			c.Mutation = seeded.Mutation
			r := Search(c, 0)
			if seeded.Breaks == "" {
				assert.Empty(t, r.Broken, "%s", Explain(r))
				assert.True(t, r.Exhausted)
				lines[i] = fmt.Sprintf("harmless %s: %s; all %d states", seeded.Rule, seeded.As, r.States)
				return
			}
			t.Log("\n" + Explain(r))
			assert.True(t, strings.HasPrefix(r.Broken, seeded.Breaks+":"), "it breaks %s instead", r.Broken)
			assert.Len(t, r.Trace, seeded.Successors, "the shortest trace")
			lines[i] = fmt.Sprintf("bug      %s: %s; breaks %s in %d steps, among %d states",
				seeded.Rule, seeded.As, seeded.Breaks, len(r.Trace), r.States)
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
	lines := inOrder(t, len(limits))
	for i, limit := range limits {
		t.Run(limit.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(limit.Config, 0)
			t.Log("\n" + Explain(r))
			assert.NotEmpty(t, r.Broken)
			lines[i] = fmt.Sprintf("limit    %s: not promised, and broken in %d steps", limit.Name, len(r.Trace))
		})
	}
}

// inOrder returns n lines for parallel tests to write. They are reported in order when all
// tests have ended.
func inOrder(t *testing.T, n int) []string {
	lines := make([]string, n)
	t.Cleanup(func() {
		for _, line := range lines {
			if line != "" {
				report.Add("%s", line)
			}
		}
	})
	return lines
}
