package check

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func acquire(t testing.TB, s driver.Store, r driver.Request) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	l.Request = r
	return l
}

func renews(t testing.TB, s driver.Store, l driver.Lease) {
	t.Helper()
	out := make([]renewal.Outcome, 1)
	assert.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
	assert.Equal(t, renewal.Renewed, out[0])
}

// onBoth runs a test on PostgreSQL and on SQLite.
func onBoth(t *testing.T, f func(t *testing.T, d *database)) {
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); f(t, newPostgres(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); f(t, newSQLite(t)) })
}

// TestAKeptLockHasNoOwner checks that nobody can renew or release a kept lock by its owner.
func TestAKeptLockHasNoOwner(t *testing.T) {
	s := newSQLite(t).store(t, sqlstore.Options{})
	l := acquire(t, s, request("k"))
	l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Hour)}
	require.NoError(t, s.Release(t.Context(), l))
	for _, owner := range []string{"", keptOwner} {
		l.Owner, l.Attrs = owner, nil
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
		require.ErrorIs(t, s.SetMetadata(t.Context(), l, "m"), driver.ErrNotHeld)
		require.ErrorIs(t, s.Save(t.Context(), l, 1, nil, time.Hour), driver.ErrNotHeld)
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
		assert.True(t, out[0].IsLost())
	}
}

func TestAClosedStore(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, sqlstore.Options{})
		l := acquire(t, s, request("k"))
		waited := make(chan error, 1)
		go func() {
			_, err := s.Wait(context.Background(), request("k"), func() {})
			waited <- err
		}()
		require.Eventually(t, func() bool {
			info, err := s.Inspect(t.Context(), "k")
			return err == nil && info.Waiting == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waited, driver.ErrStoreClosed)
		require.NoError(t, s.Close(), "Close is idempotent")
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorIs(t, err, driver.ErrStoreClosed)
		require.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)), driver.ErrStoreClosed)
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrStoreClosed)
		_, err = s.Inspect(t.Context(), "k")
		require.ErrorIs(t, err, driver.ErrStoreClosed)
		_, err = s.Sweep(t.Context())
		require.ErrorIs(t, err, driver.ErrStoreClosed)
		require.NoError(t, d.db.PingContext(t.Context()), "the *sql.DB is the caller's")
	})
}

func TestARefusedDialSendsNothing(t *testing.T) {
	db, err := sql.Open("pgx", "postgres://u@127.0.0.1:1/db?sslmode=disable")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	s, err := sqlstore.New(db, sqlstore.PostgreSQL(), nil)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotSent)
	l, err := s.Wait(t.Context(), request("k"), func() {})
	require.ErrorIs(t, err, driver.ErrNotSent)
	assert.False(t, l.Unanswered)
}

// TestAServerThatHangs checks that calls return with the cause of their ctx, and that their
// outcome is unknown.
func TestAServerThatHangs(t *testing.T) {
	server := postgres.Get(t)
	proxy, err := server.Proxy()
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	d := newDatabase(t, "pgx", proxy.DSN(), sqlstore.PostgreSQL(), "hangs")
	s := d.store(t, sqlstore.Options{Timeout: 200 * time.Millisecond})
	l := acquire(t, s, request("k"))
	proxy.Block()
	defer proxy.Unblock()

	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) }()
	cancel(gone)
	require.ErrorIs(t, <-done, gone)

	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	got, err := s.Wait(t.Context(), request("k"), func() {})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	if !errors.Is(err, driver.ErrNotSent) {
		assert.True(t, got.Unanswered)
	}
	proxy.Unblock()
	proxy.Cut()
}

