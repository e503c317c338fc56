package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// busy is a store of which nobody gets anything.
type busy struct{ asked atomic.Int64 }

// Acquire implements lock.Store.
func (b *busy) Acquire(ctx context.Context, _ lock.Request) (lock.Lease, error) {
	b.asked.Add(1)
	<-ctx.Done()
	return lock.Lease{}, context.Cause(ctx)
}

// Wait implements lock.Waiter.
func (b *busy) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	return b.Acquire(ctx, r)
}

// Renew implements lock.Store.
func (*busy) Renew(context.Context, []lock.Lease, []renewal.Outcome) error { return nil }

// Release implements lock.Store.
func (*busy) Release(context.Context, lock.Lease) error { return nil }

// TestACrowdIsTurnedAway lets a million calls want one lock that never comes free.
func TestACrowdIsTurnedAway(t *testing.T) {
	const admitted, calls, atATime = 1000, 1_000_000, 8
	b := new(busy)
	c := newClient(t, b, &lock.Options{MaxWaiters: admitted})
	var waiting sync.WaitGroup
	for range admitted {
		waiting.Go(func() {
			_, err := c.Mutex("hot").Lock(t.Context())
			assert.ErrorIs(t, err, lock.ErrClosed)
		})
	}
	require.Eventually(t, func() bool { return c.Stats().Waiting == admitted && b.asked.Load() == 1 }, 20*time.Second, time.Millisecond)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	var turnedAway atomic.Int64
	var callers sync.WaitGroup
	for range atATime {
		callers.Go(func() {
			for range calls / atATime {
				if _, err := c.Mutex("hot").Lock(t.Context()); errors.Is(err, lock.ErrTooMany) {
					turnedAway.Add(1)
				}
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, calls, turnedAway.Load())
	assert.EqualValues(t, 1, b.asked.Load(), "one of a process asks, the others stand behind it")
	assert.Less(t, heapInUse(), heap+8<<20)
	assert.Less(t, runtime.NumGoroutine(), goroutines+50)
	require.NoError(t, c.Close(t.Context()))
	waiting.Wait()
	report.Add("crowd        %d calls turned away, %d waited, the store was asked once", calls, admitted)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// swamp is a dialer whose connections get stuck as soon as they carry a request for
// a hot lock.
type swamp struct{ stuck atomic.Int64 }

func (s *swamp) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &sinking{Conn: conn, swamp: s}, err
}

type sinking struct {
	net.Conn
	swamp *swamp
	stuck bool // of the one goroutine that writes
}

// Write implements net.Conn.
func (c *sinking) Write(p []byte) (int, error) {
	if !c.stuck && bytes.Contains(p, []byte("{hot")) {
		c.stuck = true
		c.swamp.stuck.Add(1)
	}
	if c.stuck {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestAHotLockDelaysNoRenewal holds locks while others want locks of which no
// request is ever answered, so that all connections for such requests hang. It counts
// renewals, and measures no time.
func TestAHotLockDelaysNoRenewal(t *testing.T) {
	t.Parallel()
	const held, wanted, pool = 100, 64, 4
	var s swamp
	rdb := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Dialer: s.dial})
	defer rdb.Close()
	store, err := redisstore.New(rdb, &redisstore.Options{PoolSize: pool, Timeout: time.Second})
	require.NoError(t, err)
	c := newClient(t, store, &lock.Options{Terms: lock.Terms{TTL: 6 * time.Second}})
	var holders []*lock.Held
	for i := range held {
		h, err := c.Mutex(fmt.Sprint("held", i)).Lock(t.Context())
		require.NoError(t, err)
		holders = append(holders, h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	for i := range wanted {
		crowd.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Mutex(fmt.Sprint("hot", i)).Lock(ctx)
			}
		})
	}
	assert.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= 2*held }, time.Minute, 10*time.Millisecond)
	cancel()
	crowd.Wait()
	assert.Greater(t, s.stuck.Load(), int64(pool))
	stats := c.Stats().Renewal
	assert.Zero(t, stats.Lost())
	assert.Zero(t, stats.Unknown)
	for _, h := range holders {
		assert.NoError(t, h.Err())
	}
	report.Add("hot locks    %d renewals while %d requests hung, none failed", stats.Renewed, s.stuck.Load())
}
