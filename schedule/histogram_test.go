package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBucketsOfAHistogram(t *testing.T) {
	fits := func(d time.Duration) bool {
		upper := histUpper(histIndex(d))
		return d < upper && upper <= d+max(d/histSteps, time.Microsecond)
	}
	last := 0
	for us := range 100_000 {
		d := time.Duration(us) * time.Microsecond
		index := histIndex(d)
		if !fits(d) || index < last || index > last+1 { // an assertion for each would take seconds
			require.Fail(t, "a bucket", "%v is in bucket %d, up to %v, after %d", d, index, histUpper(index), last)
		}
		last = index
	}
	for d := time.Microsecond; d < time.Hour; d += d/10 + 1 {
		require.True(t, fits(d), d)
	}
	assert.Equal(t, len(Histogram{}.counts)-1, histIndex(1<<62), "the last bucket")
	assert.Zero(t, histIndex(-time.Second))
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	for i := range 100 {
		h.Add(time.Duration(i) * 4 * time.Microsecond) // up to 15 µs each has a bucket of its own
	}
	assert.Equal(t, time.Microsecond, h.Quantile(0))
	assert.Equal(t, 5*time.Microsecond, h.Quantile(0.01))
	assert.Equal(t, histUpper(histIndex(200*time.Microsecond)), h.Quantile(0.5))
	assert.Equal(t, histUpper(histIndex(396*time.Microsecond)), h.Quantile(1))

	var one Histogram
	one.Add(0)
	assert.Equal(t, time.Microsecond, one.Quantile(1))
}
