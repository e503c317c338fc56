package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func acquire(t testing.TB, s *Store, r driver.Request) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	l.Request = r
	return l
}

// onBoth runs a test on PostgreSQL and on SQLite.
func onBoth(t *testing.T, f func(t *testing.T, d *database)) {
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); f(t, newPostgres(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); f(t, newSQLite(t)) })
}

func TestBadOptionsAreRefused(t *testing.T) {
	db, err := sql.Open("sqlite", "file:unused")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	for _, c := range []struct {
		dialect Dialect
		options Options
		names   string
	}{
		{Dialect{}, Options{}, "Dialect"},
		{SQLite(), Options{Table: "a; DROP TABLE users"}, "Options.Table"},
		{SQLite(), Options{Table: "Upper"}, "Options.Table"},
		{SQLite(), Options{Table: "app.locks"}, "Options.Table"},
		{PostgreSQL(), Options{Table: strings.Repeat("x", 41)}, "Options.Table"},
		{PostgreSQL(), Options{SynchronousCommit: "off"}, "Options.SynchronousCommit"},
		{SQLite(), Options{SynchronousCommit: "on"}, "Options.SynchronousCommit"},
		{SQLite(), Options{Timeout: -1}, "Options.Timeout"},
		{SQLite(), Options{PollInterval: 1}, "Options.PollInterval"},
		{SQLite(), Options{KeepTokens: time.Second}, "Options.KeepTokens"},
	} {
		_, err := New(db, c.dialect, &c.options)
		require.ErrorContains(t, err, c.names)
		_, err = Schema(c.dialect, &c.options)
		require.ErrorContains(t, err, c.names)
	}
	_, err = New(nil, SQLite(), nil)
	require.ErrorContains(t, err, "*sql.DB")
}

func TestBadRequestsAreRefused(t *testing.T) {
	s := newSQLite(t).store(t, Options{})
	for _, c := range []struct {
		change func(r *driver.Request)
		want   string
	}{
		{func(r *driver.Request) { r.Key = "" }, "bad key"},
		{func(r *driver.Request) { r.Key = strings.Repeat("k", driver.MaxKeyLen+1) }, "bad key"},
		{func(r *driver.Request) { r.TTL = 0 }, "bad TTL"},
		{func(r *driver.Request) { r.TTL = driver.MaxTTL + 1 }, "bad TTL"},
		{func(r *driver.Request) { r.Owner = "" }, "owner"},
		{func(r *driver.Request) { r.Owner = keptOwner }, "owner"},
		{func(r *driver.Request) { r.Attrs = &driver.Attrs{Metadata: strings.Repeat("m", 1025)} }, "metadata"},
	} {
		r := request("k")
		c.change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, c.want)
		_, err = s.Wait(t.Context(), r)
		require.ErrorContains(t, err, c.want)
		_, err = s.Import(driver.Lease{Request: r, Token: 1}, nil)
		require.ErrorContains(t, err, c.want)
	}
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: driver.Request{Key: "k"}}), driver.ErrNotHeld)
}

// TestAKeptLockHasNoOwner checks that nobody can renew or release a kept lock by its owner.
func TestAKeptLockHasNoOwner(t *testing.T) {
	s := newSQLite(t).store(t, Options{})
	l := acquire(t, s, request("k"))
	l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Hour)}
	require.NoError(t, s.Release(t.Context(), l))
	for _, owner := range []string{"", keptOwner} {
		l.Owner, l.Attrs = owner, nil
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
		require.ErrorIs(t, s.SetMetadata(t.Context(), l, "m"), driver.ErrNotHeld)
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
		assert.Equal(t, renewal.Lost, out[0])
	}
}

func TestAClosedStore(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, Options{})
		l := acquire(t, s, request("k"))
		waited := make(chan error, 1)
		go func() {
			_, err := s.Wait(context.Background(), request("k"))
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
	s, err := New(db, PostgreSQL(), nil)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotSent)
	l, err := s.Wait(t.Context(), request("k"))
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
	d := newDatabase(t, "pgx", proxy.DSN(), PostgreSQL(), "hangs")
	s := d.store(t, Options{Timeout: 200 * time.Millisecond})
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
	got, err := s.Wait(t.Context(), request("k"))
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
	s := d.store(t, Options{})
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
	k := &lockedKey{store: s, tx: standardTx{tx}, key: "k"}
	require.NoError(t, k.lock(t.Context()))
	require.NoError(t, k.giveUp(t.Context(), late.Owner))
	require.NoError(t, k.save(t.Context()))
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
	s := d.store(t, Options{})
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
		s := d.store(t, Options{SynchronousCommit: "local", Pessimistic: pessimistic})
		s.exec(t, "CREATE TABLE "+d.table+"_seen (setting text)")
		s.exec(t, "CREATE FUNCTION "+d.table+"_see() RETURNS trigger AS 'BEGIN INSERT INTO "+d.table+
			"_seen VALUES (current_setting(''synchronous_commit'')); RETURN NEW; END' LANGUAGE plpgsql")
		s.exec(t, "CREATE TRIGGER see AFTER INSERT OR UPDATE ON {locks} FOR EACH ROW EXECUTE FUNCTION "+d.table+"_see()")
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

