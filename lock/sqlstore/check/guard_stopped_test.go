package check

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// writeData stores the token of its writer. A write is stale if it replaces a higher token, and the database
// itself counts those.
const writeData = "UPDATE guarded_data SET stale = stale + CASE WHEN value > %[1]d THEN 1 ELSE 0 END, value = %[1]d"

func (e guardEngine) createData(t *testing.T) {
	t.Helper()
	e.exec(t, "DROP TABLE IF EXISTS guarded_data")
	e.exec(t, "CREATE TABLE guarded_data (id INTEGER PRIMARY KEY, value BIGINT NOT NULL, stale BIGINT NOT NULL)")
	e.exec(t, "INSERT INTO guarded_data VALUES (0, 0, 0)")
}

func (e guardEngine) staleWrites(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, e.db.QueryRow("SELECT stale FROM guarded_data").Scan(&n))
	return n
}

// The holder is a process that is stopped by SIGSTOP, in the middle of its transaction, until its
// lease has ended. Another process contends for the lock. Without Guard the same gives a stale
// write each time.
func TestAStoppedHolderWritesNothingStale(t *testing.T) {
	onEachGuardEngine(t, func(t *testing.T, e guardEngine) {
		e.createData(t)
		rival := e.client(t, time.Second)
		store := e.store(t, false)
		holder := startHolder(t, e)

		rounds := 0
		start := func(how string) (key string) {
			rounds++
			key = fmt.Sprintf("stopped %d", rounds) // of its own: the lost lease of the round before may still be released
			holder.say(t, how+"|"+key)
			return key
		}
		for range 4 {
			key := start("guard")
			require.Equal(t, "ready", holder.hear(t))
			holder.signal(t, testprocess.Stop)
			e.untilLeaseEnds(t, rival, key)
			for range 3 {
				_, err := rival.Mutex(key).TryLock(t.Context())
				require.Error(t, err, "the lock was taken over from an open transaction")
				require.True(t, errors.Is(err, lock.ErrNotAcquired) || e.isTransient(err), "%v", err)
			}
			holder.signal(t, testprocess.Continue)
			holder.say(t, "write")
			require.Equal(t, "committed", holder.hear(t))
			e.writeUnderLock(t, rival, store, key)
		}
		assert.Zero(t, e.staleWrites(t))

		for range 2 {
			key := start("no guard")
			require.Equal(t, "ready", holder.hear(t))
			holder.stop(t, e)
			e.writeUnderLock(t, rival, store, key) // waits for the end of the lease
			holder.signal(t, testprocess.Continue)
			holder.say(t, "write")
			require.Equal(t, "committed", holder.hear(t))
		}
		assert.Equal(t, 2, e.staleWrites(t), "stale writes without Guard")

		key := start("late guard")
		require.Equal(t, "ready", holder.hear(t))
		holder.stop(t, e)
		e.writeUnderLock(t, rival, store, key)
		holder.signal(t, testprocess.Continue)
		holder.say(t, "write")
		require.Equal(t, "lost", holder.hear(t))
		assert.Equal(t, 2, e.staleWrites(t))
	})
}

// writeUnderLock waits for the lock, and writes.
func (e guardEngine) writeUnderLock(t *testing.T, client *lock.Client, store *sqlstore.Store, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var held *lock.Held
	require.Eventually(t, func() (ok bool) {
		var err error
		held, err = client.Mutex(key).Lock(ctx)
		if err != nil {
			require.True(t, e.isTransient(err), "%v", err)
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	tx, err := e.db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, store.Guard(ctx, tx, held))
	_, err = tx.ExecContext(ctx, fmt.Sprintf(writeData, held.Token()))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, held.Unlock(ctx))
}

// holder is a process of this test binary that runs TestHolderProcess.
type holder struct {
	process *os.Process
	in      io.Writer
	out     *bufio.Reader
}

func startHolder(t *testing.T, e guardEngine) *holder {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.count=1")
	command.Env = append(os.Environ(), "SQLSTORE_HOLDER="+strings.Join([]string{e.dialect.String(), e.table, e.driver, e.dsn}, "|"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	h := &holder{command.Process, in, bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = h.process.Signal(testprocess.Continue)
		_ = in.Close()
		_ = h.process.Kill() // it may wait for the database
		_ = command.Wait()
	})
	return h
}

func (h *holder) say(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(h.in, line)
	require.NoError(t, err)
}

// hear returns the next line of the holder that is addressed to the test.
func (h *holder) hear(t *testing.T) string {
	t.Helper()
	for {
		line, err := h.out.ReadString('\n')
		require.NoError(t, err, "the holder has ended")
		if text, ok := strings.CutPrefix(line, "holder: "); ok {
			return strings.TrimSpace(text)
		}
	}
}

func (h *holder) signal(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, h.process.Signal(s))
	if s == testprocess.Stop {
		require.NoError(t, testprocess.AwaitStop(h.process.Pid))
	}
}

// stop stops the holder while it does not write to SQLite, for example to renew its lease. Otherwise
// it would keep all others from writing.
func (h *holder) stop(t *testing.T, e guardEngine) {
	t.Helper()
	for {
		h.signal(t, testprocess.Stop)
		if !e.isSQLite() || e.canWrite(t) {
			return
		}
		h.signal(t, testprocess.Continue)
		time.Sleep(10 * time.Millisecond)
	}
}

// canWrite reports whether a transaction of SQLite that writes can begin.
func (e guardEngine) canWrite(t *testing.T) bool {
	t.Helper()
	c, err := e.db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	_, err = c.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	return true
}

// TestHolderProcess is the holder of the test above.
func TestHolderProcess(t *testing.T) {
	config := os.Getenv("SQLSTORE_HOLDER")
	if config == "" {
		t.Skip("a part of TestAStoppedHolderWritesNothingStale")
	}
	parts := strings.SplitN(config, "|", 4)
	db, err := sql.Open(parts[2], parts[3])
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	e := guardEngine{dialect: dialectOf(parts[0]), table: parts[1], driver: parts[2], dsn: parts[3], db: db}
	store := e.store(t, false)
	client := e.client(t, 600*time.Millisecond)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println("holder:", e.holdAndWrite(t, store, client, lines.Text(), func() { lines.Scan() }))
	}
}

// holdAndWrite acquires the lock, begins a transaction, and stalls, before or after Guard.
func (e guardEngine) holdAndWrite(t *testing.T, store *sqlstore.Store, client *lock.Client, line string, untilTold func()) string {
	how, key, _ := strings.Cut(line, "|")
	ctx := t.Context()
	held, err := client.Mutex(key).Lock(ctx)
	require.NoError(t, err)
	defer func() { _ = held.Unlock(ctx) }()
	tx, err := e.db.BeginTx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	if how == "guard" {
		require.NoError(t, store.Guard(ctx, tx, held))
	}
	fmt.Println("holder: ready")
	untilTold()
	if how == "late guard" {
		if err := store.Guard(ctx, tx, grantOf(held)); errors.Is(err, lock.ErrLost) {
			return "lost"
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(writeData, held.Token()))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return "committed"
}