// TestATombstoneIsSeenAfterWaitingForTheRow checks that a request that waits for the row of its
// key, and began before its owner was given up, takes nothing.
func TestATombstoneIsSeenAfterWaitingForTheRow(t *testing.T) {
	d := newPostgres(t)
	s := d.store(t, sqlstore.Options{})
	first := acquire(t, s, request("k"))
	require.NoError(t, s.Release(t.Context(), first))
	late := request("k")

	tx, err := d.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), s.expand("SELECT 1 FROM {locks} WHERE lock_key = ? FOR UPDATE"), []byte("k"))
	require.NoError(t, err)
	acquired := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), late)
		acquired <- err
	}()
	require.Eventually(t, func() bool { // its snapshot is older than the tombstone now
		return s.count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+d.table+"%'") > 0
	}, time.Minute, time.Millisecond)
	_, err = tx.ExecContext(t.Context(), s.expand("INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, {now} + 60000)"), []byte("k"), []byte(late.Owner))
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), s.expand("UPDATE {locks} SET refused_until = {now} + 60000 WHERE lock_key = ?"), []byte("k"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	err = <-acquired
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	require.NotErrorAs(t, err, new(*driver.HeldError))
	acquire(t, s, request("k"))
}

// TestASlowReleaseKeepsTheLockLongEnough delays a release after it has read the clock of the
// database. The time in between must not shorten the time for which the lock is kept.
func TestASlowReleaseKeepsTheLockLongEnough(t *testing.T) {
	d := newPostgres(t)
	s := d.store(t, sqlstore.Options{})
	l := acquire(t, s, request("k"))
	until := time.Now().Add(time.Hour)
	l.Unanswered, l.Attrs = true, &driver.Attrs{KeepUntil: until}

	tx, err := d.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), s.expand("LOCK TABLE {tombstones} IN EXCLUSIVE MODE"))
	require.NoError(t, err)
	released := make(chan error, 1)
	go func() { released <- s.Release(context.Background(), l) }()
	require.Eventually(t, func() bool {
		return s.count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+d.table+"%'") > 0
	}, time.Minute, time.Millisecond)
	waits := time.Now()
	require.Eventually(t, func() bool { return time.Since(waits) > 100*time.Millisecond }, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit())
	require.NoError(t, <-released)
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.False(t, time.Now().Add(info.FreeIn+2*time.Millisecond).Before(until), "it becomes free too early: %v", info.FreeIn)
}

// TestSynchronousCommit reads the setting in the transactions that change a lock, with a trigger.
func TestSynchronousCommit(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		d := newPostgres(t)
		s := d.store(t, sqlstore.Options{SynchronousCommit: "local", Pessimistic: pessimistic})
		s.exec(t, "CREATE TABLE "+d.table+"_seen (setting text)")
		s.exec(t, "CREATE FUNCTION "+d.table+"_see() RETURNS trigger AS 'BEGIN INSERT INTO "+d.table+
			"_seen VALUES (current_setting(''synchronous_commit'')); RETURN NEW; END' LANGUAGE plpgsql")
		for _, table := range []string{"{locks}", "{states}"} {
			s.exec(t, "CREATE TRIGGER see AFTER INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION "+d.table+"_see()")
		}
		seen := func(what string) {
			t.Helper()
			assert.Positive(t, s.exec(t, "DELETE FROM "+d.table+"_seen WHERE setting = 'local'"), "%s", what)
		}
		l := acquire(t, s, request("k"))
		seen("acquire")
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)))
		time.Sleep(2 * time.Millisecond) // GREATEST changes nothing within the same ms, but the row is written
		seen("renew")
		require.NoError(t, s.SetMetadata(t.Context(), l, "m"))
		seen("set metadata")
		require.NoError(t, s.Save(t.Context(), l, 1, nil, time.Hour))
		seen("save")
		require.NoError(t, s.Release(t.Context(), l))
		seen("release")
		other := acquire(t, s, request("k"))
		require.NoError(t, s.ReleaseAll(t.Context(), []driver.Lease{other}, make([]error, 1)))
		seen("release all")
		var setting string
		require.NoError(t, d.db.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&setting))
		assert.Equal(t, "on", setting, "the setting of the session is as it was")
	}
}

