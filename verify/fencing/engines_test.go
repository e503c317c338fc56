package fencing

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock/fence"
)

var (
	postgres = testprocess.Shared[*testsql.Postgres]{Launch: func() (*testsql.Postgres, error) { return testsql.LaunchPostgres() }}
	mariadb  = testprocess.Shared[*testsql.MariaDB]{Launch: func() (*testsql.MariaDB, error) { return testsql.LaunchMariaDB() }}
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testprocess.Around(m, &postgres, &mariadb)) }

// engine is a database with the tables of the tests.
type engine struct {
	*sql.DB
	dialect fence.Dialect
}

// onEachEngine runs f on each engine that is there.
func onEachEngine(t *testing.T, f func(t *testing.T, e engine)) {
	for dialect, start := range map[fence.Dialect]func(*testing.T) *sql.DB{
		fence.SQLite:     openSQLite,
		fence.PostgreSQL: openPostgreSQL,
		fence.MySQL:      openMySQL,
	} {
		t.Run(string(dialect), func(t *testing.T) {
			e := engine{start(t), dialect}
			t.Cleanup(func() { require.NoError(t, e.Close()) })
			e.create(t)
			f(t, e)
		})
	}
}

// create creates the tables: reports has the tokens of its writers in the order of their
// writes, and stock has a column for the token.
func (e engine) create(t *testing.T) {
	id := map[fence.Dialect]string{
		fence.SQLite:     "INTEGER PRIMARY KEY AUTOINCREMENT",
		fence.PostgreSQL: "BIGSERIAL PRIMARY KEY",
		fence.MySQL:      "BIGINT PRIMARY KEY AUTO_INCREMENT",
	}[e.dialect]
	for _, statement := range []string{
		"DROP TABLE IF EXISTS fencing_tokens", "DROP TABLE IF EXISTS reports", "DROP TABLE IF EXISTS stock",
		e.dialect.CreateTable(), e.dialect.CreateTable(),
		"CREATE TABLE reports (id " + id + ", token BIGINT NOT NULL)",
		"CREATE TABLE stock (id VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL, fence BIGINT NOT NULL)",
		"INSERT INTO stock VALUES ('apples', 1, 0)",
	} {
		_, err := e.Exec(statement)
		require.NoError(t, err, statement)
	}
}

// query writes the parameters as the dialect does.
func (e engine) query(text string) string {
	if e.dialect != fence.PostgreSQL {
		return text
	}
	for n := 1; strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
	}
	return text
}

// insert is a func of fence.Tx that inserts a row into reports.
func (e engine) insert(token uint64) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(e.query("INSERT INTO reports (token) VALUES (?)"), token)
		return err
	}
}

// reports returns the tokens of the rows in the order of their writes.
func (e engine) reports(t *testing.T) []uint64 {
	rows, err := e.Query("SELECT token FROM reports ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	var tokens []uint64
	for rows.Next() {
		var token uint64
		require.NoError(t, rows.Scan(&token))
		tokens = append(tokens, token)
	}
	require.NoError(t, rows.Err())
	return tokens
}

func openSQLite(t *testing.T) *sql.DB {
	return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
}
func openPostgreSQL(t *testing.T) *sql.DB { return open(t, "pgx", postgres.Get(t).DSN()) }
func openMySQL(t *testing.T) *sql.DB      { return open(t, "mysql", mariadb.Get(t).DSN()) }

func open(t *testing.T, driver, name string) *sql.DB {
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	return db
}

// Replicas of a program start together, and each creates the table.
func TestTheTableIsCreatedByManyAtOnce(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		for range 20 {
			_, err := e.Exec("DROP TABLE fencing_tokens")
			require.NoError(t, err)
			errs := make(chan error, 4)
			for range 4 {
				go func() {
					_, err := e.Exec(e.dialect.CreateTable())
					errs <- err
				}()
			}
			for range 4 {
				require.NoError(t, <-errs)
			}
		}
	})
}
