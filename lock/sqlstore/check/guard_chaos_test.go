package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// Each write of these tests stores the token of its writer. A write is stale if it replaces a
// higher token, and the database itself counts those.
const (
	createData = "CREATE TABLE guarded_data (id INTEGER PRIMARY KEY, value BIGINT NOT NULL, stale BIGINT NOT NULL)"
	writeData  = "UPDATE guarded_data SET stale = stale + CASE WHEN value > %[1]d THEN 1 ELSE 0 END, value = %[1]d WHERE id = %[2]d"
)

func (e guardEngine) createData(t *testing.T, rows int) {
	t.Helper()
	e.exec(t, "DROP TABLE IF EXISTS guarded_data")
	e.exec(t, createData)
	for id := range rows {
		e.exec(t, fmt.Sprintf("INSERT INTO guarded_data VALUES (%d, 0, 0)", id))
	}
}

func (e guardEngine) staleWrites(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, e.db.QueryRow("SELECT SUM(stale) FROM guarded_data").Scan(&n))
	return n
}

// Holders stall with an open transaction until their leases have ended, while others contend
// for the locks.
func TestGuardedWritesAreNeverStale(t *testing.T) {
	onEachGuardEngine(t, func(t *testing.T, e guardEngine) {
		rounds := int64(40)
		if e.isSQLite() {
			rounds = 10 // nothing runs at the same time
		}
		c := newChaos(t, e, true)
		c.run(rounds)
		t.Logf("%d stalled and committed, %d stalled before Guard and were refused", c.committed.Load(), c.lost.Load())
		assert.Positive(t, c.lost.Load())
		assert.Zero(t, e.staleWrites(t))
	})
}

// The same without Guard, which shows that the test above can fail.
func TestUnguardedWritesAreStale(t *testing.T) {
	onEachGuardEngine(t, func(t *testing.T, e guardEngine) {
		c := newChaos(t, e, false)
		c.run(10)
		assert.Positive(t, e.staleWrites(t))
	})
}

const (
	chaosKeys = 3
	chaosTTL  = 150 * time.Millisecond
)

// chaos is a number of workers that write under locks whose leases are not renewed.
type chaos struct {
	t       *testing.T
	e       guardEngine
	guarded bool
	store   *sqlstore.Store

	committed, lost atomic.Int64 // of the workers that stalled
}

func newChaos(t *testing.T, e guardEngine, guarded bool) *chaos {
	e.createData(t, chaosKeys)
	return &chaos{t: t, e: e, guarded: guarded, store: e.store(t, false)}
}

// run lets workers write until so many of them have stalled and committed, and with Guard one has
// been refused.
func (c *chaos) run(rounds int64) {
	var wg sync.WaitGroup
	for worker := range 2 * chaosKeys {
		terms := lock.Terms{TTL: chaosTTL, Fixed: true}
		client, rival := c.e.client(c.t, worker%2 == 0, terms), c.e.client(c.t, worker%2 == 1, terms)
		wg.Go(func() {
			for n := worker; (c.committed.Load() < rounds || c.guarded && c.lost.Load() == 0) && !c.t.Failed(); n++ {
				err := c.work(client, rival, n%chaosKeys, n/chaosKeys)
				if err != nil && !c.e.isTransient(err) {
					assert.NoError(c.t, err)
				}
			}
		})
	}
	wg.Wait()
}

// The points at which the work of a worker stalls.
const (
	atOnce  = iota // after the lock was acquired
	guarded        // after Guard
	never
)

// work writes once. It stalls at one of the points, which n selects.
func (c *chaos) work(client, rival *lock.Client, id, n int) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	key := fmt.Sprintf("chaos-%d", id)
	held, err := client.Mutex(key).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Unlock(ctx) }() // most often it is lost
	tx, err := c.e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stall := n % 3
	if stall == atOnce {
		if err := c.overtake(ctx, rival, key, id); err != nil {
			return err
		}
	}
	if c.guarded {
		err := c.store.Guard(ctx, tx, grantOf(held))
		if errors.Is(err, lock.ErrLost) {
			c.lost.Add(1)
			return nil
		}
		if err != nil {
			return err
		}
	}
	if stall == guarded && c.guarded {
		if err := c.cannotOvertake(ctx, rival, key); err != nil {
			return err
		}
	} else if stall == guarded {
		if err := c.overtake(ctx, rival, key, id); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(writeData, held.Token(), id)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if stall != never {
		c.committed.Add(1)
	}
	return nil
}

// overtake stalls until a rival has acquired the lock and written, which it can because the lease
// of the worker ends.
func (c *chaos) overtake(ctx context.Context, rival *lock.Client, key string, id int) error {
	held, err := rival.Mutex(key).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Unlock(ctx) }()
	tx, err := c.e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if c.guarded {
		if err := c.store.Guard(ctx, tx, grantOf(held)); err != nil {
			if errors.Is(err, lock.ErrLost) {
				return nil
			}
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(writeData, held.Token(), id)); err != nil {
		return err
	}
	return tx.Commit()
}

// cannotOvertake stalls until the lease has ended, and checks that a rival does not get the lock.
func (c *chaos) cannotOvertake(ctx context.Context, rival *lock.Client, key string) error {
	c.e.untilLeaseEnds(c.t, rival, key)
	for range 3 {
		held, err := rival.Mutex(key).TryLock(ctx)
		if err == nil {
			_ = held.Unlock(ctx)
			return fmt.Errorf("%s was taken over from an open transaction", key)
		}
		if !errors.Is(err, lock.ErrNotAcquired) && !c.e.isTransient(err) {
			return err
		}
	}
	return nil
}

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
