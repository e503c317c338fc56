package check

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestContract runs on PostgreSQL as a user with the documented rights and no others.
func TestContract(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL/optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newPostgres(t).asUser(t), sqlstore.Options{}) })
	t.Run("PostgreSQL/pessimistic", func(t *testing.T) {
		t.Parallel()
		testContract(t, newPostgres(t).asUser(t), sqlstore.Options{Pessimistic: true})
	})
	t.Run("PgBouncer/optimistic", func(t *testing.T) {
		t.Parallel()
		testContract(t, newBouncer(t, "default_query_exec_mode=exec"), sqlstore.Options{})
	})
	t.Run("PgBouncer/pessimistic", func(t *testing.T) {
		t.Parallel()
		testContract(t, newBouncer(t, "default_query_exec_mode=exec"), sqlstore.Options{Pessimistic: true})
	})
	t.Run("SQLite/optimistic", func(t *testing.T) { t.Parallel(); testContract(t, newSQLite(t), sqlstore.Options{}) })
	t.Run("SQLite/pessimistic", func(t *testing.T) { t.Parallel(); testContract(t, newSQLite(t), sqlstore.Options{Pessimistic: true}) })
}

// testContract runs the contract of stores. All cases share the tables.
func testContract(t *testing.T, d *database, o sqlstore.Options) {
	locktest.TestStore(t, locktest.Config{
		New:      func(t *testing.T) driver.Store { return d.store(t, o) },
		Another:  func(t *testing.T, _ driver.Store) driver.Store { return d.store(t, o) },
		TTL:      3 * time.Second,
		Explains: true,
		Waiting: func(t *testing.T, s driver.Store, key string) int {
			info, err := s.(*testedStore).Inspect(context.Background(), key)
			require.NoError(t, err)
			return info.Waiting
		},
		Die: func(t *testing.T, s driver.Store, r driver.Request) {
			require.NoError(t, seam.Enter(t.Context(), s.(*testedStore).Store, r))
		},
		Delete: func(t *testing.T, s driver.Store, key string) {
			s.(*testedStore).exec(t, "DELETE FROM {locks} WHERE lock_key = ?", []byte(key))
		},
		Spoil: func(t *testing.T, s driver.Store, key string) {
			s.(*testedStore).exec(t, "DELETE FROM {locks} WHERE lock_key = ?", []byte(key))
			s.(*testedStore).exec(t, `INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
				VALUES (?, 7, {empty}, 42, 0, NULL, 0, 0)`, []byte(key))
		},
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return s.(*testedStore).count(t, `SELECT count(*) FROM {locks} WHERE lock_key = ? AND kind = 7 AND token = 42
				AND expires = 0 AND queued_until = 0 AND refused_until = 0`, []byte(key)) == 1
		},
	})
}

// TestTheSimpleProtocol makes each kind of call by way of PgBouncer, in the protocol that has no
// types of parameters.
func TestTheSimpleProtocol(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		d := newBouncer(t, "default_query_exec_mode=simple_protocol")
		callAll(t, d.store(t, sqlstore.Options{Pessimistic: pessimistic}), d.db)
	}
}

// callAll makes each kind of call of a store whose pool is db, and checks what it does.
func callAll(t *testing.T, s *testedStore, db *sql.DB) {
	t.Helper()
	r := request("k\x00\xff'\\")
	r.Attrs = &driver.Attrs{Metadata: "m\x00"}
	l := acquire(t, s, r)
	other := acquire(t, s, request("other"))
	out := make([]renewal.Outcome, 3)
	stranger := l
	stranger.Owner += "0"
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{l, stranger, other}, out))
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.LostTaken, renewal.Renewed}, out)
	require.NoError(t, s.SetMetadata(t.Context(), l, "n\x00"))
	info, err := s.Inspect(t.Context(), r.Key)
	require.NoError(t, err)
	require.Equal(t, 1, info.Held)
	assert.Equal(t, "n\x00", info.Holders[0].Metadata)
	require.NoError(t, s.Save(t.Context(), l, 1, []byte("s\x00\xff'\\"), time.Hour))
	r.Attrs.Stateful = true
	assert.Equal(t, &driver.Saved{Data: []byte("s\x00\xff'\\"), Token: l.Token}, acquire(t, s, r).Saved)
	require.NoError(t, s.Save(t.Context(), l, 2, nil, time.Hour))
	assert.Empty(t, acquire(t, s, r).Saved.Data)
	require.NoError(t, s.Forget(t.Context(), r.Key))
	assert.Equal(t, new(driver.Saved), acquire(t, s, r).Saved)
	keys, _, err := s.List(t.Context(), "", "")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{r.Key, "other"}, keys)
	keys, _, err = s.List(t.Context(), "k\x00", "")
	require.NoError(t, err)
	assert.Equal(t, []string{r.Key}, keys)
	guard(t, s, db, l)

	next := []driver.Request{request(r.Key), request(r.Key)}
	granted := make(chan driver.Lease, len(next))
	for i, r := range next {
		r.TTL = 3 * time.Second // the poller extends the places
		go func() {
			got, err := s.Wait(t.Context(), r, func() {})
			assert.NoError(t, err)
			got.Request = r
			granted <- got
		}()
		require.Eventually(t, func() bool {
			info, err := s.Inspect(t.Context(), r.Key)
			return err == nil && info.Waiting == i+1 && len(info.Places) == i+1
		}, time.Minute, time.Millisecond)
	}
	require.Eventually(t, func() bool {
		return s.count(t, "SELECT count(*) FROM {places} WHERE expires > {now} + 2000") == len(next)
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
	require.NoError(t, s.Release(t.Context(), <-granted))
	<-granted
	require.NoError(t, s.ForceRelease(t.Context(), r.Key))
	many := []driver.Lease{other, acquire(t, s, request("more")), acquire(t, s, request("most"))}
	errs := make([]error, len(many))
	require.NoError(t, s.ReleaseAll(t.Context(), many, errs))
	assert.Equal(t, make([]error, len(many)), errs)
	s.exec(t, "UPDATE {locks} SET expires = 1, queued_until = 0, refused_until = 0 WHERE owner = {empty}")
	s.exec(t, "UPDATE {tombstones} SET expires = 1 WHERE owner <> {empty}")
	n, err := s.Sweep(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 4, n)
	assert.Zero(t, s.count(t, "SELECT count(*) FROM {tombstones}"))
}

// guard guards a lease in a transaction.
func guard(t *testing.T, s *testedStore, db *sql.DB, l driver.Lease) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.Guard(t.Context(), tx, grant{l.Key, l.Token}))
	require.NoError(t, tx.Commit())
}
