package check

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// stateful returns a request by a new owner for a lock and the state of its key.
func stateful(key string) driver.Request {
	r := request(key)
	r.Attrs = &driver.Attrs{Stateful: true}
	return r
}

// untilBlocked waits until a call of a store waits for the transaction of another one.
func untilBlocked(t *testing.T, s *testedStore) {
	t.Helper()
	if s.of.dialect.String() == "SQLite" { // the other one is the only writer from its begin to its end
		require.Eventually(t, func() bool { return seam.Calls(s.Store) == 1 }, time.Minute, time.Millisecond)
		return
	}
	blocked := make(chan struct{})
	whenAwaited(t, s, func() { close(blocked) })
	<-blocked
}

// TestASaveThatWaitsForAGrant begins a Save while the lease is held. The transaction that gives the lock to the
// next holder has locked the row before. The next holder may be the same owner, with a new token.
func TestASaveThatWaitsForAGrant(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		late := (&database{d.db, dialectOf(d.dialect.String()), d.table}).store(t, sqlstore.Options{})
		for name, isSame := range map[string]bool{"another owner": false, "the same owner": true} {
			old, next := acquire(t, s, stateful(name)), stateful(name)
			require.NoError(t, s.Save(t.Context(), old, 1, []byte("old"), time.Hour))
			if isSame {
				next = old.Request
			}
			c, err := d.db.Conn(t.Context())
			require.NoError(t, err)
			saved := make(chan error, 1)
			require.NoError(t, seam.GrantAfter(t.Context(), s.Store, c, next, func() {
				go func() { saved <- late.Save(context.Background(), old, 2, []byte("late"), time.Hour) }()
				untilBlocked(t, late)
			}))
			require.NoError(t, c.Close())
			require.ErrorIs(t, <-saved, driver.ErrNotHeld, name)
			held := acquire(t, s, next)
			require.Greater(t, held.Token, old.Token)
			assert.Equal(t, &driver.Saved{Data: []byte("old"), Token: old.Token}, held.Saved, name)
		}
	})
}

// TestAGrantThatWaitsForASave begins an Acquire while a Save has locked the row and has not committed yet. The lease
// has ended meanwhile. The snapshot of the statement that grants the lock is older than the state.
func TestAGrantThatWaitsForASave(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, _ string) {
		for _, pessimistic := range []bool{false, true} {
			s := d.store(t, sqlstore.Options{Pessimistic: pessimistic})
			key := []byte(fmt.Sprint("pessimistic: ", pessimistic))
			old := acquire(t, s, stateful(string(key)))
			s.exec(t, "UPDATE {locks} SET expires = {now} - 1 WHERE lock_key = ?", key)
			c, err := d.db.Conn(t.Context())
			require.NoError(t, err)
			exec := func(text string, args ...any) {
				_, err := c.ExecContext(t.Context(), s.expand(text), args...)
				require.NoError(t, err)
			}
			exec("BEGIN")
			exec("UPDATE {locks} SET kind = kind WHERE lock_key = ?", key)
			exec("INSERT INTO {states} (lock_key, token, number, expires, data) VALUES (?, ?, 1, {now} + 60000, ?)", key, int64(old.Token), []byte("new"))
			acquired := make(chan driver.Lease, 1)
			go func() {
				l, err := s.Acquire(context.Background(), stateful(string(key)))
				assert.NoError(t, err)
				acquired <- l
			}()
			untilBlocked(t, s)
			exec("COMMIT")
			require.NoError(t, c.Close())
			assert.Equal(t, &driver.Saved{Data: []byte("new"), Token: old.Token}, (<-acquired).Saved)
		}
	})
}

