package renewal

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// counting is an engine that counts the timers that are set or stopped during one hold of a
// watchdog's mu. It can set them too late.
type counting struct {
	engine schedule.Scheduler
	calls  atomic.Int64
	most   atomic.Int64
	late   time.Duration // what the delay of each timer is lengthened by
}

func (c *counting) Schedule(d time.Duration, task schedule.Task) (schedule.Timer, error) {
	timer, err := c.engine.Schedule(d, task)
	return schedule.NewTimer(counted{c, timer}, 0), err
}

// released records that mu was released.
func (c *counting) released() { c.most.Store(max(c.most.Load(), c.calls.Swap(0))) }

type counted struct {
	c     *counting
	timer schedule.Timer
}

func (c counted) ResetTimer(_ uint64, d time.Duration) bool {
	c.c.calls.Add(1)
	return c.timer.Reset(d + c.c.late)
}

func (c counted) StopTimer(uint64) bool {
	c.c.calls.Add(1)
	return c.timer.Stop()
}

func (counted) AwaitTimer(uint64) {}

func (c counted) TimerDeadline(uint64) (time.Time, bool) { return c.timer.Deadline() }

// newCrowd returns a watchdog on a counting engine with many entries. The watchdog calls
// between whenever it releases mu during a pass.
func newCrowd(t *testing.T, n int, r Renewer[int], o *Options, between func(watchdog *Watchdog[int])) (*Watchdog[int], []*Entry[int], *counting) {
	t.Helper()
	w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	engine := &counting{engine: w}
	watchdog, err := New(engine, r, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := watchdog.Close(context.Background())
		assert.NoError(t, err)
	})
	entries := make([]*Entry[int], n)
	for i := range entries {
		entries[i], err = watchdog.Register(i, Grant{TTL: 30 * time.Second, Sent: time.Now()})
		require.NoError(t, err)
	}
	engine.calls.Store(0)
	watchdog.onYield = func() {
		if assert.True(t, tryLock(watchdog), "mu is held between two parts of a pass") {
			watchdog.unlock()
		}
		engine.released()
		if between != nil {
			between(watchdog)
		}
	}
	return watchdog, entries, engine
}

// tryLock locks mu within a short time. A task of the engine or a worker holds mu briefly. It
// returns false if a pass does not release mu.
func tryLock(watchdog *Watchdog[int]) bool {
	for range 1_000_000 {
		if watchdog.mu.TryLock() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

const many = 20_000

// A pass over many entries must release mu for holders and for tasks of a shared engine.
func TestPassesReleaseTheMutex(t *testing.T) {
	hung := hanging{}
	for name, pass := range map[string]func(t *testing.T, watchdog *Watchdog[int], engine *counting){
		"Close": func(t *testing.T, watchdog *Watchdog[int], _ *counting) {
			leases, err := watchdog.Close(t.Context())
			require.NoError(t, err)
			assert.Len(t, leases, many)
		},
		"a step of the wall clock": func(t *testing.T, watchdog *Watchdog[int], engine *counting) {
			seam.StepWall(2 * time.Second)
			defer seam.StepWall(-2 * time.Second)
			time.Sleep(compareInterval)
			synctest.Wait()
			assert.EqualValues(t, 1, watchdog.monitor.epoch)
		},
		"a pause of the process": func(t *testing.T, watchdog *Watchdog[int], engine *counting) {
			pause(watchdog, 4*time.Second)
			time.Sleep(compareInterval)
			synctest.Wait()
			assert.EqualValues(t, 1, watchdog.monitor.epoch)
		},
		"entries that the engine forgot": func(t *testing.T, watchdog *Watchdog[int], engine *counting) {
			engine.late = time.Hour
			pause(watchdog, 4*time.Second)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			assert.EqualValues(t, many, watchdog.Stats().Overdue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parts := 0
				watchdog, entries, engine := newCrowd(t, many, hung, nil, func(*Watchdog[int]) { parts++ })
				pass(t, watchdog, engine)
				engine.released()
				assert.GreaterOrEqual(t, parts, many/maxPerHold-1)
				assert.LessOrEqual(t, engine.most.Load(), int64(2*maxPerHold), "timers set or stopped during one hold")
				for _, e := range entries {
					require.Equal(t, watchdog.held == 0, e.Err() != nil)
				}
			})
		})
	}
}

