package sqlstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// TestATransactionThatStandsStillEnds checks that a process which stops within a transaction of
// the store does not keep the key from others: the server ends the transaction.
func TestATransactionThatStandsStillEnds(t *testing.T) {
	for name, open := range map[string]func() *database{
		"PostgreSQL": func() *database { return newPostgres(t) },
		"MariaDB":    func() *database { return newMariaDB(t, "idle_transaction_timeout=1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open()
			stopped, other := d.store(t, Options{Timeout: time.Second}), d.store(t, Options{})
			c, err := d.db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { _ = c.Close() }() // the server has closed it
			request := func(owner string) driver.Request {
				return driver.Request{Key: "k", Owner: owner, TTL: time.Hour}
			}
			err = stopped.locked(t.Context(), c, "k", true, func(k *lockedKey) error {
				require.Eventually(t, func() bool {
					_, err := other.Acquire(t.Context(), request("other"))
					return err == nil
				}, time.Minute, time.Millisecond)
				k.grant("stopped", k.now+ms(time.Hour), nil)
				return nil
			})
			require.Error(t, err, "the transaction has ended")
			_, err = other.Acquire(t.Context(), request("third"))
			assert.ErrorIs(t, err, driver.ErrNotAcquired)
		})
	}
}
