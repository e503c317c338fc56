package check

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
)

const (
	shortTTL = 100 * time.Millisecond
	longTTL  = time.Hour
)

// grant identifies a grant without the clock of its client, so that only the database can tell
// that it has ended.
type grant struct {
	key   string
	token uint64
}

func grantOf(held *lock.Held) grant { return grant{held.Key(), held.Token()} }

func (g grant) Key() string   { return g.key }
func (g grant) Token() uint64 { return g.token }
func (g grant) Err() error    { return nil }

// guardCase is a lock in a database. The case says what happens to it while it is guarded.
type guardCase struct {
	guardEngine
	s   *sqlstore.Store
	key string
}

// onEachWay runs f for each database and each way of the store.
func onEachWay(t *testing.T, f func(t *testing.T, g guardCase)) {
	onEachGuardEngine(t, func(t *testing.T, e guardEngine) {
		for way, pessimistic := range map[string]bool{"optimistic": false, "pessimistic": true} {
			t.Run(way, func(t *testing.T) {
				e.table += "_" + way
				require.NoError(t, sqlstore.CreateSchema(t.Context(), e.db, e.dialect, e.options(false)))
				f(t, guardCase{e, e.store(t, pessimistic), "key of " + way})
			})
		}
	})
}

var guardOwners atomic.Int64

func (g guardCase) request(ttl time.Duration) driver.Request {
	return driver.Request{Key: g.key, Owner: fmt.Sprintf("client:%d", guardOwners.Add(1)), TTL: ttl}
}

func (g guardCase) acquire(t *testing.T, ttl time.Duration) driver.Lease {
	t.Helper()
	l, err := g.s.Acquire(t.Context(), g.request(ttl))
	require.NoError(t, err)
	return l
}

// guarded returns a transaction that guards leases.
func (g guardCase) guarded(t *testing.T, leases ...driver.Lease) *sql.Tx {
	t.Helper()
	tx, err := g.guard(t, leases...)
	require.NoError(t, err)
	return tx
}

// guard is guarded that may fail. It leaves no transaction then.
func (g guardCase) guard(t *testing.T, leases ...driver.Lease) (*sql.Tx, error) {
	t.Helper()
	tx, err := g.db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, l := range leases {
		if err := g.s.Guard(t.Context(), tx, grant{l.Key, l.Token}); err != nil {
			require.NoError(t, tx.Rollback())
			return nil, err
		}
	}
	return tx, nil
}

// guardedBriefly returns a lease that will soon end, and a transaction that guards it.
func (g guardCase) guardedBriefly(t *testing.T) (l driver.Lease, tx *sql.Tx) {
	t.Helper()
	withShortTTL(t, func(ttl time.Duration) (err error) {
		l = g.acquire(t, ttl)
		tx, err = g.guard(t, l)
		return err
	})
	return l, tx
}

// withShortTTL calls f with a short TTL, and again with a longer one each time that a lease of f
// has ended too early, as on a busy machine.
func withShortTTL(t *testing.T, f func(ttl time.Duration) error) {
	t.Helper()
	for ttl := shortTTL; ttl < time.Minute; ttl *= 2 {
		err := f(ttl)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, lock.ErrLost)
	}
	require.Fail(t, "every lease ended too early")
}

// untilFree waits until the lease has ended by the clock of the database.
func (g guardCase) untilFree(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := g.s.Inspect(t.Context(), g.key)
		return err == nil && info.Held == 0
	}, time.Minute, time.Millisecond)
}

// isRefused checks that nobody else gets the lock, and that the answer comes at once.
func (g guardCase) isRefused(t *testing.T) {
	t.Helper()
	_, err := g.s.Acquire(t.Context(), g.request(longTTL))
	require.Error(t, err, "the lock was granted although it is guarded")
	if g.isSQLite() { // the other writer is in the way, whatever it does
		g.untilIdle(t)
		return
	}
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	require.Zero(t, held.ExpiresIn)
}

// untilIdle waits until the driver has returned from all calls. A request that has ended by its time may
// still wait for the other writer, and would be granted after that.
func (g guardCase) untilIdle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return seam.Calls(g.s) == 0
	}, time.Minute, time.Millisecond)
}

// isGranted checks that the lock is granted with a higher token than that of a lease.
func (g guardCase) isGranted(t *testing.T, after driver.Lease) driver.Lease {
	t.Helper()
	l := g.acquire(t, longTTL)
	require.Greater(t, l.Token, after.Token)
	return l
}
