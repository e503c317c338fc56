package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumber(t *testing.T) {
	for want, x := range map[string]float64{"0": 0, "6": 6, "112841": 112841.2, "26.2": 26.25, "2.58": 2.584, "0.003": 0.0031, "-5.50": -5.5} {
		assert.Equal(t, want, Number(x))
	}
}

// A ratio is the median of the ratios within the rounds, so it does not change if all candidates are slower in a round.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	r := &Results{}
	for round, slowdown := range []float64{1, 3, 10} {
		for name, ns := range map[string]float64{"wheel": 100, "std": 200} {
			r.Samples = append(r.Samples, Sample{Round: round, Work: "reset", Candidate: name, Values: Values{"cpu": ns * slowdown}})
		}
	}
	wheel, std := Ref{"reset", "wheel", "cpu"}, Ref{"reset", "std", "cpu"}
	ratio, ok := r.Ratio(wheel, std, 0)
	assert.True(t, ok)
	assert.InDelta(t, 0.5, ratio, 1e-9)
	ratio, _ = r.Ratio(wheel, std, 150)
	assert.InDelta(t, 0.5, ratio, 1e-9, "the difference of the first round is noise: 1, 0.5, 0.5")
	_, ok = r.Ratio(wheel, Ref{"reset", "nobody", "cpu"}, 0)
	assert.False(t, ok)
	figure, _ := r.Figure("reset", "std", "cpu")
	assert.InDelta(t, 600, figure, 1e-9)
	assert.Equal(t, "All 1 goals are met.\n", r.Goals([]Goal{{Of: wheel, Per: Ref{Candidate: "std"}, Bound: 0.5}}, "wheel"))
	assert.Contains(t, r.Goals([]Goal{{Of: wheel, Per: Ref{Candidate: "std"}, Bound: 0.5, Least: true}, {Of: std, Bound: 599}}, "wheel"), "1 of 2 goals are met")
}