// pause makes a watchdog believe that the process was just paused.
func pause(watchdog *Watchdog[int], d time.Duration) {
	watchdog.mu.Lock()
	defer watchdog.unlock()
	watchdog.monitor.comparedAt -= int64(d)
}

// If the process is paused between the computation of a delay and the setting of the timer,
// the timer is late.
func TestAPauseWhileATimerIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(confirmingCount)
		watchdog, entries, engine := newCrowd(t, 0, s, nil, nil)
		engine.late = time.Hour
		e, err := watchdog.Register(1, Grant{TTL: 30 * time.Second, Sent: time.Now()})
		require.NoError(t, err)
		engine.late = 0
		time.Sleep(2 * time.Second)
		pause(watchdog, 4*time.Second)
		time.Sleep(time.Minute)
		require.NoError(t, e.Err())
		assert.GreaterOrEqual(t, s.calls.Load(), int64(5))
		assert.Empty(t, entries)
	})
}

// Leases that expire in the queue are ended in parts, with mu released in between.
func TestManyLeasesExpireInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog, _, engine := newCrowd(t, many, hanging{}, &Options{Policy: seam.Tuned(Policy{Timeout: time.Hour}, seam.Tuning{InFlight: 1, Align: -1})}, nil)
		time.Sleep(20 * time.Second) // all are due
		synctest.Wait()
		require.GreaterOrEqual(t, watchdog.Stats().Due, many-1000)
		watchdog.mu.Lock()
		for _, l := range watchdog.lanes {
			engine.calls.Store(0)
			b := new(batch[int])
			watchdog.clock.base = watchdog.clock.base.Add(-time.Minute)
			assert.False(t, watchdog.fill(l, b))
		}
		engine.released()
		watchdog.unlock()
		// The monitor may begin a part before the end of this one is recorded.
		assert.LessOrEqual(t, engine.most.Load(), int64(2*maxPerHold))
		assert.Zero(t, watchdog.Stats().Due)
	})
}

// During a pass, entries end, are renewed, replaced and registered, and the clocks step
// again.
func TestEntriesChangeDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watchdog *Watchdog[int]
		var entries []*Entry[int]
		var fresh *Entry[int]
		stepped := false
		watchdog, entries, _ = newCrowd(t, 5*maxPerHold, new(confirmingCount), nil, func(watchdog *Watchdog[int]) {
			if stepped {
				return
			}
			stepped = true
			var err error
			fresh, err = watchdog.Register(-1, Grant{TTL: 30 * time.Second, Sent: time.Now()})
			assert.NoError(t, err)
			for i := 0; i < len(entries); i += 3 {
				assert.True(t, StopEntry(entries[i], nil))
			}
			for i := 1; i < len(entries); i += 3 {
				assert.NoError(t, entries[i].Update(Grant{Sent: time.Now()}, nil))
			}
			for i := 2; i < len(entries); i += 300 {
				entries[i], err = entries[i].Replace(i, 30*time.Second)
				assert.NoError(t, err)
			}
			seam.StepWall(-5 * time.Second)
		})
		seam.StepWall(2 * time.Second)
		defer seam.StepWall(3 * time.Second)
		time.Sleep(compareInterval)
		synctest.Wait()
		require.True(t, stepped)
		watchdog.mu.Lock()
		assert.EqualValues(t, 2, watchdog.monitor.epoch)
		assert.Nil(t, watchdog.monitor.unvisited.first())
		watchdog.unlock()
		for i, e := range entries {
			require.Equal(t, i%3 != 0, e.Valid(), i)
			if i%3 != 0 {
				require.Equal(t, watchdog.monitor.epoch, e.epoch)
				require.Zero(t, e.deadline().clockOffset()-watchdog.clock.now().clockOffset(), "the pass has visited it")
			}
		}
		assert.True(t, fresh.Valid())
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1+5*maxPerHold*2/3, watchdog.Stats().Held)
		assert.Zero(t, watchdog.Stats().Lost())
	})
}

