package sqlstore

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestSessionsWithoutAutocommitAreRefused checks that no lock is granted in sessions whose
// renewals would be rolled back in the end, for a new key and for one that has a row.
func TestSessionsWithoutAutocommitAreRefused(t *testing.T) {
	d := newMariaDB(t)
	l := acquire(t, d.store(t, Options{}), request("known"))
	require.NoError(t, d.store(t, Options{}).Release(t.Context(), l))
	for _, pessimistic := range []bool{false, true} {
		off := newDatabase(t, "mysql", mariaDB.Get(t).DSN("autocommit=0"), MySQL(), d.table)
		s := off.store(t, Options{Pessimistic: pessimistic})
		for _, key := range []string{"new", "known"} {
			_, err := s.Acquire(t.Context(), request(key))
			require.ErrorIs(t, err, errNoAutocommit)
			_, err = s.Wait(t.Context(), request(key))
			require.ErrorIs(t, err, errNoAutocommit)
		}
	}
}

// TestASerializableDatabase checks that contention costs repetitions only, in sessions whose
// statements fail if another transaction has changed their rows.
func TestASerializableDatabase(t *testing.T) {
	d := newPostgres(t, "default_transaction_isolation=serializable")
	s := d.store(t, Options{})
	const clients, rounds = 8, 25
	held := 0
	var mu sync.Mutex // guards held
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range rounds {
				l, err := s.Wait(t.Context(), request("k"))
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				held++
				assert.Equal(t, 1, held)
				mu.Unlock()
				out := make([]renewal.Outcome, 1)
				assert.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
				assert.Equal(t, renewal.Renewed, out[0])
				mu.Lock()
				held--
				mu.Unlock()
				assert.NoError(t, s.Release(t.Context(), l))
			}
		})
	}
	wg.Wait()
}

// TestAReadOnlyConnectionIsReplaced checks that a pool with a connection to a server that has become
// a replica works again after one failure.
func TestAReadOnlyConnectionIsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		d       *database
		setting string
	}{
		"PostgreSQL": {newPostgres(t), "SET default_transaction_read_only = on"},
		"MariaDB":    {newMariaDB(t), "SET SESSION TRANSACTION READ ONLY"},
	} {
		t.Run(name, func(t *testing.T) {
			test.d.db.SetMaxOpenConns(1)
			s := test.d.store(t, Options{})
			l := acquire(t, s, request("k"))
			_, err := test.d.db.ExecContext(t.Context(), test.setting)
			require.NoError(t, err)
			out := make([]renewal.Outcome, 1)
			require.Error(t, s.Renew(t.Context(), []driver.Lease{l}, out))
			require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
			assert.Equal(t, renewal.Renewed, out[0])
		})
	}
}
