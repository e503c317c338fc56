package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

// TestNoStateBreaksAPromise exhausts the spaces. That the number of states is the
// one known keeps a change from making the model look at less.
func TestNoStateBreaksAPromise(t *testing.T) {
	lines := inOrder(t, len(Spaces))
	for i, space := range Spaces {
		if space.Long && !part.IsLong() {
			continue
		}
		t.Run(space.Name, func(t *testing.T) {
			t.Parallel()
			r := Search(space.Config, 0)
			assert.Empty(t, r.Broken, "%s", Explain(r))
			assert.True(t, r.Exhausted)
			assert.Equal(t, space.States, r.States)
			lines[i] = fmt.Sprintf("space    %-48s %10d states, %11d transitions, depth %2d, %9d drained, %5.1f s",
				space.Name, r.States, r.Transitions, r.Depth, r.Drained, r.Took.Seconds())
		})
	}
}

// TestEveryBugIsFound breaks each rule of the protocol, one at a time.
func TestEveryBugIsFound(t *testing.T) {
	seen := map[Bug]bool{}
	lines := inOrder(t, len(Bugs))
	for i, seeded := range Bugs {
		seen[seeded.Bug] = true
		t.Run(seeded.Rule+": "+seeded.As, func(t *testing.T) {
			t.Parallel()
			c := seeded.Space
			c.Bug = seeded.Bug
			r := Search(c, 0)
			if seeded.Breaks == "" {
				assert.Empty(t, r.Broken, "%s", Explain(r))
				assert.True(t, r.Exhausted)
				lines[i] = fmt.Sprintf("harmless %s: %s; all %d states", seeded.Rule, seeded.As, r.States)
				return
			}
			t.Log("\n" + Explain(r))
			assert.True(t, strings.HasPrefix(r.Broken, seeded.Breaks+":"), "breaks %s instead", r.Broken)
			assert.Len(t, r.Trace, seeded.Steps, "the shortest way")
			lines[i] = fmt.Sprintf("bug      %s: %s; breaks %s in %d steps, among %d states",
				seeded.Rule, seeded.As, seeded.Breaks, len(r.Trace), r.States)
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

// TestThePublishedFiguresAreTheseOnes: the tables of docs/RELIABILITY.md name every
// space and every bug, with the figures that the tests above assert.
func TestThePublishedFiguresAreTheseOnes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "RELIABILITY.md"))
	require.NoError(t, err)
	for _, space := range Spaces {
		assert.Contains(t, string(text), fmt.Sprintf("| %s | %s |", space.Name, grouped(space.States)))
	}
	for _, seeded := range Bugs {
		breaks := fmt.Sprintf("%s | %d", seeded.Breaks, seeded.Steps)
		if seeded.Breaks == "" {
			breaks = "nothing | –"
		}
		assert.Contains(t, string(text), fmt.Sprintf("| %s | %s | %s |", seeded.Rule, seeded.As, breaks))
	}
}

// grouped writes a number with a comma before every three digits.
func grouped(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// inOrder returns room for lines that parallel tests write; they are reported in
// their order when all have ended.
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
