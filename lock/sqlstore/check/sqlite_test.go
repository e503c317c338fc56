package check

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// sqliteConn are the interfaces of the driver's connections that database/sql looks for.
type sqliteConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.SessionResetter
	sqldriver.Validator
}

// interceptor opens connections to SQLite whose ExecContext calls exec first, if that is set. exec
// decides the outcome unless it returns sqldriver.ErrSkip.
type interceptor struct {
	driver sqldriver.Driver
	dsn    string
	opened atomic.Int32
	exec   func(ctx context.Context, c sqliteConn, text string) error
}

func (i *interceptor) Connect(context.Context) (sqldriver.Conn, error) {
	i.opened.Add(1)
	c, err := i.driver.Open(i.dsn)
	if err != nil {
		return nil, err
	}
	return interceptedConn{c.(sqliteConn), i}, nil
}

func (i *interceptor) Driver() sqldriver.Driver { return i.driver }

type interceptedConn struct {
	sqliteConn
	of *interceptor
}

func (c interceptedConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if c.of.exec != nil {
		if err := c.of.exec(ctx, c.sqliteConn, text); !errors.Is(err, sqldriver.ErrSkip) {
			return nil, err
		}
	}
	return c.sqliteConn.ExecContext(ctx, text, args)
}

// TestAFailedBeginLeavesNoTransaction cancels a call while its transaction begins. The driver then
// returns the error of ctx, whether the transaction has begun or not. The only connection of the pool
// must be usable afterwards: what it grants must be visible to other connections.
func TestAFailedBeginLeavesNoTransaction(t *testing.T) {
	for name, begins := range map[string]bool{"the transaction has begun": true, "it has not begun": false} {
		t.Run(name, func(t *testing.T) {
			dsn := sqliteDSN(t)
			other := newDatabase(t, "sqlite", dsn, sqlstore.SQLite(), "")
			i := &interceptor{driver: other.db.Driver(), dsn: dsn}
			pool := sql.OpenDB(i)
			t.Cleanup(func() { assert.NoError(t, pool.Close()) })
			pool.SetMaxOpenConns(1)
			s := (&database{pool, sqlstore.SQLite(), ""}).store(t, sqlstore.Options{})
			held := acquire(t, s, request("held"))

			ctx, cancel := context.WithCancel(t.Context())
			i.exec = func(_ context.Context, c sqliteConn, text string) error {
				if text != "BEGIN IMMEDIATE" {
					return sqldriver.ErrSkip
				}
				i.exec = nil
				if begins {
					_, err := c.ExecContext(context.Background(), text, nil)
					assert.NoError(t, err)
				}
				cancel()
				return context.Canceled
			}
			require.ErrorIs(t, s.Renew(ctx, []driver.Lease{held}, make([]renewal.Outcome, 1)), context.Canceled)

			acquire(t, s, request("next"))
			info, err := other.store(t, sqlstore.Options{}).Inspect(t.Context(), "next")
			require.NoError(t, err)
			assert.Equal(t, 1, info.Held)
			assert.EqualValues(t, 1, i.opened.Load(), "the connection was not replaced, which would empty a database in memory")
		})
	}
}
