package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestBatchesInOppositeOrderDoNotBlockEachOther renews the same leases in two orders.
func TestBatchesInOppositeOrderDoNotBlockEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		open      func(t testing.TB, params ...string) *database
		deadlocks string // the query for their number
	}{
		"PostgreSQL": {newPostgres, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"},
		"MariaDB":    {newMariaDB, "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"},
	} {
		t.Run(name, func(t *testing.T) { testBatchesInOppositeOrder(t, c.open(t).store(t, sqlstore.Options{}), c.deadlocks) })
	}
}

func testBatchesInOppositeOrder(t *testing.T, s *testedStore, deadlocks string) {
	var batch []driver.Lease
	for i := range 100 {
		batch = append(batch, acquire(t, s, request(fmt.Sprint(i))))
	}
	reversed := slices.Clone(batch)
	slices.Reverse(reversed)
	before := s.count(t, deadlocks)
	var wg sync.WaitGroup
	for _, b := range [][]driver.Lease{batch, reversed, batch, reversed} {
		wg.Go(func() {
			for range 20 {
				out := make([]renewal.Outcome, len(b))
				assert.NoError(t, s.Renew(t.Context(), b, out))
				assert.False(t, slices.ContainsFunc(out, renewal.Outcome.IsLost))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, before, s.count(t, deadlocks))
}

// onEachServer runs a test on each database that locks rows.
func onEachServer(t *testing.T, f func(t *testing.T, d *database, dsn string)) {
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); f(t, newPostgres(t), postgres.Get(t).DSN()) })
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		f(t, newMariaDB(t), mariaDB.Get(t).DSN("interpolateParams=true"))
	})
}

// insertLeases returns n leases of 30 s, of keys in their order.
func insertLeases(t testing.TB, s *testedStore, n int) (batch []driver.Lease) {
	t.Helper()
	tx, err := s.of.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	for i := range n {
		l := driver.Lease{Request: request(fmt.Sprintf("k%05d", i)), Token: uint64(i + 1)}
		l.TTL = 30 * time.Second
		batch = append(batch, l)
		_, err := tx.ExecContext(t.Context(), s.expand(`INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
			VALUES (?, 0, ?, ?, {now} + 30000, NULL, 0, 0)`), []byte(l.Key), []byte(l.Owner), int64(l.Token))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	return batch
}

// lockRow locks the row of a key in a transaction that stands still until the end of the test, or until
// the returned function is called.
func lockRow(t testing.TB, s *testedStore, keys ...string) (unlock func()) {
	t.Helper()
	tx, err := s.of.db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	for _, key := range keys {
		_, err = tx.ExecContext(t.Context(), s.expand("SELECT 1 FROM {locks} WHERE lock_key = ? FOR UPDATE"), []byte(key))
		require.NoError(t, err)
	}
	unlock = sync.OnceFunc(func() { assert.NoError(t, tx.Rollback()) })
	t.Cleanup(unlock)
	return unlock
}

// TestALockedRowCostsNoOtherLease renews 3,000 leases while a transaction stands still on the rows of some.
func TestALockedRowCostsNoOtherLease(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 3000)
		outlast(t, s, batch)
		for _, locked := range [][]int{{7}, {7, 100, 101, 102, 103, 2000, 2999}} {
			var keys []string
			for _, i := range locked {
				keys = append(keys, batch[i].Key)
			}
			unlock := lockRow(t, s, keys...)
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			out := make([]renewal.Outcome, len(batch))
			err := s.Renew(ctx, batch, out)
			require.ErrorContains(t, err, batch[locked[0]].Key)
			require.ErrorContains(t, err, "keeps the row of the key locked")
			require.NoError(t, ctx.Err(), "others are told within the time of the attempt")
			for i, outcome := range out {
				want := renewal.Renewed
				if slices.Contains(locked, i) {
					want = renewal.Unknown
				}
				assert.Equal(t, want, outcome, i)
			}
			unlock()
			require.NoError(t, s.Renew(t.Context(), batch, out))
			assert.NotContains(t, out, renewal.Unknown)
			assert.False(t, slices.ContainsFunc(out, renewal.Outcome.IsLost))
		}
	})
}

// awaitedQueries keeps the queries of all tests for transactions that wait apart: MariaDB answers from a cache if it was
// asked within 100 ms.
var awaitedQueries sync.Mutex

// whenAwaited calls f when a statement on the tables waits for a row.
func whenAwaited(t *testing.T, s *testedStore, f func()) {
	t.Helper()
	query := "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE ?"
	if s.of.dialect.String() == "PostgreSQL" {
		query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ?"
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		isAwaited := func() bool {
			awaitedQueries.Lock()
			defer awaitedQueries.Unlock()
			time.Sleep(120 * time.Millisecond)
			var n int // MySQL fails while a statement of another test has bytes that are no text
			err := s.of.db.QueryRowContext(context.Background(), s.expand(query), "%"+s.of.table+"%").Scan(&n)
			return err == nil && n > 0
		}
		assert.Eventually(t, isAwaited, time.Minute, time.Millisecond)
		f()
	}()
	t.Cleanup(func() { <-done })
}

