// The table of fencing tokens in a SQL database, and checks of tokens there.

package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
)

// Dialect is the SQL of a database. It selects the statements of [Tx] and [CheckTx].
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql" // PostgreSQL 9.5 or later
	MySQL      Dialect = "mysql"      // MySQL 5.7 or later, MariaDB 10.2 or later
	SQLite     Dialect = "sqlite"     // SQLite 3.24 or later
)

// statements are those of a dialect. The parameters are the resource, and for raise the
// token, too.
type statements struct {
	create string
	raise  string // stores the token if it is higher, and locks the row until the transaction ends
	read   string // reads the latest token, even if the transaction has an older snapshot
}

var dialects = map[Dialect]statements{
	PostgreSQL: {
		// Of several sessions that create the table at once, PostgreSQL lets the later ones fail, despite IF NOT EXISTS.
		create: "DO $$ BEGIN CREATE TABLE IF NOT EXISTS fencing_tokens (resource TEXT PRIMARY KEY, token BIGINT NOT NULL); " +
			"EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN NULL; END $$",
		raise: "INSERT INTO fencing_tokens (resource, token) VALUES ($1, $2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = GREATEST(fencing_tokens.token, excluded.token)",
		read: "SELECT token FROM fencing_tokens WHERE resource = $1",
	},
	MySQL: {
		// VARBINARY compares bytes. The usual collations of VARCHAR ignore case.
		create: "CREATE TABLE IF NOT EXISTS fencing_tokens (resource VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB",
		raise: "INSERT INTO fencing_tokens (resource, token) VALUES (?, ?) " +
			"ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
		read: "SELECT token FROM fencing_tokens WHERE resource = ? FOR UPDATE",
	},
	SQLite: {
		create: "CREATE TABLE IF NOT EXISTS fencing_tokens (resource TEXT PRIMARY KEY, token BIGINT NOT NULL)",
		raise: "INSERT INTO fencing_tokens (resource, token) VALUES (?, ?) " +
			"ON CONFLICT (resource) DO UPDATE SET token = MAX(fencing_tokens.token, excluded.token)",
		read: "SELECT token FROM fencing_tokens WHERE resource = ?",
	},
}

// CreateTable returns the statement that creates the table fencing_tokens, unless it
// exists. Several processes may execute it at once. The table has one row for each resource, with its highest token. A row must be
// kept for as long as the data of its resource. CreateTable returns "" for an unknown
// dialect.
func (d Dialect) CreateTable() string { return dialects[d].create }

// Tx calls f in a transaction, unless a later holder of the lock has used the resource. It
// begins the transaction, calls [CheckTx], calls f, and commits. It rolls back if CheckTx
// or f returns an error, or if f panics. So f may insert, update and delete rows of any
// tables, and its statements need no tokens of their own.
//
// All transactions that write the resource must use Tx or CheckTx. The table is that of
// [Dialect.CreateTable]. If ctx ends before the commit, the database rolls back. So the
// context of the handle ends the transaction of a holder that has lost its lock.
//
// Tx returns the errors of CheckTx, f and the database. If ctx has ended, the error also matches
// the cause of ctx: for the context of a handle that is the loss of the lock. After an error of the commit, the
// transaction may have been committed.
func Tx(ctx context.Context, db *sql.DB, d Dialect, resource string, token uint64, f func(tx *sql.Tx) error) error {
	switch {
	case db == nil:
		return errors.New("fence: Tx: the database is nil")
	case f == nil:
		return errors.New("fence: Tx: the func is nil")
	case ctx == nil:
		return errNilContext
	}
	return withCause(ctx, runTx(ctx, db, d, resource, token, f))
}

func runTx(ctx context.Context, db *sql.DB, d Dialect, resource string, token uint64, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence: begin the transaction for %q: %w", resource, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := CheckTx(ctx, tx, d, resource, token); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence: commit the transaction for %q: %w", resource, err)
	}
	return nil
}

// withCause adds the cause of an ended ctx to err, unless err matches it already. Package
// database/sql reports the end of a context, or that a transaction is over, without the cause.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// CheckTx compares the token of a resource with the highest token in the table
// fencing_tokens, and stores it if it is higher or the first. It must be called first in
// the transaction, before any statement that reads or writes what the lock protects. The
// transaction then has a lock on the row of the resource, so that other transactions with
// a token of this resource wait in CheckTx until it ends.
//
// CheckTx returns a *StaleError if a higher token is stored, and ErrNoToken for the token
// 0. After any error the transaction must be rolled back. The database may report a
// deadlock, a serialization failure or that it is busy; then the whole transaction can be
// repeated. If ctx has ended, the error also matches its cause. SQLite reports that it is busy at once, unless its busy_timeout is set.
func CheckTx(ctx context.Context, tx *sql.Tx, d Dialect, resource string, token uint64) error {
	s, known := dialects[d]
	switch {
	case token == 0:
		return ErrNoToken
	case token > math.MaxInt64:
		return fmt.Errorf("fence: token %d of %q does not fit into a BIGINT", token, resource)
	case !known:
		return fmt.Errorf("fence: unknown dialect %q", string(d))
	case tx == nil:
		return errors.New("fence: CheckTx: the transaction is nil")
	case ctx == nil:
		return errNilContext
	}
	if _, err := tx.ExecContext(ctx, s.raise, resource, int64(token)); err != nil {
		return withCause(ctx, fmt.Errorf("fence: store the token of %q: %w", resource, err))
	}
	return withCause(ctx, checkStored(resource, token, tx.QueryRowContext(ctx, s.read, resource)))
}

