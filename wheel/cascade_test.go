package wheel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addSpread adds timers that are spread evenly over the ticks from start to end.
func (m *model) addSpread(timers int, start, end int64) {
	for i := range timers {
		m.addAt(start + int64(i)*(end-start)/int64(timers))
	}
}

func (m *model) addAt(tick int64) {
	slot, n := m.b.alloc(idTask(m.next))
	m.b.add(slot, n, tick)
	m.pending[m.next], m.due[m.next] = slot, tick
	m.next++
}

// runTick does what the worker does for a tick with due timers. It returns how many nodes
// of coarse buckets it looked at.
func (m *model) runTick(tick int64) (looked int) {
	before := slices.Clone(m.b.counts)
	m.run(tick, batchLen)
	require.True(m.t, slices.Equal(before, m.b.counts), "tick %d: a coarse bucket delayed its timers", tick)
	for {
		n := m.b.cascade(tick, batchLen, false)
		if looked += n; n == 0 {
			return looked
		}
	}
}

// With a due timer at each tick the worker is never idle. After each tick it looks at a
// share of a coarse bucket, and it still empties the bucket in time. This holds for each
// level, and for two levels at the same time.
func TestACascadeDelaysNoDueTimer(t *testing.T) {
	const timers = 20_000
	for name, test := range map[string]struct {
		start, end int64 // ticks of the timers
		limit      int   // nodes between two ticks
	}{
		"one bucket of level 1":              {10 * 32, 11 * 32, timers/32 + 1},
		"one tick of level 1":                {10 * 32, 10*32 + 1, timers/32 + 1},
		"one bucket of level 2":              {3 * 2048, 4 * 2048, timers/2048 + 1 + timers/64/32 + 1},
		"one bucket of level 1, by way of 2": {3 * 2048, 3*2048 + 32, timers/2048 + 1 + timers/32 + 1},
		"many buckets":                       {1000, 9_000, 2*(timers/8_000+1) + 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, 1, 6)
			m.addSpread(timers, test.start, test.end)
			most := 0
			for tick := int64(1); tick < test.end; tick++ {
				m.addAt(tick) // a due timer
				looked := m.runTick(tick)
				require.LessOrEqual(t, looked, test.limit, "at tick %d", tick)
				most = max(most, looked)
			}
			assert.Positive(t, most)
			assert.LessOrEqual(t, len(m.pending), 1)
		})
	}
}

// If some ticks have no due timers, the quota grows with the number of ticks.
func TestTheQuotaCountsAllTicks(t *testing.T) {
	m := newModel(t, 1, 9)
	m.addSpread(100_000, 10*256, 11*256)
	for tick := int64(1); tick < 10*256; tick += 1 + m.rng.Int64N(20) {
		m.addAt(tick)
		last := m.b.clk
		looked := m.runTick(tick)
		require.LessOrEqual(t, looked, int(tick-last)*(100_000/236+1), "a window that is entered 20 ticks late is 236 ticks wide")
	}
}

// While no timer is due, a bucket is emptied as soon as its window opens.
func TestAnIdleWheelCascadesAtOnce(t *testing.T) {
	m := newModel(t, 1, 9)
	m.addSpread(1000, 3*16384, 4*16384)
	require.EqualValues(t, 2*16384, m.b.nextCascade)
	require.Zero(t, m.b.cascade(2*16384-1, batchLen, true), "the window is not open")
	looked := []int{}
	for more := true; more; {
		n := m.b.cascade(2*16384, batchLen, true)
		looked, more = append(looked, n), n > 0
	}
	assert.Equal(t, []int{256, 256, 256, 232, 0}, looked)
	assert.EqualValues(t, 3*16384-256, m.b.nextCascade, "the window of the first bucket of level 1")
}

// If the clock enters a window late, the quota per tick is greater.
func TestTheQuotaOfAWindowThatIsEnteredLate(t *testing.T) {
	m := newModel(t, 1, 9)
	m.addSpread(10_000, 10*256, 11*256)
	m.b.forward(10*256 - 10)
	for tick := m.b.clk; tick < 10*256; tick++ {
		require.Equal(t, 1000, m.runTick(tick), "a tenth of the bucket at each of the last ten ticks")
		m.addAt(tick + 1)
	}
}