// TestAGrantThatIsLostBeforeItsStateIsRead does not return the state of the next holder.
func TestAGrantThatIsLostBeforeItsStateIsRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, dsn string) {
		other := d.store(t, sqlstore.Options{})
		tapped, tap := newTapped(t, &database{d.db, dialectOf(d.dialect.String()), d.table}, dsn)
		s := tapped.store(t, sqlstore.Options{})
		var next atomic.Pointer[driver.Lease]
		tap.onStatement(func(text string) {
			if next.Load() == nil && strings.Contains(text, s.expand("{states}")) {
				assert.NoError(t, other.ForceRelease(t.Context(), "k"))
				l := acquire(t, other, stateful("k"))
				next.Store(&l)
				assert.NoError(t, other.Save(t.Context(), l, 1, []byte("next"), time.Hour))
			}
		})
		_, err := s.Acquire(t.Context(), stateful("k"))
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		assert.Equal(t, "next", string(acquire(t, other, next.Load().Request).Saved.Data))
	})
}

// TestWhatAStateCosts counts statements.
func TestWhatAStateCosts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, dsn string) {
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{})
		require.NoError(t, s.Release(t.Context(), acquire(t, s, request("k")))) // makes the row
		var l driver.Lease
		plain := tap.statements(func() { l = acquire(t, s, request("k")) })
		require.NoError(t, s.Release(t.Context(), l))
		assert.Equal(t, plain+1, tap.statements(func() { l = acquire(t, s, stateful("k")) }))
		assert.Equal(t, 1, tap.statements(func() { require.NoError(t, s.Save(t.Context(), l, 1, []byte("s"), time.Hour)) }))
		taps := 0
		tap.onStatement(func(text string) {
			if strings.Contains(text, s.expand("{states}")) {
				taps++
			}
		})
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)))
		require.NoError(t, s.Release(t.Context(), l))
		acquire(t, s, request("k"))
		assert.Zero(t, taps, "other requests do not touch the table")
	})
}

// TestOnlyAStateNeedsItsTable drops the table: a database that was made by an older version has none.
func TestOnlyAStateNeedsItsTable(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, d, user *database) {
		s := user.store(t, sqlstore.Options{})
		(&testedStore{s.Store, d}).exec(t, "DROP TABLE {states}")
		l := acquire(t, s, request("k"))
		renews(t, s, l)
		for _, err := range []error{s.Save(t.Context(), l, 1, nil, time.Hour), s.Forget(t.Context(), "k")} {
			require.ErrorContains(t, err, "_states")
			require.ErrorContains(t, err, "sqlstore: ")
			require.NotErrorIs(t, err, driver.ErrNotHeld)
		}
		require.NoError(t, s.Release(t.Context(), l))
		_, err := s.Sweep(t.Context())
		require.NoError(t, err)
		_, err = s.Acquire(t.Context(), stateful("k"))
		require.ErrorContains(t, err, "_states")
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
		require.NoError(t, s.ForceRelease(t.Context(), "k"), "the grant, which the client would give back")
	}
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		t.Run("its owner", func(t *testing.T) { test(t, d, d) })
		require.NoError(t, sqlstore.CreateSchema(t.Context(), d.db, d.dialect, &sqlstore.Options{Table: d.table}))
		t.Run("a user", func(t *testing.T) { test(t, d, d.asUser(t)) })
	})
	t.Run("SQLite", func(t *testing.T) { d := newSQLite(t); test(t, d, d) })
}

// TestSweepOfStates needs several pages, and several statements for each.
func TestSweepOfStates(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		tx, err := d.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for i := range 2*seam.PageSize + 1 {
			ends := int64(1)
			if i%seam.PageSize >= 250 { // live
				ends = time.Now().Add(time.Hour).UnixMilli()
			}
			_, err := tx.ExecContext(t.Context(), s.expand("INSERT INTO {states} (lock_key, token, number, expires, data) VALUES (?, 1, 1, ?, {empty})"),
				fmt.Appendf(nil, "%05d", i), ends)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		for range 2 {
			_, err = s.Sweep(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 2*(seam.PageSize-250), s.count(t, "SELECT count(*) FROM {states}"))
			assert.Zero(t, s.count(t, "SELECT count(*) FROM {states} WHERE expires = 1"))
		}
	})
}
