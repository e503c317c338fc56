package histories

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCheckersRejectInvalidHistories checks histories that are invalid, and some that are
// valid.
func TestCheckersRejectInvalidHistories(t *testing.T) {
	get := func(user int, asked, replied int64, token uint64) Tenure {
		return Tenure{User: user, Asked: asked, Replied: replied, Outcome: Granted, Token: token, Valid: replied, Ending: Lost}
	}
	unlocks := func(t Tenure, leaving, left int64) Tenure {
		t.Ending, t.Leaving, t.Left, t.Valid = Unlocked, leaving, left, leaving-1
		return t
	}
	valid := func(t Tenure, until int64) Tenure {
		t.Valid = until
		return t
	}
	reads := func(t Tenure) Tenure {
		t.Reads = true
		return t
	}
	const calm = 1000
	for _, c := range []struct {
		name                   string
		tenures                []Tenure
		lockValid, tokensValid bool
	}{
		{"one after another", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), unlocks(get(2, 50, 60, 6), 70, 80)}, true, true},
		{"the second asks while the first unlocks", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), unlocks(get(2, 5, 38, 6), 70, 80)}, true, true},
		{"a lease that ends before the next grant", []Tenure{valid(get(1, 10, 20, 5), 100), get(2, 50, 101, 6)}, true, true},
		{"two holders", []Tenure{valid(get(1, 10, 20, 5), 102), get(2, 50, 101, 6)}, false, true},
		{"two holders, the first of whom unlocks", []Tenure{unlocks(get(1, 10, 20, 5), 100, 110), unlocks(get(2, 30, 40, 6), 50, 60)}, false, true},
		{"a token twice", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), get(2, 50, 60, 5)}, false, false},
		{"a token that falls", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), get(2, 50, 60, 4)}, false, false},
		{"tokens of concurrent grants", []Tenure{get(1, 10, 60, 6), get(2, 20, 50, 5)}, true, true},
		{"taken while it is held", []Tenure{get(1, 10, 20, 5), {User: 2, Asked: 30, Replied: 40, Outcome: Taken}}, true, true},
		{"taken while it is free", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), {User: 2, Asked: 50, Replied: 60, Outcome: Taken}}, false, true},
		{"taken while another tries", []Tenure{{User: 1, Asked: 50, Replied: 60, Outcome: Taken}, {User: 2, Asked: 55, Replied: 70, Outcome: Taken}}, false, true},
		{"taken by a grant without an answer", []Tenure{{User: 1, Asked: 10, Replied: 20, Outcome: Unknown}, {User: 2, Asked: 50, Replied: 60, Outcome: Taken}}, true, true},
		{"two readers", []Tenure{reads(valid(get(1, 10, 20, 5), 102)), reads(get(2, 50, 101, 6))}, true, true},
		{"the tokens of readers fall", []Tenure{reads(unlocks(get(1, 10, 20, 5), 30, 40)), reads(get(2, 50, 60, 4))}, true, false},
		{"a reader and a writer", []Tenure{reads(valid(get(1, 10, 20, 5), 102)), get(2, 50, 101, 6)}, false, true},
		{"a writer and a reader", []Tenure{valid(get(1, 10, 20, 5), 102), reads(get(2, 50, 101, 6))}, false, true},
		{"a reader that leaves and a writer", []Tenure{reads(unlocks(get(1, 10, 20, 5), 30, 40)), get(2, 50, 60, 6)}, true, true},
		{"the token of a writer is lower than that of a reader", []Tenure{reads(unlocks(get(1, 10, 20, 5), 30, 40)), get(2, 50, 60, 4)}, false, false},
		{"the token of a reader is lower than that of a writer", []Tenure{unlocks(get(1, 10, 20, 5), 30, 40), reads(get(2, 50, 60, 4))}, false, false},
		{"taken by readers", []Tenure{reads(get(1, 10, 20, 5)), {User: 2, Asked: 30, Replied: 40, Outcome: Taken}}, true, true},
		{"taken after the first fault", []Tenure{{User: 2, Asked: 999, Replied: 1001, Outcome: Taken}}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New()
			h.EndCalm(calm)
			for _, one := range c.tenures {
				h.Add("key", one)
			}
			assert.Equal(t, c.lockValid, len(h.Violations(Locks)) == 0)
			assert.Equal(t, c.tokensValid, len(h.Violations(Tokens)) == 0)
		})
	}
}

func TestTriesThatMeet(t *testing.T) {
	tried := func(user int, asked, replied int64) Tenure {
		return Tenure{User: user, Asked: asked, Replied: replied, Outcome: Taken}
	}
	for _, c := range []struct {
		name   string
		second Tenure
		valid  bool
	}{
		{"the second within the first", tried(2, 52, 58), true},
		{"the second ends later", tried(2, 55, 70), true},
		{"the second is earlier", tried(2, 40, 50), false},
		{"the second is later", tried(2, 60, 70), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New()
			h.Add("key", tried(1, 50, 60))
			h.Add("key", c.second)
			assert.Equal(t, c.valid, len(h.Violations(Locks.TriesMeet())) == 0)
			assert.NotEmpty(t, h.Violations(Locks))
		})
	}
}
