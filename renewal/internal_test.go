package renewal

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type confirming struct{}

func (confirming) Renew(_ context.Context, _ []int, out []Outcome) error {
	for i := range out {
		out[i] = Renewed
	}
	return nil
}

// A queue with a lease whose last renewal failed comes first.
func TestQueuesWithRetriesComeFirst(t *testing.T) {
	fresh, failed := &Entry[int]{renewAt: 1}, &Entry[int]{renewAt: 2, failures: 1}
	for _, due := range [][]*Entry[int]{{fresh, failed}, {failed, fresh}} {
		var l lane[int]
		for i, e := range due {
			l.enqueue(e, time.Second<<i)
		}
		require.Len(t, l.queues, 2)
		assert.Same(t, failed, l.next().head())
	}
}

// One worker lingers, however many leases are due at one instant and however many calls are
// allowed.
func TestOneWorkerLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		watchdog, err := New(engine, Renewer[int](confirming{}), &Options{Policy: seam.Tuned(Policy{}, seam.Tuning{InFlight: 100, Align: 5 * time.Second})})
		require.NoError(t, err)
		for i := range 100 {
			_, err := watchdog.Register(i, Grant{TTL: 30 * time.Second, Sent: time.Now()})
			require.NoError(t, err)
		}
		most := 0
		for range 20_000 {
			time.Sleep(time.Millisecond)
			synctest.Wait() // a call of Renew that began at this instant has returned
			watchdog.mu.Lock()
			most = max(most, watchdog.workers)
			watchdog.mu.Unlock()
			assert.Zero(t, watchdog.Stats().InFlight, "a worker that lingers has not called Renew")
		}
		assert.Equal(t, 1, most)
		_, err = watchdog.Close(t.Context())
		require.NoError(t, err)
	})
}

// sleepy is a slow store with a lane for each lease.
type sleepy struct{ confirming }

func (sleepy) Lane(lease int) int { return lease }

func (s sleepy) Renew(ctx context.Context, batch []int, out []Outcome) error {
	time.Sleep(200 * time.Millisecond)
	return s.confirming.Renew(ctx, batch, out)
}

// After a burst, few lanes are remembered.
func TestMemoryOfABurstIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		defer engine.Close()
		watchdog, err := New(engine, Renewer[int](sleepy{}), &Options{Policy: seam.Tuned(Policy{}, seam.Tuning{Align: time.Second})})
		require.NoError(t, err)
		const lanes = 2000
		entries := make([]*Entry[int], lanes)
		for i := range entries {
			entries[i], err = watchdog.Register(i, Grant{TTL: 3 * time.Second, Sent: time.Now()})
			require.NoError(t, err)
		}
		most := 0
		for range 3000 {
			time.Sleep(time.Millisecond)
			watchdog.mu.Lock()
			most = max(most, watchdog.workers)
			watchdog.unlock()
		}
		assert.Greater(t, most, lanes/2, "many workers at a time")
		for _, e := range entries {
			require.True(t, StopEntry(e, nil))
		}
		time.Sleep(2 * compareInterval)
		synctest.Wait()
		watchdog.mu.Lock()
		assert.LessOrEqual(t, len(watchdog.lanes), maxLanes)
		watchdog.unlock()
		_, err = watchdog.Close(t.Context())
		require.NoError(t, err)
	})
}

// An entry keeps nothing of cancelled functions.
func TestCancelledFunctionsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		watchdog, err := New(engine, Renewer[int](confirming{}), nil)
		require.NoError(t, err)
		e, err := watchdog.Register(0, Grant{TTL: 30 * time.Second, Sent: time.Now()})
		require.NoError(t, err)
		var stops []func() bool
		for range 1000 {
			stops = append(stops, e.AfterFunc(func() { assert.Fail(t, "called") }))
		}
		for _, stop := range stops {
			assert.True(t, stop())
			assert.False(t, stop())
		}
		assert.Nil(t, e.end.funcs)
		called := false
		e.AfterFunc(func() { called = true })
		_, err = watchdog.Close(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.True(t, called)
	})
}

// Calls are made once and in order, also after calls that end the goroutine.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		var q callQueue
		const n = 5000
		for i := range n {
			q.add(func() {
				got = append(got, i)
				if len(got)%100 == 0 {
					runtime.Goexit()
				}
			})
			if i%7 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		require.Len(t, got, n)
		assert.True(t, slices.IsSorted(got))
		assert.Nil(t, q.first)
		assert.Nil(t, q.last)
	})
}

func TestDelaysDoNotOverlapAndKnowWhatIsMissing(t *testing.T) {
	var d delays
	d.add(0, 10, 10)
	assert.Zero(t, d.n, "tolerated")
	d.add(100, 200, 10)
	d.add(150, 300, 10) // of which 100 are known
	d.add(290, 305, 10)
	for _, c := range []struct {
		from, to int64
		want     time.Duration
	}{{0, 400, 200}, {150, 250, 100}, {300, 400, 0}, {0, 100, 0}, {120, 130, 10}} {
		sum, complete := d.between(c.from, c.to)
		assert.Equal(t, c.want, sum, "%v", c)
		assert.True(t, complete)
	}
	for i := range int64(maxDelays) {
		d.add(1000+100*i, 1050+100*i, 10)
	}
	_, complete := d.between(900, 1<<20)
	assert.False(t, complete, "the ring is full")
	sum, complete := d.between(1100, 1<<20)
	assert.True(t, complete)
	assert.Equal(t, 50*time.Duration(maxDelays-1), sum)
}

// Few lanes are remembered, whatever a store reports.
func TestLanesOfEventsAreBounded(t *testing.T) {
	w := &Watchdog[int]{clock: clock{time.Now()}, lanes: make(map[int]*lane[int])}
	for _, kind := range []EventKind{EventServerChanged, EventVerify} {
		w.engine = nil
		clear(w.lanes)
		w.Record(Event{Kind: kind})
		assert.Empty(t, w.lanes, "a watchdog that was not made by New records nothing")
		w.engine = silentEngine{}
		for lane := range 2*maxLanes + 1 {
			w.Record(Event{Kind: kind, Lane: lane})
		}
		assert.Len(t, w.lanes, maxLanes)
	}
}

type silentEngine struct{ schedule.Scheduler }

// StopEntry stops an entry, and reports whether its lease was held until then.
func StopEntry[L any](e *Entry[L], cause error) bool {
	_, held := e.Stop(cause)
	return held
}
