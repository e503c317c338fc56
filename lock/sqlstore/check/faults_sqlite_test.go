package check

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
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
				clients = append(clients, newFaultyClient(t, pool, sqlstore.SQLite(), pessimistic))
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
	t.Parallel()
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
	t.Parallel()
	onEachFaultySQLite(t, func(t *testing.T, l *histories.Load, dsn string, pool *sql.DB) {
		for _, meanwhile := range []func(){func() {}, l.Told} {
			l.Fault(func() {
				writer := startWriter(t, dsn)
				meanwhile()
				require.NoError(t, writer.Kill())
			})
			l.Progress()
			var n int
			require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT count(*) FROM leasewheel_tombstones WHERE owner = 'filler'").Scan(&n))
			assert.Zero(t, n)
		}
	})
}

// writerVariable makes the test binary the writer of TestAKilledWriterOfSQLite, on the database that it names.
const writerVariable = "SQLSTORE_TEST_WRITER"

// startWriter starts the writer in a process of its own, and returns when it has written.
func startWriter(t *testing.T, dsn string) *os.Process {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), writerVariable+"="+dsn)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe() // its end ends the writer
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the writer has ended")
	require.Equal(t, "has written\n", line)
	return command.Process
}

// write is the writer. Its transaction is larger than its cache, so that SQLite has written a part of it
// to the log.
func write(dsn string) error {
	ctx := context.Background()
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	c, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := c.ExecContext(ctx, "PRAGMA cache_size = 5"); err != nil {
		return err
	}
	for begun := false; !begun; { // another writer may be faster
		_, err := c.ExecContext(ctx, "BEGIN IMMEDIATE")
		begun = err == nil
	}
	grant := "UPDATE leasewheel_locks SET owner = CAST('writer:1' AS BLOB), token = token + 1, expires = expires + 3600000 WHERE lock_key = CAST('k0' AS BLOB)"
	if _, err := c.ExecContext(ctx, grant); err != nil {
		return err
	}
	for i := range 1000 {
		_, err := c.ExecContext(ctx, "INSERT INTO leasewheel_tombstones (lock_key, owner, expires) VALUES (?, 'filler', 1)", fmt.Appendf(nil, "%0100d", i))
		if err != nil {
			return err
		}
	}
	fmt.Println("has written")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
