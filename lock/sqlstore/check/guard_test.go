package check

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestAnExpiredLockIsNotTakenFromItsTransaction(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			l, tx := g.guardedBriefly(t)
			g.untilFree(t)
			g.isRefused(t)
			g.isRefused(t)
			require.NoError(t, end(tx))
			next := g.isGranted(t, l)
			require.NoError(t, g.s.Release(t.Context(), next))
		}
	})
}

// The former owner asks again, too late: a new grant to itself has to wait like any other.
func TestAGuardAlsoExcludesANewGrantToItsOwner(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		if g.isSQLite() {
			t.Skip("there is only one writer")
		}
		l, tx := g.guardedBriefly(t)
		g.untilFree(t)
		_, err := g.s.Acquire(t.Context(), l.Request)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, tx.Commit())
		again, err := g.s.Acquire(t.Context(), l.Request)
		require.NoError(t, err)
		require.Greater(t, again.Token, l.Token)
	})
}

func TestRenewalsDoNotWaitForAGuard(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		if g.isSQLite() {
			t.Skip("there is only one writer")
		}
		l := g.acquire(t, longTTL)
		g.key += " 2"
		other := g.acquire(t, longTTL)
		tx := g.guarded(t, l)
		for range 5 {
			out := make([]renewal.Outcome, 2)
			require.NoError(t, g.s.Renew(t.Context(), []driver.Lease{other, l}, out))
			require.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed}, out)
			require.NoError(t, g.s.Renew(t.Context(), []driver.Lease{l}, out[:1]))
			require.Equal(t, renewal.Renewed, out[0])
		}
		require.NoError(t, g.s.SetMetadata(t.Context(), l, "guarded"))
		again, err := g.s.Acquire(t.Context(), l.Request)
		require.NoError(t, err)
		require.Equal(t, l.Token, again.Token)

		g.key = l.Key // the renewals have made new versions of the row, and they are guarded, too
		require.NoError(t, g.s.Release(t.Context(), l))
		g.isRefused(t)
		require.NoError(t, tx.Commit())
		g.isGranted(t, l)
	})
}

func TestAReleasedLockIsNotTakenFromItsTransaction(t *testing.T) {
	releases := map[string]func(t *testing.T, g guardCase, l driver.Lease){
		"release": func(t *testing.T, g guardCase, l driver.Lease) { require.NoError(t, g.s.Release(t.Context(), l)) },
		"release of an unanswered lease": func(t *testing.T, g guardCase, l driver.Lease) {
			l.Unanswered = true
			require.NoError(t, g.s.Release(t.Context(), l))
		},
		"bulk release": func(t *testing.T, g guardCase, l driver.Lease) {
			out := make([]error, 1)
			require.NoError(t, g.s.ReleaseAll(t.Context(), []driver.Lease{l}, out))
			require.NoError(t, out[0])
		},
		"force release": func(t *testing.T, g guardCase, l driver.Lease) {
			require.NoError(t, g.s.ForceRelease(t.Context(), g.key))
		},
	}
	onEachWay(t, func(t *testing.T, g guardCase) {
		if g.isSQLite() {
			t.Skip("there is only one writer")
		}
		for name, release := range releases {
			for _, waiting := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, waiting %v", name, waiting), func(t *testing.T) {
					g.key = t.Name()
					l := g.acquire(t, longTTL)
					tx := g.guarded(t, l)
					wait := func() driver.Lease { return g.isGranted(t, l) }
					if waiting {
						wait = g.waits(t)
					}
					release(t, g, l)
					g.untilFree(t)
					g.isRefused(t)
					require.NoError(t, tx.Commit())
					require.Greater(t, wait().Token, l.Token)
				})
			}
		}
	})
}

// waits starts a Wait, and returns a function that returns the lease that it gets.
func (g guardCase) waits(t *testing.T) (result func() driver.Lease) {
	t.Helper()
	r := g.request(longTTL)
	type answer struct {
		lease driver.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		l, err := g.s.Wait(t.Context(), r, func() {})
		answers <- answer{l, err}
	}()
	require.Eventually(t, func() bool {
		info, err := g.s.Inspect(t.Context(), r.Key)
		return err == nil && info.Waiting == 1
	}, time.Minute, time.Millisecond)
	return func() driver.Lease {
		a := <-answers
		require.NoError(t, a.err)
		return a.lease
	}
}

// isNotHeld checks that Guard refuses a grant.
func (g guardCase) isNotHeld(t *testing.T, held sqlstore.Holder) {
	t.Helper()
	tx, err := g.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	err = g.s.Guard(t.Context(), tx, held)
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorContains(t, err, held.Key())
}

func TestGuardRefusesALockThatIsNotHeld(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		g.isNotHeld(t, grant{"never held", 1})
		l := g.acquire(t, shortTTL)
		g.isNotHeld(t, grant{l.Key, l.Token + 1})
		g.isNotHeld(t, grant{l.Key + " ", l.Token})
		g.untilFree(t)
		if g.driver != "mysql" { // which accepts it, because it is nobody else's yet
			g.isNotHeld(t, grant{l.Key, l.Token})
		}
		next := g.isGranted(t, l)
		g.isNotHeld(t, grant{l.Key, l.Token})
		tx := g.guarded(t, next)
		require.NoError(t, tx.Commit())
		require.NoError(t, g.s.Release(t.Context(), next))
		if g.driver != "mysql" {
			g.isNotHeld(t, grant{next.Key, next.Token})
		}
		last := g.acquire(t, longTTL)
		g.isNotHeld(t, grant{next.Key, next.Token})
		require.NoError(t, g.s.ForceRelease(t.Context(), g.key))
		g.isNotHeld(t, grant{last.Key, last.Token})
	})
}

