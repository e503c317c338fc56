package sqlstore

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// onEachFaultySQLite puts a load on two clients with a pool each, for each way of the store, and runs f.
// It then checks that the load goes on, and its history.
func onEachFaultySQLite(t *testing.T, f func(t *testing.T, l *histories.Load, dsn string, pool *sql.DB)) {
	for _, pessimistic := range []bool{false, true} {
		t.Run(fmt.Sprintf("pessimistic=%v", pessimistic), func(t *testing.T) {
			t.Parallel()
			dsn := "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
			var pools []*sql.DB
			var clients []*lock.Client
			for range 2 {
				pool, err := sql.Open("sqlite", dsn)
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, pool.Close()) })
				pools = append(pools, pool)
				clients = append(clients, newFaultyClient(t, pool, SQLite(), pessimistic))
			}
			l := histories.NewLoad(t, faultTTL, clients...)
			l.Progress()
			f(t, l, dsn, pools[0])
			l.Progress()
			l.Stop()
		})
	}
}

// TestFaultsOfSQLite is TestFaults for a file, which another writer keeps from the store.
func TestFaultsOfSQLite(t *testing.T) {
	onEachFaultySQLite(t, func(t *testing.T, l *histories.Load, _ string, pool *sql.DB) {
		l.Fault(func() {
			writer, err := pool.Conn(t.Context())
			require.NoError(t, err)
			defer func() { assert.NoError(t, writer.Close()) }()
			require.Eventually(t, func() bool {
				_, err := writer.ExecContext(t.Context(), "BEGIN IMMEDIATE")
				return err == nil
			}, time.Minute, time.Millisecond)
			l.Told()
			_, err = writer.ExecContext(t.Context(), "ROLLBACK")
			require.NoError(t, err)
		})
	})
}

// TestAKilledWriterOfSQLite kills a process within a transaction that has granted a lock of the load to
// the process itself, for an hour. Nothing of the transaction may remain.
func TestAKilledWriterOfSQLite(t *testing.T) {
	onEachFaultySQLite(t, func(t *testing.T, l *histories.Load, dsn string, pool *sql.DB) {
		for _, meanwhile := range []func(){func() {}, l.Told} {
			l.Fault(func() {
				writer := startProcess(t, "TestWriterProcess", "SQLSTORE_WRITER="+dsn)
				require.Equal(t, "has written", writer.hear(t))
				meanwhile()
				require.NoError(t, writer.process.Kill())
			})
			l.Progress()
			var n int
			require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT count(*) FROM leasewheel_tombstones WHERE owner = 'filler'").Scan(&n))
			assert.Zero(t, n)
		}
	})
}

// TestWriterProcess is the writer of the test above. Its transaction is larger than its cache, so that
// SQLite has written a part of it to the log.
func TestWriterProcess(t *testing.T) {
	dsn := os.Getenv("SQLSTORE_WRITER")
	if dsn == "" {
		t.Skip("a part of TestAKilledWriterOfSQLite")
	}
	pool, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	defer func() { _ = pool.Close() }()
	s, err := New(pool, SQLite(), nil)
	require.NoError(t, err)
	c, err := pool.Conn(t.Context())
	require.NoError(t, err)
	_, err = c.ExecContext(t.Context(), "PRAGMA cache_size = 5")
	require.NoError(t, err)
	for {
		err = s.locked(t.Context(), c, "k0", true, func(k *lockedKey) error {
			k.grant("writer:1", k.now+ms(time.Hour), nil)
			require.NoError(t, k.save(t.Context()))
			for i := range 1000 {
				_, err := k.tx.ExecContext(t.Context(), "INSERT INTO leasewheel_tombstones (lock_key, owner, expires) VALUES (?, 'filler', 1)", fmt.Appendf(nil, "%0100d", i))
				require.NoError(t, err)
			}
			fmt.Println("holder: has written")
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		})
		require.True(t, s.dialect.wantsRetry(err), "%v", err) // another writer was faster
	}
}
