package part

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunThatDidTooLittleFails(t *testing.T) {
	c := NewCounts()
	c.Schedules = 10
	c.Operations["lock"] = 79
	f := Floors{Operations: map[string]float64{"lock": 10}, Faults: map[string]float64{"pause": 0.5, "rare": 0.3}}
	require.Equal(t, []string{`operations "lock": 79, the floor is 80`, `faults "pause": 0, the floor is 1`}, f.Missed(c))
	c.Operations["lock"]++
	c.Faults["pause"]++
	require.Empty(t, f.Missed(c))
}