func TestSeveralTransactionsGuardOneLock(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		if g.isSQLite() {
			t.Skip("there is only one writer")
		}
		var l driver.Lease
		var first, second *sql.Tx
		withShortTTL(t, func(ttl time.Duration) (err error) {
			l = g.acquire(t, ttl)
			if first, err = g.guard(t, l, l); err != nil {
				return err
			}
			if second, err = g.guard(t, l); err != nil {
				require.NoError(t, first.Rollback())
			}
			return err
		})
		g.untilFree(t)
		require.NoError(t, first.Commit())
		g.isRefused(t)
		require.NoError(t, second.Rollback())
		g.isGranted(t, l)
	})
}

func TestOneTransactionGuardsSeveralLocks(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		other := g
		other.key = g.key + " 2"
		var l, second driver.Lease
		var tx *sql.Tx
		withShortTTL(t, func(ttl time.Duration) (err error) {
			other.untilFree(t)
			g.untilFree(t)
			l, second = g.acquire(t, ttl), other.acquire(t, ttl)
			tx, err = g.guard(t, l, second)
			return err
		})
		g.untilFree(t)
		other.untilFree(t)
		g.isRefused(t)
		other.isRefused(t)
		if !g.isSQLite() {
			other.key = g.key + " 3"
			other.acquire(t, longTTL) // other keys are not affected
			other.key = g.key + " 2"
		}
		require.NoError(t, tx.Commit())
		g.isGranted(t, l)
		other.isGranted(t, second)
	})
}

func TestARollbackToALaterSavepointKeepsTheGuard(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		l, tx := g.guardedBriefly(t)
		for _, text := range []string{"SAVEPOINT later", "ROLLBACK TO SAVEPOINT later"} {
			_, err := tx.Exec(text)
			require.NoError(t, err)
		}
		g.untilFree(t)
		g.isRefused(t)
		require.NoError(t, tx.Commit())
		g.isGranted(t, l)
	})
}

// A transaction with an old snapshot does not trust it.
func TestAGuardSeesThroughAnOldSnapshot(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		level := sql.LevelRepeatableRead
		if g.isSQLite() {
			level = sql.LevelDefault
		}
		l := g.acquire(t, shortTTL)
		tx, err := g.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		var n int
		require.NoError(t, tx.QueryRow("SELECT COUNT(*) FROM "+g.table+"_locks").Scan(&n), "the snapshot begins")
		g.untilFree(t)
		g.isGranted(t, l)
		err = g.s.Guard(t.Context(), tx, grant{l.Key, l.Token})
		require.Error(t, err) // lost, or a serialization failure
	})
}

func TestSweepLeavesAGuardedRow(t *testing.T) {
	onEachWay(t, func(t *testing.T, g guardCase) {
		if g.isSQLite() {
			t.Skip("there is only one writer")
		}
		swept := g
		swept.key += " 2"
		l := g.acquire(t, longTTL)
		other := swept.acquire(t, longTTL)
		tx := g.guarded(t, l)
		require.NoError(t, g.s.Release(t.Context(), l))
		require.NoError(t, g.s.Release(t.Context(), other))
		g.exec(t, "UPDATE "+g.table+"_locks SET expires = 1")
		n, err := g.s.Sweep(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		g.isRefused(t)
		require.NoError(t, tx.Commit())
		n, err = g.s.Sweep(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		g.isGranted(t, l)
		swept.isGranted(t, other)
	})
}

func TestGuardOfAHandle(t *testing.T) {
	onEachGuardEngine(t, func(t *testing.T, e guardEngine) {
		client, s := e.client(t, time.Minute), e.store(t, false)
		held, err := client.Mutex("handle").Lock(t.Context())
		require.NoError(t, err)
		tx, err := e.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, s.Guard(t.Context(), tx, held))
		require.NoError(t, tx.Commit())

		require.ErrorContains(t, s.Guard(t.Context(), tx, held), `guard "handle"`)
		require.ErrorIs(t, s.Guard(t.Context(), tx, held), sql.ErrTxDone)
		require.ErrorContains(t, s.Guard(t.Context(), nil, held), "the transaction is nil")
		require.ErrorContains(t, s.Guard(t.Context(), tx, nil), "the lock is nil")
		require.ErrorContains(t, s.Guard(nil, tx, held), "the context is nil") //nolint:staticcheck // the case

		tx, err = e.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("the cause: %w", lock.ErrLost))
		require.ErrorContains(t, s.Guard(ctx, tx, held), "the cause")
		require.NoError(t, held.Unlock(t.Context()))
		require.ErrorIs(t, s.Guard(t.Context(), tx, held), lock.ErrNotHeld)
		require.ErrorIs(t, s.Guard(t.Context(), tx, (*lock.Held)(nil)), lock.ErrNotHeld)

		both, err := lock.Multi(client.Mutex("one"), client.Mutex("two")).Lock(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, s.Guard(t.Context(), tx, both), "several keys")
		for _, h := range both.Handles() {
			require.NoError(t, s.Guard(t.Context(), tx, h))
		}
		require.NoError(t, tx.Rollback())
		require.NoError(t, both.Unlock(t.Context()))
		tx, err = e.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
	})
}
