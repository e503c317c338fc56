package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunBelowItsFloorsFails(t *testing.T) {
	c := NewCounts()
	c.Schedules = 10
	c.Operations["lock"], c.Faults["pause"] = 19, 5
	f := Floors{Operations: map[string]float64{"lock": 2}, Faults: map[string]float64{"pause": 0.5}}
	require.Equal(t, []string{`operations "lock": 19, the floor is 20`}, f.Missed(c))
	c.Operations["lock"]++
	require.Empty(t, f.Missed(c))
}