func TestSeveralProcessesCreateTheTables(t *testing.T) {
	d := newPostgres(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			assert.NoError(t, sqlstore.CreateSchema(t.Context(), d.db, sqlstore.PostgreSQL(), &sqlstore.Options{Table: d.table + "_more"}))
		})
	}
	wg.Wait()
}

func TestSweep(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, sqlstore.Options{KeepTokens: time.Hour})
		held, recent := acquire(t, s, request("held")), acquire(t, s, request("recent"))
		require.NoError(t, s.Release(t.Context(), recent))
		for i := range 3 {
			require.NoError(t, s.Release(t.Context(), acquire(t, s, request(fmt.Sprint("old", i)))))
		}
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: request("tomb"), Unanswered: true}), driver.ErrNotHeld)
		s.exec(t, "UPDATE {locks} SET expires = expires - 7200000 WHERE lock_key IN (?, ?, ?, ?)", []byte("old0"), []byte("old1"), []byte("old2"), []byte("tomb"))
		s.exec(t, "INSERT INTO {places} (lock_key, place, owner, expires, metadata, channel) VALUES (?, 1, ?, 1, NULL, '')", []byte("x"), []byte("dead"))
		s.exec(t, "INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, 1)", []byte("x"), []byte("dead"))

		n, err := s.Sweep(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, n)
		assert.Equal(t, 3, s.count(t, "SELECT count(*) FROM {locks}"), "held, recent, and the key with a tombstone")
		assert.Zero(t, s.count(t, "SELECT count(*) FROM {places}"))
		assert.Equal(t, 1, s.count(t, "SELECT count(*) FROM {tombstones}"))
		renews(t, s, held)
	})
}

// TestSweepOfManyRows needs several pages.
func TestSweepOfManyRows(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, sqlstore.Options{})
		tx, err := d.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for i := range 2*seam.PageSize + 1 {
			_, err := tx.ExecContext(t.Context(), s.expand(`INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
				VALUES (?, 0, {empty}, 1, 1, NULL, 0, 0)`), fmt.Appendf(nil, "%05d", i))
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		n, err := s.Sweep(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2*seam.PageSize+1, n)
	})
}

// TestTheClockOfTheDatabase checks that an instant of the database is one of this machine.
func TestTheClockOfTheDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, sqlstore.Options{})
		before := time.Now()
		l := acquire(t, s, request("k"))
		var expires int64
		require.NoError(t, d.db.QueryRowContext(t.Context(), s.expand("SELECT expires FROM {locks}")).Scan(&expires))
		assert.GreaterOrEqual(t, expires, before.Add(l.TTL).UnixMilli())
		assert.LessOrEqual(t, expires, time.Now().Add(l.TTL).UnixMilli())
		assert.InDelta(t, before.UnixMicro(), int64(l.Token), 60e6)
	})
}

// TestAWaitThatWasSentBefore cancels a Wait whose next request has no connection yet. The owner has
// a place in the queue, so the error must not say that nothing was sent.
func TestAWaitThatWasSentBefore(t *testing.T) {
	d := newSQLite(t)
	d.db.SetMaxOpenConns(1)
	s := d.store(t, sqlstore.Options{})
	held := acquire(t, s, request("k"))
	ctx, cancel := context.WithCancel(t.Context())
	queued := make(chan struct{})
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, request("k"), func() { close(queued) })
		waited <- err
	}()
	<-queued
	conn, err := d.db.Conn(t.Context()) // the only one
	require.NoError(t, err)
	before := d.db.Stats().WaitCount
	require.Eventually(t, func() bool { return d.db.Stats().WaitCount > before }, time.Minute, time.Millisecond)
	cancel()
	err = <-waited
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, driver.ErrNotSent)
	require.NoError(t, conn.Close())
	require.NoError(t, s.Release(t.Context(), held))
}
