package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/fence"
)

var dialects = []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite}

// insertReport is a func of Tx.
func insertReport(tx *sql.Tx) error {
	_, err := tx.Exec("INSERT INTO reports (day) VALUES (?)", "Monday")
	return err
}

func TestTxRejectsStaleTokens(t *testing.T) {
	for _, d := range dialects {
		fake := newFake()
		db := open(fake)
		run := func(token uint64) error {
			fake.log = nil
			return fence.Tx(t.Context(), db, d, "reports", token, insertReport)
		}
		require.NoError(t, run(7))
		require.Len(t, fake.log, 5)
		assert.Equal(t, "begin", fake.log[0])
		assert.Contains(t, fake.log[3], "INSERT INTO reports")
		assert.Equal(t, "commit", fake.log[4])
		require.NoError(t, run(7), "the same holder again")

		err := run(6)
		require.ErrorIs(t, err, fence.ErrStale)
		assert.Equal(t, &fence.StaleError{Resource: "reports", Token: 6, Highest: 7}, err)
		assert.Equal(t, "rollback", fake.log[len(fake.log)-1])
		assert.Len(t, fake.data.reports, 2)

		require.NoError(t, run(math.MaxInt64))
		assert.Equal(t, map[string]int64{"reports": math.MaxInt64}, fake.data.tokens)
		require.NoError(t, db.Close())
	}
}

// Each dialect has its own parameters, its own name of the function that returns the
// greatest value, and its own way to read the latest row.
func TestTheStatementsOfADialect(t *testing.T) {
	for d, want := range map[fence.Dialect][]string{
		fence.PostgreSQL: {"$1, $2", "ON CONFLICT (resource) DO UPDATE", "GREATEST(", "WHERE resource = $1"},
		fence.MySQL:      {"?, ?", "ON DUPLICATE KEY UPDATE", "GREATEST(", "WHERE resource = ? FOR UPDATE"},
		fence.SQLite:     {"?, ?", "ON CONFLICT (resource) DO UPDATE", "MAX(", "WHERE resource = ?"},
	} {
		fake := newFake()
		db := open(fake)
		require.NoError(t, fence.Tx(t.Context(), db, d, "r", 1, insertReport))
		sent := strings.Join(fake.log[1:3], "\n")
		for _, part := range want {
			assert.Contains(t, sent, part, d)
		}
		assert.Equal(t, d == fence.MySQL, strings.Contains(sent, "FOR UPDATE"))
		assert.Contains(t, d.CreateTable(), "CREATE TABLE IF NOT EXISTS fencing_tokens")
		assert.Contains(t, d.CreateTable(), "token BIGINT NOT NULL")
		require.NoError(t, db.Close())
	}
	assert.Empty(t, fence.Dialect("oracle").CreateTable())
}

func TestTxRollsBackIfTheFuncFails(t *testing.T) {
	fake := newFake()
	db := open(fake)
	defer db.Close()
	errJob := errors.New("the job failed")
	err := fence.Tx(t.Context(), db, fence.SQLite, "r", 7, func(tx *sql.Tx) error {
		require.NoError(t, insertReport(tx))
		return errJob
	})
	assert.Equal(t, errJob, err)
	assert.Equal(t, "rollback", fake.log[len(fake.log)-1])
	assert.PanicsWithValue(t, "oops", func() {
		_ = fence.Tx(t.Context(), db, fence.SQLite, "r", 8, func(*sql.Tx) error { panic("oops") })
	})
	assert.Equal(t, "rollback", fake.log[len(fake.log)-1])
	assert.Empty(t, fake.data.reports)
	assert.Empty(t, fake.data.tokens, "the token is part of the transaction")
}

func TestTxReturnsTheErrorsOfTheDatabase(t *testing.T) {
	errDown := errors.New("the database is down")
	for statement, text := range map[string]string{
		"begin":  `fence: begin the transaction for "r"`,
		"INSERT": `fence: store the token of "r"`,
		"SELECT": `fence: read the stored token of "r"`,
		"commit": `fence: commit the transaction for "r"`,
	} {
		fake := newFake()
		fake.fail = map[string]error{statement: errDown}
		db := open(fake)
		err := fence.Tx(t.Context(), db, fence.PostgreSQL, "r", 7, func(*sql.Tx) error { return nil })
		require.ErrorIs(t, err, errDown)
		require.NotErrorIs(t, err, fence.ErrStale)
		require.ErrorContains(t, err, text)
		require.NoError(t, db.Close())
	}
}

