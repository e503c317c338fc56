package check

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// guardEngine is a database with the tables of the store.
type guardEngine struct {
	dialect     sqlstore.Dialect
	driver, dsn string
	db          *sql.DB
	table       string
}

var guardTables atomic.Int64

// onEachGuardEngine runs f on each database, with tables of its own.
func onEachGuardEngine(t *testing.T, f func(t *testing.T, e guardEngine)) {
	for _, name := range []string{"PostgreSQL", "PgBouncer", "MySQL", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			e := guardEngine{dialect: dialectOf(name), table: fmt.Sprintf("guard%d", guardTables.Add(1))}
			switch name {
			case "PostgreSQL":
				e.driver, e.dsn = "pgx", postgres.Get(t).DSN()
			case "PgBouncer":
				e.driver, e.dsn = "pgx", bouncer.Get(t).DSN("default_query_exec_mode=exec")
			case "MySQL":
				e.driver, e.dsn = "mysql", mariaDB.Get(t).DSN()
			case "SQLite":
				e.driver, e.dsn = "sqlite", "file:"+filepath.Join(t.TempDir(), "locks.db")+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(100)&_pragma=synchronous(off)"
			}
			var err error
			e.db, err = sql.Open(e.driver, e.dsn)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, e.db.Close()) })
			require.NoError(t, sqlstore.CreateSchema(t.Context(), e.db, e.dialect, e.options(false)))
			f(t, e)
		})
	}
}

func dialectOf(name string) sqlstore.Dialect {
	switch name {
	case "PostgreSQL", "PgBouncer":
		return sqlstore.PostgreSQL()
	case "MySQL":
		return sqlstore.MySQL()
	}
	return sqlstore.SQLite()
}

func (e guardEngine) isSQLite() bool { return e.driver == "sqlite" }

func (e guardEngine) options(pessimistic bool) *sqlstore.Options {
	o := &sqlstore.Options{Table: e.table, Pessimistic: pessimistic, PollInterval: 10 * time.Millisecond}
	if e.isSQLite() {
		o.Timeout = 300 * time.Millisecond // of a call that waits for the only writer
	}
	return o
}

// store returns a new store, as another process has one.
func (e guardEngine) store(t *testing.T, pessimistic bool) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(e.db, dialectOf(e.dialect.String()), e.options(pessimistic))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// client returns a client with a store of its own.
func (e guardEngine) client(t *testing.T, ttl time.Duration) *lock.Client {
	t.Helper()
	c, err := lock.New(e.store(t, false), &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // leases may be lost
	return c
}

func (e guardEngine) exec(t *testing.T, text string) {
	t.Helper()
	_, err := e.db.ExecContext(t.Context(), text)
	require.NoError(t, err, text)
}

// isTransient reports whether an error says that no answer came in time, which a slow machine causes
// with the short leases of these tests, or that SQLite has another writer.
func (e guardEngine) isTransient(err error) bool {
	if errors.Is(err, lock.ErrUnavailable) {
		return true
	}
	var code interface{ Code() int }
	return e.isSQLite() && errors.As(err, &code) && code.Code()&0xff == 5
}

// untilLeaseEnds waits until a lock has no holder by the clock of the database.
func (e guardEngine) untilLeaseEnds(t *testing.T, client *lock.Client, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := client.Inspect(t.Context(), key)
		return err == nil && info.Held == 0
	}, time.Minute, time.Millisecond)
}
