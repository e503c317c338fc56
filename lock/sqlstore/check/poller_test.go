package check

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
)

// waiting starts a call of Wait, and returns its result, when the call is in the queue.
func waiting(t *testing.T, s *testedStore, r driver.Request) (granted chan error) {
	t.Helper()
	granted = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	queued, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_, err := s.Wait(ctx, r, sync.OnceFunc(func() { close(queued) }))
		granted <- err
	}()
	select {
	case <-queued:
	case err := <-granted:
		require.Fail(t, "Wait has returned", "%v", err)
	}
	return granted
}

// TestManyWaitersShareTheirRequests counts the statements of 150 waiters, of which 100 wait for one lock, while
// nothing changes. Then each of them gets its lock from another process.
func TestManyWaitersShareTheirRequests(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, dsn string) {
		holder := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, holder, 50)
		outlast(t, holder, batch)
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{PollInterval: 20 * time.Millisecond})
		readLocks := *seam.TextsOf(s.Store).ReadLocks
		granted := make(map[string][]chan error)
		for i := range 150 {
			key := batch[min(i, 49)].Key
			granted[key] = append(granted[key], waiting(t, s, request(key)))
		}
		var reads, all atomic.Int64
		tap.onStatement(func(text string) {
			all.Add(1)
			if strings.HasPrefix(text, readLocks) {
				reads.Add(1)
			}
		})
		require.Eventually(t, func() bool { return reads.Load() >= 60 }, time.Minute, time.Millisecond)
		assert.LessOrEqual(t, all.Load(), 2*reads.Load(), "a few statements extend all places")

		for _, l := range batch {
			require.NoError(t, holder.Release(t.Context(), l))
			for range granted[l.Key] {
				var got chan error
				require.Eventually(t, func() bool {
					for _, g := range granted[l.Key] {
						if len(g) > 0 {
							got = g
							return true
						}
					}
					return false
				}, time.Minute, time.Millisecond)
				require.NoError(t, <-got)
				require.NoError(t, holder.ForceRelease(t.Context(), l.Key))
			}
		}
	})
}

// TestWaitersLeaveTheRowOfTheHolderAlone keeps the row of a held lock locked. Its waiters keep their places,
// and the time for which the key has places is extended once the row is free.
func TestWaitersLeaveTheRowOfTheHolderAlone(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 1)
		outlast(t, s, batch)
		r := request(batch[0].Key)
		r.TTL = 1500 * time.Millisecond // and its place
		granted := waiting(t, s, r)
		end := func() int { return s.count(t, "SELECT expires FROM {places}") }
		var unlock func()
		require.Eventually(t, func() bool { // the poller may extend it before the row is locked
			s.exec(t, "UPDATE {locks} SET queued_until = queued_until - 4500")
			unlock = lockRow(t, s, r.Key)
			if s.count(t, "SELECT queued_until FROM {locks}") < end()+1500 {
				return true
			}
			unlock()
			return false
		}, time.Minute, time.Millisecond)
		first := end()
		require.Eventually(t, func() bool { return end() > first+3000 }, time.Minute, time.Millisecond)
		assert.Less(t, s.count(t, "SELECT queued_until FROM {locks}"), end())
		unlock()
		require.Eventually(t, func() bool { return s.count(t, "SELECT queued_until FROM {locks}") > end() }, time.Minute, time.Millisecond)
		require.NoError(t, d.store(t, sqlstore.Options{}).Release(t.Context(), batch[0]))
		require.NoError(t, <-granted)
	})
}

// TestAWaiterEntersAgain removes the place of a waiter. It must take a new one.
func TestAWaiterEntersAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, _ string) {
		s := d.store(t, sqlstore.Options{})
		batch := insertLeases(t, s, 1)
		outlast(t, s, batch)
		r := request(batch[0].Key)
		r.TTL = 1500 * time.Millisecond
		granted := waiting(t, s, r)
		s.exec(t, "DELETE FROM {places}")
		require.Eventually(t, func() bool { return s.count(t, "SELECT count(*) FROM {places}") == 1 }, time.Minute, time.Millisecond)
		require.NoError(t, s.Release(t.Context(), batch[0]))
		require.NoError(t, <-granted)
	})
}

// TestALockIsNotHandedToItsFormerHolder gives the holder a place before that of a waiter, as it has if it
// acquired the lock after the time had passed for which the key has places.
func TestALockIsNotHandedToItsFormerHolder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database, _ string) {
		for name, keep := range map[string]time.Duration{"released": 0, "kept": 100 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				s := d.store(t, sqlstore.Options{PollInterval: 20 * time.Millisecond})
				batch := insertLeases(t, s, 1)
				outlast(t, s, batch)
				r := request(batch[0].Key)
				granted := waiting(t, s, r)
				s.exec(t, "UPDATE {places} SET owner = ?, expires = expires + 3600000", []byte(batch[0].Owner))
				require.Eventually(t, func() bool { return s.count(t, "SELECT count(*) FROM {places}") == 2 }, time.Minute, time.Millisecond, "the waiter has entered again")
				l := batch[0]
				if keep > 0 {
					l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(keep)}
				}
				require.NoError(t, s.Release(t.Context(), l))
				assert.Zero(t, s.count(t, "SELECT count(*) FROM {places} WHERE owner = ?", []byte(l.Owner)))
				info, err := s.Inspect(t.Context(), r.Key)
				require.NoError(t, err)
				for _, holder := range info.Holders {
					assert.NotEqual(t, driver.ClientName(l.Owner), holder.Client)
				}
				require.NoError(t, <-granted)
				require.NoError(t, s.ForceRelease(t.Context(), r.Key))
				s.exec(t, "DELETE FROM {locks}")
			})
		}
	})
}

// BenchmarkHandOverByPolls hands a lock over among the waiters of 64 stores, each with a pool of its own as a process
// has. An operation is one hand-over.
func BenchmarkHandOverByPolls(b *testing.B) {
	for name, open := range map[string]func(t testing.TB, params ...string) *database{"PostgreSQL": newPostgres, "MariaDB": newMariaDB} {
		b.Run(name, func(b *testing.B) {
			d := open(b)
			dsn, driverName := mariaDB.Get(b).DSN("interpolateParams=true"), "mysql"
			if name == "PostgreSQL" {
				dsn, driverName = postgres.Get(b).DSN(), "pgx"
			}
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			granted := make(chan struct{})
			for range 64 {
				db, err := sql.Open(driverName, dsn)
				require.NoError(b, err)
				db.SetMaxOpenConns(4)
				b.Cleanup(func() { assert.NoError(b, db.Close()) })
				s := (&database{db, d.dialect, d.table}).store(b, sqlstore.Options{PollInterval: 100 * time.Millisecond})
				wg.Go(func() {
					for ctx.Err() == nil {
						r := request("k")
						l, err := s.Wait(ctx, r, func() {})
						if err != nil {
							assert.ErrorIs(b, err, context.Canceled)
							_ = s.Release(context.Background(), driver.Lease{Request: r}) // it has left, or has the lock
							continue
						}
						select {
						case granted <- struct{}{}:
						case <-ctx.Done():
						}
						l.Request = r
						assert.NoError(b, s.Release(context.Background(), l))
					}
				})
			}
			for range 200 { // until the pace is known
				<-granted
			}
			for b.Loop() {
				<-granted
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hand-overs/s")
			cancel()
			wg.Wait()
		})
	}
}
