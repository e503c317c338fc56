// The interface of dialects, the differences between databases.

package sqlstore

import (
	"context"
	"database/sql"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Dialect names the database that a *sql.DB is of. The zero Dialect is of none.
type Dialect struct{ dialect }

// String returns the name of the database.
func (d Dialect) String() string {
	if d.dialect == nil {
		return "none"
	}
	return d.traits().name
}

// dialect is what differs between databases.
type dialect interface {
	traits() traits

	// expressions are what stands for the names in braces in the texts of statements. The
	// names of the tables are added to them.
	expressions(o Options) map[string]string

	// adapt replaces the texts that the dialect writes differently, and sets its own ones.
	adapt(t *texts)

	// placeholder returns the n-th parameter of a statement, from 1.
	placeholder(n int) string

	// begin begins a transaction that sees what others have committed before each of its
	// statements, or that no other writer overlaps.
	begin(ctx context.Context, c *sql.Conn) (transaction, error)

	// acquire is the optimistic way. It tries to decide a request without a transaction.
	// decided is false if the key may have waiters or owners that were given up.
	acquire(ctx context.Context, c *sql.Conn, t *texts, r driver.Request) (a answer, decided bool, err error)

	// renew extends leases, of which no two are equal, and returns what it has found of each. It
	// skips rows that others have locked, unless there is one lease and wait is true.
	renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, wait bool) ([]found, error)

	// in returns a condition for a list of rows, each of which is a key, or a key and an owner, and
	// its parameters.
	in(rows [][][]byte) (condition string, args []any)

	// update runs a statement that changes rows, and returns how many it has changed. MySQL may not count rows
	// that had the new values already.
	update(ctx context.Context, c *sql.Conn, text string, args ...any) (int64, error)

	// unguarded makes calls of Guard for a key wait until the transaction ends, and reports
	// whether no other transaction guards the key. It does not wait for one that does; then the
	// lock must not be granted. The transaction has locked the row of the key.
	unguarded(ctx context.Context, tx querier, t *texts, key []byte) (bool, error)

	// granted is called after unguarded, if the transaction gives the key a new token.
	granted(ctx context.Context, tx querier, t *texts, key []byte, token int64) error

	// forget is called when a lock is taken from its holder and given to nobody. It makes guard
	// refuse the token, unless the lock is guarded now.
	forget(ctx context.Context, tx querier, t *texts, key []byte) error

	// guard is Guard. It reports whether the token is that of the holder, and makes unguarded
	// return false until the transaction ends.
	guard(ctx context.Context, tx querier, t *texts, key []byte, token int64) (bool, error)

	// sweepRows deletes the rows of locks that have been free for some ms and are not guarded,
	// of the keys from one to another one.
	sweepRows(ctx context.Context, c *sql.Conn, t *texts, first, last []byte, free int64) (int64, error)

	// faultOf returns what an error of the database or its driver means for the store.
	faultOf(err error) fault

	// locate returns the options with the schema of the tables, or if create is true and there are none, with that in which
	// they are to be created. It returns an unfitError for a session in which locks would fail later, or if it is not
	// clear which tables are meant.
	locate(ctx context.Context, q querier, o Options, create bool) (Options, error)

	// checkSchema returns an error if not all connections of a pool see the tables.
	checkSchema(ctx context.Context, db *sql.DB, t *texts) error
}

// traits are the differences between dialects that need no code.
type traits struct {
	name              string
	quote             string // stands around a name that may be a word of the language
	schemas           bool   // a table may have the name of a schema before its own
	synchronousCommit bool   // Options.SynchronousCommit
	messages          bool   // texts.notify is a statement
	minConns          int    // connections that a pool needs
}

// standard has the methods that are the same in most dialects.
type standard struct{}

func (standard) update(ctx context.Context, c *sql.Conn, text string, args ...any) (int64, error) {
	return affected(c.ExecContext(ctx, text, args...))
}

func (standard) sweepRows(ctx context.Context, c *sql.Conn, t *texts, first, last []byte, free int64) (int64, error) {
	return affected(c.ExecContext(ctx, t.sweepRows, first, last, free))
}

func (standard) placeholder(int) string                                        { return "?" }
func (standard) granted(context.Context, querier, *texts, []byte, int64) error { return nil }
func (standard) forget(context.Context, querier, *texts, []byte) error         { return nil }
func (standard) checkSchema(context.Context, *sql.DB, *texts) error            { return nil }

// fault is what an error of a database means for a store.
type fault uint8

const (
	_              fault = iota // nothing more
	conflict                    // the database has rolled back because of others, so the same is to be sent again
	readOnlyServer              // the server of the connection takes no writes, though that of another one may
	noTable                     // a table, or its schema, is missing
	forbidden                   // the user lacks a right
	exists                      // another process has created the same at the same time
	otherStatement              // the session has the prepared statements of another one, or of another client
)

// querier is what connections and transactions have in common.
type querier interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// eachRow executes a query. It reads each row into dest, and then calls f.
func eachRow(ctx context.Context, q querier, text string, args, dest []any, f func()) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		f()
	}
	return rows.Err()
}

// transaction is a transaction under way. rollback after commit does nothing.
type transaction interface {
	querier
	commit(ctx context.Context) error
	rollback()
}

// renewItem is one lease of a batch that is to be renewed.
type renewItem struct {
	key, owner []byte
	token, ttl int64 // ttl in ms
}

// found is what a renewal has found of a lease.
type found uint8

const (
	foundLocked  found = iota // its row is locked, and it was held before; so it may still be
	foundRenewed              // held, and extended
	foundTaken                // another owner holds the lock
	foundMissing              // it has ended, and nobody holds the lock
)

// foundIn returns what a row shows of a lease that was not renewed. The row has not waited for others.
func foundIn(l renewItem, kind int64, owner []byte, token, expires, now int64) found {
	switch {
	case kind != 0 || len(owner) == 0 || string(owner) == keptOwner || expires < now:
		return foundMissing
	case string(owner) == string(l.owner) && token == l.token:
		return foundLocked
	}
	return foundTaken
}
