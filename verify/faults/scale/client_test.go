package scale

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// instantRenewer renews every lease without delay.
type instantRenewer struct{}

func (instantRenewer) Renew(_ context.Context, batch []int, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}

// TestCloseOfAWatchdogDelaysNoTimers closes a watchdog with very many entries. Other timers
// on the same engine, which tell holders of losses (S2), must not wait for all of that.
func TestCloseOfAWatchdogDelaysNoTimers(t *testing.T) {
	n := size(200_000, 1_000_000)
	assertBounded(t, "a timer during Close of a watchdog", func() (late, bound time.Duration) {
		engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		defer engine.Close()
		w, err := renewal.New(engine, renewal.Renewer[int](instantRenewer{}), nil)
		require.NoError(t, err)
		for i := range n {
			e, err := w.Register(i, renewal.Grant{TTL: 9 * time.Second, Sent: time.Now()}) // some renewals become due during Close
			require.NoError(t, err)
			if i%4 == 0 { // like lock.Held.Context
				_, cancel := context.WithCancelCause(context.Background())
				e.AfterFunc(func() { cancel(e.Err()) })
			}
		}
		sleep(t.Context(), 1500*time.Millisecond) // the first renewals are due
		var worst atomic.Int64
		ended := make(chan struct{})
		tick := &latenessProbe{worst: &worst, ended: ended}
		tick.arm(t, engine)
		began := time.Now()
		_, err = w.Close(t.Context())
		assert.NoError(t, err)
		took := time.Since(began)
		sleep(t.Context(), 20*time.Millisecond) // late timers fire
		close(ended)
		return time.Duration(worst.Load()), max(10*time.Millisecond, took/4)
	})
}

// latenessProbe is a timer of 1 ms that records its greatest lateness.
type latenessProbe struct {
	worst *atomic.Int64
	ended chan struct{}
	due   time.Time
}

func (k *latenessProbe) arm(t *testing.T, engine schedule.Scheduler) {
	k.due = time.Now().Add(time.Millisecond)
	_, err := engine.Schedule(time.Millisecond, k)
	require.NoError(t, err)
}

// Run implements schedule.Task.
func (k *latenessProbe) Run(timer schedule.Timer) {
	k.worst.Store(max(k.worst.Load(), int64(time.Since(k.due))))
	select {
	case <-k.ended:
	default:
		k.due = time.Now().Add(time.Millisecond)
		timer.Reset(time.Millisecond)
	}
}

// TestCloseOfAClientEndsWithItsContext closes a client with very many locks and a context
// that ends soon. Close must return then (L5), before it has released all locks.
func TestCloseOfAClientEndsWithItsContext(t *testing.T) {
	n := size(100_000, 1_000_000)
	assertBounded(t, "Close of a client after its context", func() (late, bound time.Duration) {
		full := closeClient(t, n, time.Hour)
		const soon = 10 * time.Millisecond
		return closeClient(t, n, soon) - soon, 50*time.Millisecond + full/3
	})
}

// closeClient returns the duration of Close with n locks.
func closeClient(t *testing.T, n int, within time.Duration) time.Duration {
	client, err := lock.New(memstore.New(), nil)
	require.NoError(t, err)
	for i := range n {
		_, err := client.Mutex(fmt.Sprint("key ", i)).TryLock(t.Context())
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	began := time.Now()
	_ = client.Close(ctx) // some locks may not be released
	return time.Since(began)
}

// laneRenewer is a slow renewer with one lane for each lease.
type laneRenewer struct{}

// bigLease is about as large as a lease of package driver.
type bigLease struct {
	number int
	_      [14]uint64
}

func (laneRenewer) Lane(l bigLease) int { return l.number }

func (laneRenewer) Renew(_ context.Context, batch []bigLease, out []renewal.Outcome) error {
	time.Sleep(200 * time.Millisecond)
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}

// TestLanesReleaseTheirMemory renews one lease in each of very many lanes at the same
// time and then stops all leases. The memory for that must be released (R2).
func TestLanesReleaseTheirMemory(t *testing.T) {
	n := size(2_000, 10_000)
	const most = 200 // bytes per lane
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		defer engine.Close()
		w, err := renewal.New(engine, renewal.Renewer[bigLease](laneRenewer{}), nil)
		require.NoError(t, err)
		var goroutines sync.WaitGroup // the runtime keeps memory for the peak number of goroutines
		for range 2 * n {
			goroutines.Go(func() { time.Sleep(time.Second) })
		}
		goroutines.Wait()
		before := heap()
		entries := make([]*renewal.Entry[bigLease], n)
		for i := range entries {
			entries[i], err = w.Register(bigLease{number: i}, renewal.Grant{TTL: 3 * time.Second, Sent: time.Now()})
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Second)
		for _, e := range entries {
			_, held := e.Stop(nil)
			require.True(t, held, "%v", e.Err())
		}
		time.Sleep(time.Minute)
		require.Zero(t, w.Stats().Held)
		clear(entries)
		kept := int(heap()-before) / n
		report.Add("%-36s %d bytes each, %d lanes", "memory of idle lanes", max(kept, 0), n)
		assert.Less(t, kept, most, "R2: bytes per idle lane")
		_, err = w.Close(t.Context())
		require.NoError(t, err)
	})
}
