package real

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAStaleTokenIsRefused(t *testing.T) {
	var r register
	assert.True(t, r.write(5, 1))
	assert.True(t, r.write(5, 2))
	assert.False(t, r.write(4, 9))
	_, ok := r.read(4)
	assert.False(t, ok)
	assert.True(t, r.write(6, 3))
	assert.Equal(t, []int{3, 3, 2}, []int{r.value, r.acked, r.refused})
	assert.Zero(t, r.lostWrites())
}

// TestCheckerFindsALostWrite: two holders with one token lose a write.
func TestCheckerFindsALostWrite(t *testing.T) {
	var r register
	assert.True(t, r.increment(5, func() { r.increment(5, func() {}) }))
	assert.Equal(t, 1, r.lostWrites())
}

// TestTokensKeepWrites: a newer token between read and write makes the older one fail.
func TestTokensKeepWrites(t *testing.T) {
	var r register
	assert.False(t, r.increment(5, func() { r.increment(6, func() {}) }))
	assert.Zero(t, r.lostWrites())
}

func TestARunBelowItsFloorsFails(t *testing.T) {
	p := plan{rounds: 1}
	enough := result{
		counts: map[string]int{"granted": 1000, "taken": 1000, "unknown": 1000, "unlocked": 1000, "lost": 1000, "write": 1000},
		faults: map[string]int{},
	}
	for _, f := range append(networkFaults(0), serverFaults()...) {
		enough.faults[f.name] = 1
	}
	assert.Empty(t, p.missing(enough))
	enough.counts["lost"] = 0
	enough.faults["server killed"] = 0
	assert.Equal(t, []string{"lost: 0, the floor is 2", "server killed: 0, the floor is 1"}, p.missing(enough))
}
