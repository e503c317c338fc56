package renewal

import (
	"math"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gcPausesOf returns the pauses of the garbage collector in the story of a loss.
func gcPausesOf(t *testing.T, e *Entry[int]) (pauses Story) {
	t.Helper()
	<-e.Done()
	var lost *LostError
	require.ErrorAs(t, e.Err(), &lost)
	t.Log("\n" + lost.Story().String())
	for _, event := range lost.Story() {
		if event.Kind == EventGCPause {
			pauses = append(pauses, event)
		}
	}
	return pauses
}

// A story has a long pause of the garbage collector during the lease, once, and none from before
// it.
func TestAStoryHasTheLongGCPausesOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog, _, _ := newCrowd(t, 0, hanging{}, nil, nil)
		var pauses atomic.Uint64
		pauses.Store(7)
		watchdog.longGCPauses = pauses.Load
		register := func() *Entry[int] {
			e, err := watchdog.Register(0, Grant{TTL: 30 * time.Second, Sent: time.Now()})
			require.NoError(t, err)
			return e
		}
		e := register()
		time.Sleep(2500 * time.Millisecond)
		pauses.Add(1)
		at := time.Now()
		events := gcPausesOf(t, e)
		require.Len(t, events, 1)
		assert.WithinRange(t, events[0].At, at, at.Add(compareInterval))
		assert.Equal(t, longGCPause, events[0].Took)

		time.Sleep(time.Hour) // no lease is held
		pauses.Add(1)
		assert.Empty(t, gcPausesOf(t, register()))
	})
}

func TestLongGCPausesAreCounted(t *testing.T) {
	assert.EqualValues(t, 3, countLong(&metrics.Float64Histogram{
		Counts:  []uint64{7, 5, 2, 1},
		Buckets: []float64{math.Inf(-1), 0.005, 0.01, 0.02, math.Inf(1)},
	}))
	readLongGCPauses()
	assert.Equal(t, metrics.KindFloat64Histogram, gc.sample[0].Value.Kind(), "the runtime has the metric")
}
