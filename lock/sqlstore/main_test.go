package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock/driver"
)

var postgres = testsql.Shared[*testsql.Postgres]{Launch: func() (*testsql.Postgres, error) { return testsql.LaunchPostgres() }}

// bouncer is a PgBouncer in transaction mode before the shared server.
var bouncer = testsql.Shared[*testsql.Bouncer]{Launch: func() (*testsql.Bouncer, error) {
	server, err := postgres.Try()
	if err != nil {
		return nil, err
	}
	return testsql.LaunchBouncer(server)
}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(testsql.Around(m, &bouncer, &postgres, &mariaDB)) }

// database is a database with the tables of one test.
type database struct {
	db      *sql.DB
	dialect Dialect
	table   string
}

// newPostgres returns tables of their own on the shared server.
func newPostgres(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "pgx", postgres.Get(t).DSN(params...), PostgreSQL(), "t"+strings.ToLower(rand.Text()))
}

// newBouncer returns tables of their own on the shared server, by way of the PgBouncer.
func newBouncer(t testing.TB, params ...string) *database {
	t.Helper()
	return newDatabase(t, "pgx", bouncer.Get(t).DSN(params...), PostgreSQL(), "t"+strings.ToLower(rand.Text()))
}

// newSQLite returns a file of its own.
func newSQLite(t testing.TB) *database {
	t.Helper()
	return newDatabase(t, "sqlite", sqliteDSN(t), SQLite(), "")
}

// sqliteDSN returns the name of a new file of its own.
func sqliteDSN(t testing.TB) string {
	return "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
}

func newDatabase(t testing.TB, name, dsn string, d Dialect, table string) *database {
	t.Helper()
	db, err := sql.Open(name, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	require.NoError(t, CreateSchema(t.Context(), db, d, &Options{Table: table}))
	return &database{db, d, table}
}

// store returns a store on the database, which the end of the test closes. Waiters poll often,
// so that tests do not take long.
func (d *database) store(t testing.TB, o Options) *Store {
	t.Helper()
	o.Table = d.table
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second // of a busy machine
	}
	if o.PollInterval == 0 {
		o.PollInterval = 5 * time.Millisecond
	}
	s, err := New(d.db, d.dialect, &o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// exec runs a statement on the tables of a store. Names in braces stand for tables.
func (s *Store) exec(t testing.TB, text string, args ...any) int64 {
	t.Helper()
	result, err := s.db.ExecContext(context.Background(), s.expand(text), args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

// count returns the number that a statement selects.
func (s *Store) count(t testing.TB, text string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, s.db.QueryRowContext(context.Background(), s.expand(text), args...).Scan(&n))
	return n
}

func (s *Store) expand(text string) string {
	return numbered(s.dialect, replacer(s.dialect, s.options).Replace(text))
}

// request returns a request for a key by a new owner.
func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: fmt.Sprintf("%s:%s", rand.Text(), rand.Text()[:20]), TTL: time.Minute}
}