func TestTxRefusesBadArguments(t *testing.T) {
	db := openFake()
	defer db.Close()
	f := func(*sql.Tx) error {
		assert.Fail(t, "called")
		return nil
	}
	require.ErrorIs(t, fence.Tx(t.Context(), db, fence.SQLite, "r", 0, f), fence.ErrNoToken)
	require.ErrorContains(t, fence.Tx(t.Context(), db, fence.SQLite, "r", math.MaxInt64+1, f), "does not fit into a BIGINT")
	require.ErrorContains(t, fence.Tx(t.Context(), db, "oracle", "r", 1, f), `unknown dialect "oracle"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fence.Tx(ctx, db, fence.SQLite, "r", 1, f), context.Canceled)
}

// The errors of package database/sql do not have the cause of a context that has ended.
func TestTheCauseOfTheContextIsPartOfTheError(t *testing.T) {
	db := openFake()
	defer db.Close()
	errLost := errors.New("the lock was lost")
	lose := func(t *testing.T) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return ctx, func() { cancel(errLost) }
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := lose(t)
		cancel()
		err := fence.Tx(ctx, db, fence.SQLite, "r", 1, insertReport)
		require.ErrorIs(t, err, errLost)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("within", func(t *testing.T) {
		ctx, cancel := lose(t)
		err := fence.Tx(ctx, db, fence.SQLite, "r", 1, func(*sql.Tx) error {
			cancel()
			return nil
		})
		require.ErrorIs(t, err, errLost)
		require.ErrorContains(t, err, `commit the transaction for "r"`)
	})
	t.Run("CheckTx", func(t *testing.T) {
		ctx, cancel := lose(t)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		cancel()
		require.ErrorIs(t, fence.CheckTx(ctx, tx, fence.SQLite, "r", 1), errLost)
	})
	t.Run("named already", func(t *testing.T) {
		ctx, cancel := lose(t)
		err := fence.Tx(ctx, db, fence.SQLite, "r", 1, func(*sql.Tx) error {
			cancel()
			return errLost
		})
		assert.Equal(t, errLost, err)
	})
}

func TestCheckResult(t *testing.T) {
	fake := newFake()
	fake.data.stock["apples"] = 7
	db := open(fake)
	defer db.Close()
	var none driver.RowsAffected
	check := func(id string, token uint64, r sql.Result, err error) error {
		return fence.CheckResult(id, token, r, err, func() *sql.Row {
			return db.QueryRowContext(t.Context(), "SELECT fence FROM stock WHERE id = ?", id)
		})
	}
	errIO := errors.New("gone")
	require.NoError(t, check("apples", 7, driver.RowsAffected(1), nil))
	require.ErrorIs(t, check("apples", 7, nil, errIO), errIO)
	require.ErrorIs(t, check("apples", 0, driver.RowsAffected(1), nil), fence.ErrNoToken)
	require.ErrorContains(t, check("apples", 7, driver.ResultNoRows, nil), "count written rows")
	assert.Empty(t, fake.log, "the stored token is read only if no row was written")

	err := check("apples", 6, none, nil)
	assert.Equal(t, &fence.StaleError{Resource: "apples", Token: 6, Highest: 7}, err)

	err = check("pears", 6, none, nil)
	require.ErrorIs(t, err, sql.ErrNoRows)
	require.NotErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, `no row of "pears"`)

	err = check("apples", 7, none, nil)
	require.NotErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, `no row of "apples", although the stored token is not higher than 7`)

	fake.fail = map[string]error{"SELECT": errIO}
	err = check("apples", 6, none, nil)
	require.ErrorIs(t, err, errIO)
	require.NotErrorIs(t, err, fence.ErrStale)
}

func TestCheckRows(t *testing.T) {
	fake := newFake()
	for _, id := range []string{"a", "b", "c"} {
		fake.data.stock[id] = 7
	}
	db := open(fake)
	defer db.Close()
	check := func(token uint64, want int64, r sql.Result, err error, ids ...any) error {
		return fence.CheckRows("orders", token, want, r, err, func() *sql.Row {
			return db.QueryRowContext(t.Context(), "SELECT MAX(fence) FROM orders", ids...)
		})
	}
	errIO := errors.New("gone")
	require.NoError(t, check(7, 3, driver.RowsAffected(3), nil))
	require.NoError(t, check(7, 0, driver.RowsAffected(0), nil))
	require.ErrorIs(t, check(7, 3, nil, errIO), errIO)
	require.ErrorIs(t, check(0, 3, driver.RowsAffected(3), nil), fence.ErrNoToken)
	require.ErrorContains(t, check(7, 3, driver.ResultNoRows, nil), "count written rows")
	require.EqualError(t, check(7, 3, driver.RowsAffected(4), nil), `fence: the statement wrote 4 rows of "orders" instead of 3`)
	assert.Empty(t, fake.log, "the stored token is read only if rows are missing")

	err := check(6, 3, driver.RowsAffected(2), nil, "a", "b", "c")
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, &fence.StaleError{Resource: "orders", Token: 6, Highest: 7}, stale)
	require.ErrorContains(t, err, `wrote 2 of 3 rows of "orders": fence: token 6`)

	err = check(7, 4, driver.RowsAffected(3), nil, "a", "b", "c", "d")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, `wrote 3 of 4 rows of "orders", although no stored token is higher than 7: rows are missing`)

	err = check(7, 1, driver.RowsAffected(0), nil, "d")
	require.ErrorIs(t, err, sql.ErrNoRows)
	require.ErrorContains(t, err, `wrote 0 of 1 rows of "orders": the others do not exist, or their tokens are NULL`)
	fake.fail = map[string]error{"SELECT": errIO}
	require.ErrorIs(t, check(6, 3, driver.RowsAffected(2), nil), errIO)
}
