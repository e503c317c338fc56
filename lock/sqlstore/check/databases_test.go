package check

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
)

var postgres = testprocess.Shared[*testsql.Postgres]{Launch: func() (*testsql.Postgres, error) { return testsql.LaunchPostgres() }}

// bouncer is a PgBouncer in transaction mode before the shared server.
var bouncer = testprocess.Shared[*testsql.Bouncer]{Launch: func() (*testsql.Bouncer, error) {
	server, err := postgres.Try()
	if err != nil {
		return nil, err
	}
	return testsql.LaunchBouncer(server)
}}

// database is a database with the tables of one test.
type database struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	table   string
}

// newPostgres returns tables of their own on the shared server.
func newPostgres(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "pgx", postgres.Get(t).DSN(params...), sqlstore.PostgreSQL(), "t"+strings.ToLower(rand.Text()))
}

// newBouncer returns tables of their own on the shared server, by way of the PgBouncer.
func newBouncer(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "pgx", bouncer.Get(t).DSN(params...), sqlstore.PostgreSQL(), "t"+strings.ToLower(rand.Text()))
}

// newSQLite returns a file of its own.
func newSQLite(t testing.TB) *database {
	t.Helper()
	return newDatabase(t, "sqlite", sqliteDSN(t), sqlstore.SQLite(), "")
}

// sqliteDSN returns the name of a new file of its own.
func sqliteDSN(t testing.TB) string {
	return "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
}

func newDatabase(t testing.TB, name, dsn string, d sqlstore.Dialect, table string) *database {
	t.Helper()
	db, err := sql.Open(name, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	require.NoError(t, sqlstore.CreateSchema(t.Context(), db, d, &sqlstore.Options{Table: table}))
	return &database{db, d, table}
}

// asUser returns the database as a user has it who has only the rights that the package documents.
func (d *database) asUser(t testing.TB) *database {
	t.Helper()
	name, driverName, dsn := "u"+d.table, "pgx", ""
	statements := []string{"CREATE ROLE " + name + " LOGIN"}
	tables := []string{"locks", "places", "tombstones", "states"}
	if d.dialect.String() == "MySQL" {
		driverName, dsn = "mysql", strings.Replace(mariaDB.Get(t).DSN(), "root@", name+"@", 1)
		name += "@localhost"
		statements = []string{"CREATE USER " + name}
		tables = append(tables, "grants")
	} else {
		dsn = strings.Replace(postgres.Get(t).DSN(), "postgres@", name+"@", 1)
	}
	for _, table := range tables {
		statements = append(statements, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+d.table+"_"+table+" TO "+name)
	}
	for _, text := range statements {
		_, err := d.db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	db, err := sql.Open(driverName, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	return &database{db, d.dialect, d.table}
}

// store returns a store on the database, which the end of the test closes. Waiters poll often,
// so that tests do not take long.
func (d *database) store(t testing.TB, o sqlstore.Options) *testedStore {
	t.Helper()
	o.Table = d.table
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second // of a busy machine
	}
	if o.PollInterval == 0 {
		o.PollInterval = 5 * time.Millisecond
	}
	s, err := sqlstore.New(d.db, d.dialect, &o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return &testedStore{s, d}
}

// testedStore is a store, and the database on which it is.
type testedStore struct {
	*sqlstore.Store
	of *database
}

// exec runs a statement on the tables of a store; see expand.
func (s *testedStore) exec(t testing.TB, text string, args ...any) int64 {
	t.Helper()
	result, err := s.of.db.ExecContext(context.Background(), s.expand(text), args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

// count returns the number that a statement selects.
func (s *testedStore) count(t testing.TB, text string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, s.of.db.QueryRowContext(context.Background(), s.expand(text), args...).Scan(&n))
	return n
}

// expand returns a statement. In the text, names in braces stand for tables and for expressions.
func (s *testedStore) expand(text string) string { return seam.Expand(s.Store, text) }

// keptOwner is the owner of a lock that was released and is kept taken by nobody.
const keptOwner = "\x00"

// request returns a request for a key by a new owner.
func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: fmt.Sprintf("%s:%s", rand.Text(), rand.Text()[:20]), TTL: time.Minute}
}