func TestATableInASchema(t *testing.T) {
	d := newPostgres(t)
	_, err := d.db.ExecContext(t.Context(), "CREATE SCHEMA app_"+d.table)
	require.NoError(t, err)
	in := newDatabase(t, "pgx", postgres.Get(t).DSN(), PostgreSQL(), "app_"+d.table+".jobs")
	s := in.store(t, Options{})
	l := acquire(t, s, request("k"))
	require.NoError(t, s.Release(t.Context(), l))
	assert.Equal(t, 1, s.count(t, "SELECT count(*) FROM app_"+d.table+".jobs_locks"))
}

func TestSeveralProcessesCreateTheTables(t *testing.T) {
	d := newPostgres(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			assert.NoError(t, CreateSchema(t.Context(), d.db, PostgreSQL(), &Options{Table: d.table + "_more"}))
		})
	}
	wg.Wait()
}

func TestSweep(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, Options{KeepTokens: time.Hour})
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
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{held}, out))
		assert.Equal(t, renewal.Renewed, out[0])
	})
}

// TestSweepOfManyRows needs several pages.
func TestSweepOfManyRows(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, Options{})
		tx, err := d.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for i := range 2*pageSize + 1 {
			_, err := tx.ExecContext(t.Context(), s.expand(`INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
				VALUES (?, 0, {empty}, 1, 1, NULL, 0, 0)`), fmt.Appendf(nil, "%05d", i))
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		n, err := s.Sweep(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2*pageSize+1, n)
	})
}

// TestTheClockOfTheDatabase checks that an instant of the database is one of this machine.
func TestTheClockOfTheDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, Options{})
		before := time.Now()
		l := acquire(t, s, request("k"))
		var expires int64
		require.NoError(t, d.db.QueryRowContext(t.Context(), s.expand("SELECT expires FROM {locks}")).Scan(&expires))
		assert.GreaterOrEqual(t, expires, before.Add(l.TTL).UnixMilli())
		assert.LessOrEqual(t, expires, time.Now().Add(l.TTL).UnixMilli())
		assert.InDelta(t, before.UnixMicro(), int64(l.Token), 60e6)
	})
}

// deafConnector is a driver that does not notice the end of a ctx.
type deafConnector struct{ blocked chan struct{} }

func (c deafConnector) Connect(context.Context) (sqldriver.Conn, error) {
	<-c.blocked
	return nil, errors.New("refused")
}

func (deafConnector) Driver() sqldriver.Driver { return nil }

// TestADriverThatIgnoresContexts checks that calls return all the same, and send nothing later.
func TestADriverThatIgnoresContexts(t *testing.T) {
	c := deafConnector{make(chan struct{})}
	db := sql.OpenDB(c)
	defer func() { _ = db.Close() }()
	s, err := New(db, PostgreSQL(), nil)
	require.NoError(t, err)
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, request("k"))
		done <- err
	}()
	cancel(gone)
	err = <-done
	require.ErrorIs(t, err, gone)
	if !errors.Is(err, driver.ErrNotSent) {
		require.NotErrorIs(t, err, driver.ErrUnavailable, "the ctx ended before the call began")
	}

	s.options.Timeout = time.Millisecond
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotSent)
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	require.ErrorIs(t, s.Shutdown(ended), gone, "the driver has not returned")
	close(c.blocked)
	require.NoError(t, s.Close())
}

// lateContext has a deadline that has passed, and ends later.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// dialTimeout is a driver whose dials end by their deadline.
type dialTimeout struct{ dialled func() }

func (d dialTimeout) Connect(context.Context) (sqldriver.Conn, error) {
	d.dialled()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

func (dialTimeout) Driver() sqldriver.Driver { return nil }

// TestADialThatEndsByTheDeadline returns the cause of the ctx, even if the dial ends before the ctx.
func TestADialThatEndsByTheDeadline(t *testing.T) {
	gone := errors.New("the caller is gone")
	for name, f := range map[string]func(s *Store, ctx context.Context) error{
		"Acquire": func(s *Store, ctx context.Context) error { _, err := s.Acquire(ctx, request("k")); return err },
		"Wait":    func(s *Store, ctx context.Context) error { _, err := s.Wait(ctx, request("k")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				db := sql.OpenDB(dialTimeout{func() { time.AfterFunc(time.Millisecond, func() { cancel(gone) }) }})
				defer func() { _ = db.Close() }()
				s, err := New(db, PostgreSQL(), nil)
				require.NoError(t, err)
				defer func() { require.NoError(t, s.Close()) }()
				require.ErrorIs(t, f(s, lateContext{ctx}), gone)
			})
		})
	}
}

// TestAWaitThatWasSentBefore cancels a Wait whose next request has no connection yet. The owner has
// a place in the queue, so the error must not say that nothing was sent.
func TestAWaitThatWasSentBefore(t *testing.T) {
	d := newSQLite(t)
	d.db.SetMaxOpenConns(1)
	s := d.store(t, Options{})
	held := acquire(t, s, request("k"))
	ctx, cancel := context.WithCancel(t.Context())
	queued := make(chan struct{})
	waiting := context.WithValue(ctx, basic.QueuedKey{}, func() { close(queued) })
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(waiting, request("k"))
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