// CheckResult checks the result of a statement that writes only if its token is not lower
// than the stored one, such as
//
//	UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?
//
// whose last argument, and the new value of fence, are the token. It returns err if that
// is not nil, and ErrNoToken for the token 0.
//
// If no row was written, CheckResult calls stored, which reads the stored token:
//
//	SELECT fence FROM stock WHERE id = ?
//
// It returns a *StaleError if that token is higher, and an error that matches
// sql.ErrNoRows if there is no such row. It returns another error if the token is NULL, which
// is not lower than any, or not higher: another condition of the statement has excluded the row,
// or the driver does not count the rows that match, but only those that change. MySQL needs
// clientFoundRows=true.
//
// A statement that inserts a row cannot compare tokens in this way. Use [Tx].
func CheckResult(resource string, token uint64, r sql.Result, err error, stored func() *sql.Row) error {
	n, err := written("CheckResult", token, r, err, stored)
	if err != nil || n > 0 {
		return err
	}
	switch err := checkStored(resource, token, stored()); {
	case errors.Is(err, errNull):
		return fmt.Errorf("fence: the statement wrote no row of %q, because the stored token is NULL: it must begin with 0", resource)
	case err != nil:
		return err
	}
	return fmt.Errorf("fence: the statement wrote no row of %q, although the stored token is not higher than %d: "+
		"another condition excludes the row, or the driver counts changed rows only", resource, token)
}

// CheckRows is CheckResult for a statement that writes many rows, such as those of a batch:
//
//	UPDATE orders SET state = 'shipped', fence = ? WHERE id IN (…) AND fence <= ?
//
// It returns an error with both numbers unless the statement has written want rows. If it has written
// fewer, CheckRows calls stored, which reads the highest token of the rows:
//
//	SELECT MAX(fence) FROM orders WHERE id IN (…)
//
// The error also matches ErrStale, with a *StaleError, if that token is higher, and sql.ErrNoRows if there is
// none. Otherwise a row does not exist, has the token NULL, or was excluded as for CheckResult. Call CheckRows in the
// transaction of the statement, and roll back after an error, or the other rows stay written.
func CheckRows(resource string, token uint64, want int64, r sql.Result, err error, stored func() *sql.Row) error {
	n, err := written("CheckRows", token, r, err, stored)
	switch {
	case err != nil:
		return err
	case n == want:
		return nil
	case n > want:
		return fmt.Errorf("fence: the statement wrote %d rows of %q instead of %d", n, resource, want)
	}
	switch err := checkStored(resource, token, stored()); {
	case errors.Is(err, errNull):
		return fmt.Errorf("fence: the statement wrote %d of %d rows of %q: the others do not exist, or their tokens are NULL and must begin with 0: %w",
			n, want, resource, sql.ErrNoRows)
	case err != nil:
		return fmt.Errorf("fence: the statement wrote %d of %d rows of %q: %w", n, want, resource, err)
	}
	return fmt.Errorf("fence: the statement wrote %d of %d rows of %q, although no stored token is higher than %d: "+
		"rows are missing, have the token NULL or are excluded by another condition, or the driver counts changed rows only", n, want, resource, token)
}

// written returns how many rows a statement has written, or the error of a check, which has a name.
func written(check string, token uint64, r sql.Result, err error, stored func() *sql.Row) (int64, error) {
	switch {
	case err != nil:
		return 0, err
	case token == 0:
		return 0, ErrNoToken
	case r == nil:
		return 0, fmt.Errorf("fence: %s: the result is nil", check)
	case stored == nil:
		return 0, fmt.Errorf("fence: %s: the func is nil", check)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("fence: count written rows: %w", err)
	}
	return n, nil
}

// errNull is the error for a stored token that is NULL.
var errNull = errors.New("fence: the stored token is NULL")

// checkStored compares the token with the stored one. It returns errNull itself.
func checkStored(resource string, token uint64, row *sql.Row) error {
	if row == nil {
		return errors.New("fence: the row of the stored token is nil")
	}
	var highest sql.Null[uint64] // MAX of no rows, and of tokens that are NULL, is NULL
	err := row.Scan(&highest)
	switch {
	case err == nil && !highest.Valid:
		return errNull
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fence: no row of %q: %w", resource, err)
	case err != nil:
		return fmt.Errorf("fence: read the stored token of %q: %w", resource, err)
	case highest.V > token:
		return &StaleError{Resource: resource, Token: token, Highest: highest.V}
	}
	return nil
}
