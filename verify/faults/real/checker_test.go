package real

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCheckersRejectInvalidHistories checks histories that are invalid, and some that are
// valid.
func TestCheckersRejectInvalidHistories(t *testing.T) {
	get := func(user int, asked, replied int64, token uint64) tenure {
		return tenure{user: user, asked: asked, replied: replied, outcome: granted, token: token, valid: replied, ending: lost}
	}
	unlocks := func(t tenure, leaving, left int64) tenure {
		t.ending, t.leaving, t.left, t.valid = unlocked, leaving, left, leaving-1
		return t
	}
	valid := func(t tenure, until int64) tenure {
		t.valid = until
		return t
	}
	const calm = 1000
	for _, c := range []struct {
		name                   string
		tenures                []tenure
		lockValid, tokensValid bool
	}{
		{"one after another", []tenure{unlocks(get(1, 10, 20, 5), 30, 40), unlocks(get(2, 50, 60, 6), 70, 80)}, true, true},
		{"the second asks while the first unlocks", []tenure{unlocks(get(1, 10, 20, 5), 30, 40), unlocks(get(2, 5, 38, 6), 70, 80)}, true, true},
		{"a lease that ends before the next grant", []tenure{valid(get(1, 10, 20, 5), 100), get(2, 50, 101, 6)}, true, true},
		{"two holders", []tenure{valid(get(1, 10, 20, 5), 102), get(2, 50, 101, 6)}, false, true},
		{"two holders, the first of whom unlocks", []tenure{unlocks(get(1, 10, 20, 5), 100, 110), unlocks(get(2, 30, 40, 6), 50, 60)}, false, true},
		{"a token twice", []tenure{unlocks(get(1, 10, 20, 5), 30, 40), get(2, 50, 60, 5)}, false, false},
		{"a token that falls", []tenure{unlocks(get(1, 10, 20, 5), 30, 40), get(2, 50, 60, 4)}, false, false},
		{"tokens of concurrent grants", []tenure{get(1, 10, 60, 6), get(2, 20, 50, 5)}, true, true},
		{"taken while it is held", []tenure{get(1, 10, 20, 5), {user: 2, asked: 30, replied: 40, outcome: taken}}, true, true},
		{"taken while it is free", []tenure{unlocks(get(1, 10, 20, 5), 30, 40), {user: 2, asked: 50, replied: 60, outcome: taken}}, false, true},
		{"taken by a grant without an answer", []tenure{{user: 1, asked: 10, replied: 20, outcome: unknown}, {user: 2, asked: 50, replied: 60, outcome: taken}}, true, true},
		{"taken after the first fault", []tenure{{user: 2, asked: 999, replied: 1001, outcome: taken}}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory()
			for _, one := range c.tenures {
				h.add("key", one)
			}
			assert.Equal(t, c.lockValid, len(h.violations(lockModel, calm)) == 0)
			assert.Equal(t, c.tokensValid, len(h.violations(tokenModel, 0)) == 0)
		})
	}
}

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
