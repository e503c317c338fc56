package real

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
