package check

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
)

// TestATableInASchema uses a schema whose name is a word of SQL.
func TestATableInASchema(t *testing.T) {
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		quoted := `"order"`
		if d.dialect.String() == "MySQL" {
			quoted = "`order`"
		}
		_, err := d.db.ExecContext(t.Context(), "CREATE SCHEMA IF NOT EXISTS "+quoted)
		require.NoError(t, err)
		in := &database{d.db, d.dialect, "order." + d.table}
		require.NoError(t, sqlstore.CreateSchema(t.Context(), in.db, in.dialect, &sqlstore.Options{Table: in.table}))
		s := in.store(t, sqlstore.Options{})
		l := acquire(t, s, request("k"))
		require.NoError(t, s.Save(t.Context(), l, 1, nil, time.Hour))
		require.NoError(t, s.Save(t.Context(), l, 2, nil, time.Hour))
		waited := make(chan error, 1)
		go func() {
			_, err := s.Wait(t.Context(), request("k"), func() {})
			waited <- err
		}()
		require.Eventually(t, func() bool {
			info, err := s.Inspect(t.Context(), "k")
			return err == nil && info.Waiting == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, s.Release(t.Context(), l))
		require.NoError(t, <-waited)
		assert.Equal(t, 1, s.count(t, "SELECT count(*) FROM "+quoted+"."+d.table+"_locks"))
	})
}

// TestAMissingRightIsTold takes one right on the table of waiters away from a user at a time.
func TestAMissingRightIsTold(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		s := d.asUser(t).store(t, sqlstore.Options{})
		name := "u" + d.table
		if d.dialect.String() == "MySQL" {
			name += "@localhost"
		}
		change := func(text string) {
			_, err := d.db.ExecContext(t.Context(), text+" "+name)
			require.NoError(t, err)
		}
		for i, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			change("REVOKE " + right + " ON " + d.table + "_places FROM")
			l := acquire(t, s, request(fmt.Sprint(i)))
			err := errors.Join(seam.Enter(t.Context(), s.Store, request(l.Key)), s.Release(t.Context(), l))
			require.ErrorContains(t, err, "the user needs SELECT, INSERT, UPDATE and DELETE on the tables ", right)
			require.ErrorContains(t, err, "."+d.table+"_*: ", right)
			require.ErrorContains(t, err, d.table+"_places", "the error of the server")
			change("GRANT " + right + " ON " + d.table + "_places TO")
		}
		require.NoError(t, s.ForceRelease(t.Context(), "3"))
	})
}

// TestMissingTablesAreTold drops one table, and checks that each error says what to do.
func TestMissingTablesAreTold(t *testing.T) {
	test := func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		acquire(t, s, request("k"))
		s.exec(t, "DROP TABLE {places}")
		_, err := s.Wait(t.Context(), request("k"), func() {})
		require.ErrorContains(t, err, "CreateSchema creates them")
		s.exec(t, "DROP TABLE {locks}")
		_, err = s.Acquire(t.Context(), request("k"))
		require.ErrorContains(t, err, "CreateSchema creates them")
	}
	onEachServer(t, test)
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t, newSQLite(t), "") })
}

// TestNoLockIsGrantedBeforeAllTablesExist makes the creation of each table the last one.
func TestNoLockIsGrantedBeforeAllTablesExist(t *testing.T) {
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		statements, err := sqlstore.Schema(d.dialect, &sqlstore.Options{Table: d.table + "_part"})
		require.NoError(t, err)
		s := (&database{d.db, d.dialect, d.table + "_part"}).store(t, sqlstore.Options{})
		for _, text := range statements {
			_, err := s.Acquire(t.Context(), request("k"))
			require.ErrorContains(t, err, "CreateSchema creates them")
			_, err = d.db.ExecContext(t.Context(), text)
			require.NoError(t, err)
		}
		acquire(t, s, request("k"))
	})
}

// TestPoolsThatBreakLocksAreRefused covers one connection, and databases in memory.
func TestPoolsThatBreakLocksAreRefused(t *testing.T) {
	for name, c := range map[string]sqlstore.Dialect{"pgx": sqlstore.PostgreSQL(), "mysql": sqlstore.MySQL()} {
		db, err := sql.Open(name, "")
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		_, err = sqlstore.New(db, c, nil)
		require.ErrorContains(t, err, "SetMaxOpenConns")
		require.NoError(t, db.Close())
	}
	for dsn, conns := range map[string]int{":memory:": 1, "file::memory:?cache=shared": 2} {
		db, err := sql.Open("sqlite", dsn)
		require.NoError(t, err)
		db.SetMaxOpenConns(conns)
		require.NoError(t, sqlstore.CreateSchema(t.Context(), db, sqlstore.SQLite(), nil))
		s, err := sqlstore.New(db, sqlstore.SQLite(), nil)
		require.NoError(t, err)
		acquire(t, s, request("k"))
		require.NoError(t, s.Close())
		require.NoError(t, db.Close())
	}
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.ErrorContains(t, sqlstore.CreateSchema(t.Context(), db, sqlstore.SQLite(), nil), "SetMaxOpenConns")
}

// TestADeadWaiterAfterAStepBackOfTheClock makes the places of dead waiters last an hour longer than places
// do. A release, and a request for a lock that has ended, hand the lock over for a short time only.
func TestADeadWaiterAfterAStepBackOfTheClock(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		s := d.store(t, sqlstore.Options{})
		l := acquire(t, s, request("k"))
		for i := range 2 {
			require.NoError(t, seam.Enter(t.Context(), s.Store, driver.Request{Key: "k", Owner: fmt.Sprintf("dead:%d", i), TTL: time.Minute}))
		}
		s.exec(t, "UPDATE {places} SET expires = expires + 3600000")
		s.exec(t, "UPDATE {locks} SET queued_until = queued_until + 3600000")
		require.NoError(t, s.Release(t.Context(), l))
		isShort := func() {
			info, err := s.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, 1, info.Held)
			assert.LessOrEqual(t, info.Holders[0].ExpiresIn, 10*time.Second, "the length of a place")
		}
		isShort()
		s.exec(t, "UPDATE {locks} SET expires = 1")
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		isShort()
	})
}
