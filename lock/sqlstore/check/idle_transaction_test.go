package check

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestATransactionThatStandsStillEnds checks that a process which stops within a transaction of
// the store does not keep the key from others: the server ends the transaction.
func TestATransactionThatStandsStillEnds(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() *database{
		"PostgreSQL": func() *database { return newPostgres(t) },
		"MariaDB":    func() *database { return newMariaDB(t, idle(t, "1")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open()
			stopped, other := d.store(t, sqlstore.Options{Timeout: time.Second}), d.store(t, sqlstore.Options{})
			c, err := d.db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { _ = c.Close() }() // the server has closed it
			request := func(owner string) driver.Request {
				return driver.Request{Key: "k", Owner: owner, TTL: time.Hour}
			}
			err = seam.GrantAfter(t.Context(), stopped.Store, c, request("stopped"), func() {
				require.Eventually(t, func() bool {
					_, err := other.Acquire(t.Context(), request("other"))
					return err == nil
				}, time.Minute, time.Millisecond)
			})
			require.Error(t, err, "the transaction has ended")
			_, err = other.Acquire(t.Context(), request("third"))
			assert.ErrorIs(t, err, driver.ErrNotAcquired)
		})
	}
}

// TestATransactionThatStandsStillEndsBeforeTheLease checks that the server ends such a transaction before
// the holder of the key has lost its lease, however long Options.Timeout is. The process may stop after
// each statement, also after it has created the row.
func TestATransactionThatStandsStillEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	d := newPostgres(t)
	s, other := d.store(t, sqlstore.Options{Timeout: time.Hour}), d.store(t, sqlstore.Options{})
	r := request("k")
	r.TTL = 6 * time.Second
	l := acquire(t, other, r)
	c, err := d.db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // the server has closed it
	err = seam.GrantAfter(t.Context(), s.Store, c, request("k"), func() {
		require.Eventually(t, func() bool {
			out := make([]renewal.Outcome, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			return other.Renew(ctx, []driver.Lease{l}, out) == nil && out[0] == renewal.Renewed
		}, time.Minute, time.Millisecond)
	})
	require.Error(t, err, "the server has ended the transaction")

	stopped := d.store(t, sqlstore.Options{Timeout: time.Second})
	c, err = d.db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	tx, err := c.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), *seam.TextsOf(stopped.Store).CreateRow, []byte("new"))
	require.NoError(t, err)
	acquire(t, other, request("new"))
}