type hanging struct{}

func (hanging) Renew(ctx context.Context, _ []int, _ []Outcome) error {
	<-ctx.Done()
	return ctx.Err()
}

// confirmingCount renews every lease and counts the calls.
type confirmingCount struct {
	confirming
	calls atomic.Int64
}

func (c *confirmingCount) Renew(ctx context.Context, batch []int, out []Outcome) error {
	c.calls.Add(1)
	return c.confirming.Renew(ctx, batch, out)
}

// Close returns when its ctx ends, however many entries there are. The others end in the
// background.
func TestCloseOfManyEntriesReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		parts := 0
		watchdog, entries, _ := newCrowd(t, many, hanging{}, nil, func(*Watchdog[int]) {
			if parts++; parts == 3 {
				cancel(why)
			}
		})
		leases, err := watchdog.Close(ctx)
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "16000 leases not stopped yet")
		assert.Len(t, leases, 4*maxPerHold)
		synctest.Wait()
		for _, e := range entries {
			require.ErrorIs(t, e.Err(), ErrClosed)
		}
		leases, err = watchdog.Close(t.Context())
		require.NoError(t, err)
		assert.Len(t, leases, many-4*maxPerHold, "a later call returns the other leases")
	})
}

// Entries that Close has not visited yet can still be stopped, but not replaced.
func TestEntriesThatCloseHasNotVisited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Bool
		var watchdog *Watchdog[int]
		var entries []*Entry[int]
		watchdog, entries, _ = newCrowd(t, 3*maxPerHold, hanging{}, &Options{Policy: Policy{Failures: 1}}, func(watchdog *Watchdog[int]) {
			if !began.CompareAndSwap(false, true) {
				return
			}
			synctest.Wait() // the calls of Renew have been cancelled and have returned
			_, err := watchdog.Register(0, Grant{TTL: 30 * time.Second, Sent: time.Now()})
			assert.ErrorIs(t, err, ErrClosed)
			left := 0
			for _, e := range entries {
				if e.Err() != nil {
					continue
				}
				if left++; left%2 == 0 {
					assert.True(t, StopEntry(e, nil))
				} else {
					_, err := e.Replace(0, 30*time.Second)
					assert.ErrorIs(t, err, ErrClosed)
					assert.NoError(t, e.Err(), "a refused Replace changes nothing")
				}
			}
			assert.Equal(t, 2*maxPerHold, left)
			time.Sleep(5 * time.Second)
		})
		time.Sleep(12 * time.Second) // some are under way, some are due
		leases, err := watchdog.Close(t.Context())
		require.NoError(t, err)
		assert.Len(t, leases, 2*maxPerHold)
		assert.Zero(t, watchdog.Stats().Lost(), "a call that Close cancels is not a failure")
	})
}

// While the engine is punctual, the monitor visits no entry and keeps few buckets.
func TestTheMonitorIsIdleWhileTheEngineIsPunctual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog, _, _ := newCrowd(t, 0, confirming{}, nil, func(*Watchdog[int]) { assert.Fail(t, "a pass") })
		var entries []*Entry[int]
		for i := range 1000 {
			e, err := watchdog.Register(i, Grant{TTL: time.Duration(i+1) * 100 * time.Millisecond, Sent: time.Now()})
			require.NoError(t, err)
			entries = append(entries, e)
			time.Sleep(time.Millisecond)
		}
		most := 0
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			watchdog.mu.Lock()
			most = max(most, len(watchdog.monitor.expiries.buckets))
			watchdog.unlock()
		}
		assert.Less(t, most, 10_000)
		assert.Zero(t, watchdog.Stats().Overdue)
		assert.Zero(t, watchdog.monitor.epoch, "no pass over all entries")
		for _, e := range entries {
			require.True(t, StopEntry(e, nil))
		}
		time.Sleep(2 * compareInterval)
		synctest.Wait()
		assert.Nil(t, watchdog.monitor.expiries.buckets)
		assert.Equal(t, int64(asleep), watchdog.monitor.wakeAt)
	})
}