// TestALockedRowThatBecomesFree renews leases while others keep their rows locked for a while, and one of
// them takes the lock away.
func TestALockedRowThatBecomesFree(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 20)
		out := make([]renewal.Outcome, len(batch))

		unlock := lockRow(t, s, "k00000", "k00001", "k00002", "k00003", "k00004", "k00005")
		tapped, tap := newTapped(t, d, dsn)
		var n atomic.Int64
		tap.onStatement(func(string) {
			if n.Add(1) == 5 {
				unlock()
			}
		})
		require.NoError(t, tapped.store(t, sqlstore.Options{}).Renew(t.Context(), batch, out))
		assert.NotContains(t, out, renewal.Unknown)
		assert.False(t, slices.ContainsFunc(out, renewal.Outcome.IsLost))

		whenAwaited(t, s, lockRow(t, s, "k00003"))
		require.NoError(t, s.Renew(t.Context(), batch, out))
		assert.NotContains(t, out, renewal.Unknown)
		assert.False(t, slices.ContainsFunc(out, renewal.Outcome.IsLost))

		tx, err := d.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), s.expand("UPDATE {locks} SET owner = ?, token = token + 1 WHERE lock_key = ?"), []byte("another"), []byte("k00003"))
		require.NoError(t, err)
		whenAwaited(t, s, func() { assert.NoError(t, tx.Commit()) })
		require.NoError(t, s.Renew(t.Context(), batch, out))
		assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.LostTaken, renewal.Renewed}, out[2:5])
	})
}

// TestAMassLossIsToldInFewStatements deletes the rows of half of 1,000 leases, and gives some others to
// another owner.
func TestAMassLossIsToldInFewStatements(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, d *database, dsn string) {
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 1000)
		outlast(t, s, batch)
		s.exec(t, "DELETE FROM {locks} WHERE lock_key >= ?", []byte("k00500"))
		s.exec(t, "UPDATE {locks} SET owner = ? WHERE lock_key >= ? AND lock_key < ?", []byte("another"), []byte("k00400"), []byte("k00420"))
		s.exec(t, "UPDATE {locks} SET owner = ? WHERE lock_key >= ? AND lock_key < ?", []byte(keptOwner), []byte("k00420"), []byte("k00440"))
		s.exec(t, "UPDATE {locks} SET expires = 1 WHERE lock_key >= ? AND lock_key < ?", []byte("k00440"), []byte("k00460"))
		s.exec(t, "UPDATE {locks} SET token = token + 1 WHERE lock_key >= ? AND lock_key < ?", []byte("k00460"), []byte("k00480"))
		s.exec(t, "UPDATE {locks} SET kind = 7 WHERE lock_key >= ? AND lock_key < ?", []byte("k00480"), []byte("k00490"))
		tapped, tap := newTapped(t, d, dsn)
		s = tapped.store(t, sqlstore.Options{})
		_, err := s.Inspect(t.Context(), "k") // the first call looks for the tables
		require.NoError(t, err)
		out := make([]renewal.Outcome, len(batch))
		n := tap.statements(func() { require.NoError(t, s.Renew(t.Context(), batch, out)) })
		assert.LessOrEqual(t, n, 2)
		for i := range batch {
			want := renewal.LostMissing
			switch {
			case i < 400, i >= 490 && i < 500:
				want = renewal.Renewed
			case i < 420, i >= 460 && i < 480:
				want = renewal.LostTaken
			}
			assert.Equal(t, want, out[i], i)
		}
	}
	onEachServer(t, test)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		d := newSQLite(t)
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 3)
		s.exec(t, "DELETE FROM {locks} WHERE lock_key = ?", []byte("k00000"))
		s.exec(t, "UPDATE {locks} SET owner = ? WHERE lock_key = ?", []byte("another"), []byte("k00001"))
		out := make([]renewal.Outcome, len(batch))
		require.NoError(t, s.Renew(t.Context(), batch, out))
		assert.Equal(t, []renewal.Outcome{renewal.LostMissing, renewal.LostTaken, renewal.Renewed}, out)
	})
}

// TestALockedRowDelaysNoOtherRelease releases leases together while a transaction stands still on a row.
func TestALockedRowDelaysNoOtherRelease(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{Timeout: 5 * time.Second})
		batch := insertLeases(t, s, 100)
		lockRow(t, s, "k00007")
		out := make([]error, len(batch))
		require.NoError(t, s.ReleaseAll(t.Context(), batch, out))
		for i, err := range out {
			if i == 7 {
				assert.ErrorIs(t, err, driver.ErrUnavailable)
			} else {
				assert.NoError(t, err, i)
			}
		}
	})
}
