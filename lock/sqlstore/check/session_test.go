package check

import (
	"context"
	"database/sql"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestSessionsWithoutAutocommitAreRefused checks that no lock is granted in sessions whose
// renewals would be rolled back in the end, for a new key and for one that has a row.
func TestSessionsWithoutAutocommitAreRefused(t *testing.T) {
	d := newMariaDB(t)
	l := acquire(t, d.store(t, sqlstore.Options{}), request("known"))
	require.NoError(t, d.store(t, sqlstore.Options{}).Release(t.Context(), l))
	for _, pessimistic := range []bool{false, true} {
		off := newDatabase(t, "mysql", mariaDB.Get(t).DSN("autocommit=0"), sqlstore.MySQL(), d.table)
		s := off.store(t, sqlstore.Options{Pessimistic: pessimistic})
		for _, key := range []string{"new", "known"} {
			_, err := s.Acquire(t.Context(), request(key))
			require.ErrorContains(t, err, "autocommit is off")
			_, err = s.Wait(t.Context(), request(key), func() {})
			require.ErrorContains(t, err, "autocommit is off")
		}
	}
}

// TestASerializableDatabase checks that contention costs repetitions only, in sessions whose
// statements fail if another transaction has changed their rows.
func TestASerializableDatabase(t *testing.T) {
	d := newPostgres(t, "default_transaction_isolation=serializable")
	s := d.store(t, sqlstore.Options{})
	const clients, rounds = 8, 25
	held := 0
	var mu sync.Mutex // guards held
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range rounds {
				l, err := s.Wait(t.Context(), request("k"), func() {})
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

// TestReadOnlyConnectionsAreReplaced makes all idle connections of a pool read-only, as a
// switch-over does. One call must succeed on a new connection.
func TestReadOnlyConnectionsAreReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		d       *database
		setting string
	}{
		"PostgreSQL": {newPostgres(t), "SET default_transaction_read_only = on"},
		"MariaDB":    {newMariaDB(t), "SET SESSION TRANSACTION READ ONLY"},
		"SQLite":     {newSQLite(t), "PRAGMA query_only = on"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.d.store(t, sqlstore.Options{})
			l := acquire(t, s, request("k"))
			turnReadOnly := func() {
				var conns []*sql.Conn
				for range 3 {
					c, err := test.d.db.Conn(t.Context())
					require.NoError(t, err)
					_, err = c.ExecContext(t.Context(), test.setting)
					require.NoError(t, err)
					conns = append(conns, c)
				}
				for _, c := range conns {
					require.NoError(t, c.Close())
				}
			}
			turnReadOnly()
			out := make([]renewal.Outcome, 1)
			require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
			assert.Equal(t, renewal.Renewed, out[0])
			turnReadOnly()
			acquire(t, s, request("other"))
			turnReadOnly()
			require.NoError(t, s.Release(t.Context(), l))
		})
	}
}

// TestAReadOnlyServerIsToldSoon checks that a call does not try again for ever if new connections take
// no writes either, and that its error is that of the server.
func TestAReadOnlyServerIsToldSoon(t *testing.T) {
	d := newPostgres(t)
	var dials atomic.Int64
	config, err := pgx.ParseConfig(postgres.Get(t).DSN("default_transaction_read_only=on"))
	require.NoError(t, err)
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	s := (&database{db, d.dialect, d.table}).store(t, sqlstore.Options{})
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "read-only transaction")
	assert.LessOrEqual(t, dials.Load(), int64(2))
}
