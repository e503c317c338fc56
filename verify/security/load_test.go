package security

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
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// takenStore is a store whose locks are always taken.
type takenStore struct {
	driver.Base
	asked atomic.Int64
}

// Describe implements driver.Store.
func (*takenStore) Describe() driver.Description { return driver.Description{Waits: true} }

// Acquire implements driver.Store.
func (b *takenStore) Acquire(ctx context.Context, _ driver.Request) (driver.Lease, error) {
	b.asked.Add(1)
	<-ctx.Done()
	return driver.Lease{}, context.Cause(ctx)
}

// Wait implements driver.Store.
func (b *takenStore) Wait(ctx context.Context, r driver.Request, _ func()) (driver.Lease, error) {
	return b.Acquire(ctx, r)
}

// Renew implements driver.Store.
func (*takenStore) Renew(context.Context, []driver.Lease, []renewal.Outcome) error { return nil }

// Release implements driver.Store.
func (*takenStore) Release(context.Context, driver.Lease) error { return nil }

// TestExcessCallersAreRefused makes a million calls for a lock that is never released.
func TestExcessCallersAreRefused(t *testing.T) {
	const admitted, calls, atATime = 1000, 1_000_000, 8
	b := new(takenStore)
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
	var refused atomic.Int64
	var callers sync.WaitGroup
	for range atATime {
		callers.Go(func() {
			for range calls / atATime {
				if _, err := c.Mutex("hot").Lock(t.Context()); errors.Is(err, lock.ErrTooMany) {
					refused.Add(1)
				}
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, calls, refused.Load())
	assert.EqualValues(t, 1, b.asked.Load(), "one call asks the store; the others wait behind it")
	assert.Less(t, heapInUse(), heap+8<<20)
	assert.Less(t, runtime.NumGoroutine(), goroutines+50)
	require.NoError(t, c.Close(t.Context()))
	waiting.Wait()
	report.Add("waiters      %d calls refused, %d waited, one request to the store", calls, admitted)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// hangingDialer makes connections that hang after the first request for a lock whose
// name begins with "hot".
type hangingDialer struct{ hanging atomic.Int64 }

func (s *hangingDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &hangingConn{Conn: conn, dialer: s}, err
}

type hangingConn struct {
	net.Conn
	dialer  *hangingDialer
	hanging bool // used by the single goroutine that writes
}

// Write implements net.Conn.
func (c *hangingConn) Write(p []byte) (int, error) {
	if !c.hanging && bytes.Contains(p, []byte("{hot")) {
		c.hanging = true
		c.dialer.hanging.Add(1)
	}
	if c.hanging {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestAHotLockDelaysNoRenewal holds locks while requests for other locks are never
// answered, so that all connections for acquires hang. It counts renewals and measures
// no time.
func TestAHotLockDelaysNoRenewal(t *testing.T) {
	t.Parallel()
	const held, wanted, pool = 100, 64, 4
	var s hangingDialer
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
	var callers sync.WaitGroup
	for i := range wanted {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Mutex(fmt.Sprint("hot", i)).Lock(ctx)
			}
		})
	}
	assert.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= 2*held }, time.Minute, 10*time.Millisecond)
	cancel()
	callers.Wait()
	assert.Greater(t, s.hanging.Load(), int64(pool))
	stats := c.Stats().Renewal
	assert.Zero(t, stats.Lost())
	assert.Zero(t, stats.Unknown)
	for _, h := range holders {
		assert.NoError(t, h.Err())
	}
	report.Add("hot locks    %d renewals while %d requests hung, none failed", stats.Renewed, s.hanging.Load())
}
