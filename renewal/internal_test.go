package renewal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/wheel"
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
	assert.Equal(t, len(Histogram{}.counts)-1, histIndex(1<<62), "all that is longer")
	assert.Zero(t, histIndex(-time.Second))
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	for i := range 100 {
		h.add(time.Duration(i) * 4 * time.Microsecond) // up to 15 µs each has a bucket of its own
	}
	assert.Equal(t, time.Microsecond, h.Quantile(0))
	assert.Equal(t, 5*time.Microsecond, h.Quantile(0.01))
	assert.Equal(t, histUpper(histIndex(200*time.Microsecond)), h.Quantile(0.5))
	assert.Equal(t, histUpper(histIndex(396*time.Microsecond)), h.Quantile(1))

	var one Histogram
	one.add(0)
	assert.Equal(t, time.Microsecond, one.Quantile(1))
}

type confirming struct{}

func (confirming) Renew(_ context.Context, _ []int, out []Outcome) error {
	for i := range out {
		out[i] = Renewed
	}
	return nil
}

// A watchdog keeps nothing of lanes in which nothing is due, however many there were.
func TestLanesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		dog, err := New(engine, Renewer[int](confirming{}), nil)
		require.NoError(t, err)
		for i := range 10 {
			_, err := dog.Register(i, Grant{TTL: 30 * time.Second, Sent: time.Now()})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		dog.mu.Lock()
		assert.Empty(t, dog.lanes)
		assert.LessOrEqual(t, len(dog.spare), 1, "one worker at a time, one memory")
		dog.mu.Unlock()
		_, err = dog.Close(t.Context())
		require.NoError(t, err)
	})
}

// A lease whose last renewal failed goes first, whichever queue it is in.
func TestTheQueueOfAFailedLeaseGoesFirst(t *testing.T) {
	fresh, failed := &Entry[int]{at: 1}, &Entry[int]{at: 2, failures: 1}
	for _, due := range [][]*Entry[int]{{fresh, failed}, {failed, fresh}} {
		var l lane[int]
		for i, e := range due {
			l.enqueue(e, time.Second<<i)
		}
		require.Len(t, l.queues, 2)
		assert.Same(t, failed, l.next().head())
	}
}
