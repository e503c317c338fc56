package check

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// beforeEach calls f before each statement of a tap, with the number of the statement. Statements of several
// connections come at the same time. It returns a function that tells how many there were.
func beforeEach(p *tap, f func(n int64)) func() int64 {
	var n atomic.Int64
	p.onStatement(func(string) { f(n.Add(1)) })
	return n.Load
}

// TestWaitersLockNoRowBetweenStatements enters a queue and leaves it, and renews the lease of the holder before each
// statement. However long the round trips of many waiters are, the renewal must not wait for one.
func TestWaitersLockNoRowBetweenStatements(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		for _, pessimistic := range []bool{false, true} {
			holder := d.store(t, sqlstore.Options{})
			tapped, tap := newTapped(t, d, dsn)
			s := tapped.store(t, sqlstore.Options{Pessimistic: pessimistic, PollInterval: time.Hour})
			l := acquire(t, holder, request("k"))
			require.ErrorIs(t, holder.Release(t.Context(), driver.Lease{Request: request("k"), Unanswered: true}), driver.ErrNotHeld, "of another waiter")
			statements := beforeEach(tap, func(n int64) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				out := make([]renewal.Outcome, 1)
				assert.NoError(t, holder.Renew(ctx, []driver.Lease{l}, out), "statement %d", n)
				assert.Equal(t, renewal.Renewed, out[0])
			})
			r := request("k")
			ctx, cancel := context.WithCancel(t.Context())
			granted := make(chan error, 1)
			go func() {
				_, err := s.Wait(ctx, r, func() {})
				granted <- err
			}()
			require.Eventually(t, func() bool { return holder.count(t, "SELECT count(*) FROM {places}") == 1 }, time.Minute, time.Millisecond)
			cancel()
			require.ErrorIs(t, <-granted, context.Canceled)
			require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), driver.ErrNotHeld)
			assert.Zero(t, holder.count(t, "SELECT count(*) FROM {places}"))
			assert.Greater(t, statements(), int64(4))
			tap.onStatement(nil)
			require.NoError(t, holder.Release(t.Context(), l))
		}
	})
}

// TestAReleaseBeforeEachStatement releases a lock before each statement of a waiter that enters, which must get the lock.
func TestAReleaseBeforeEachStatement(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		holder := d.store(t, sqlstore.Options{})
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{})
		for at := range int64(8) { // entering takes five
			l := acquire(t, holder, request("k"))
			beforeEach(tap, func(n int64) {
				if n == at+1 {
					assert.NoError(t, holder.Release(t.Context(), l))
				}
			})
			r := request("k")
			got, err := s.Wait(t.Context(), r, func() {})
			tap.onStatement(nil)
			require.NoError(t, err, "statement %d", at+1)
			got.Request = r
			require.NoError(t, s.Release(t.Context(), got))
			require.Zero(t, holder.count(t, "SELECT count(*) FROM {places}"), "statement %d", at+1)
		}
	})
}

// TestGivenUpBeforeEachStatement gives a waiter up before each statement with which it enters. It must be refused
// and have no place. Another waiter was given up before, so the row of the lock says already that some are.
func TestGivenUpBeforeEachStatement(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		holder := d.store(t, sqlstore.Options{})
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{})
		l := acquire(t, holder, request("k"))
		giveUp := func(r driver.Request) error {
			return holder.Release(t.Context(), driver.Lease{Request: r, Unanswered: true})
		}
		require.ErrorIs(t, giveUp(request("k")), driver.ErrNotHeld)
		for at := range int64(5) {
			r := request("k")
			r.TTL = time.Second // the place is looked at three times in that time
			beforeEach(tap, func(n int64) {
				if n == at+1 {
					assert.ErrorIs(t, giveUp(r), driver.ErrNotHeld)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := s.Wait(ctx, r, func() {})
			cancel()
			tap.onStatement(nil)
			require.ErrorIs(t, err, driver.ErrNotAcquired, "statement %d", at+1)
			require.Zero(t, holder.count(t, "SELECT count(*) FROM {places}"), "statement %d", at+1)
		}
		require.NoError(t, holder.Release(t.Context(), l))
	})
}

// TestAReleaseWhileAWaiterLeaves releases a lock before each statement of a waiter that leaves the queue, which must
// not keep the lock.
func TestAReleaseWhileAWaiterLeaves(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		holder := d.store(t, sqlstore.Options{})
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{PollInterval: time.Hour})
		for at := int64(1); ; at++ {
			l, r := acquire(t, holder, request("k")), request("k")
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.Wait(ctx, r, func() { cancel() })
			require.ErrorIs(t, err, context.Canceled)
			released := false
			beforeEach(tap, func(n int64) {
				if n == at {
					released = true
					assert.NoError(t, holder.Release(t.Context(), l))
				}
			})
			err = s.Release(t.Context(), driver.Lease{Request: r})
			tap.onStatement(nil)
			if !released {
				require.ErrorIs(t, err, driver.ErrNotHeld)
				require.EqualValues(t, 4, at, "one more than the statements that leave")
				return
			}
			next := acquire(t, holder, request("k"))
			require.NoError(t, holder.Release(t.Context(), next))
			require.Zero(t, holder.count(t, "SELECT count(*) FROM {places}"), "statement %d", at)
		}
	})
}

// TestALeavingWaiterTellsTheNext lets two waiters of one store leave, of which only the first is before a third.
// The third must ask at once only when the first leaves.
func TestALeavingWaiterTellsTheNext(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, d *database, dsn string) {
		l := acquire(t, d.store(t, sqlstore.Options{}), request("k"))
		tapped, tap := newTapped(t, d, dsn)
		s := tapped.store(t, sqlstore.Options{PollInterval: time.Hour})
		wait := func(r driver.Request) (leave func()) {
			ctx, cancel := context.WithCancel(t.Context())
			queued, left := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := s.Wait(ctx, r, func() { close(queued) })
				left <- err
			}()
			<-queued
			return func() {
				cancel()
				assert.ErrorIs(t, <-left, context.Canceled)
				assert.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), driver.ErrNotHeld)
			}
		}
		leaveFirst, leaveSecond := wait(request("k")), wait(request("k"))
		leaveThird := wait(request("k"))
		var asks atomic.Int64
		tap.onStatement(func(text string) {
			if strings.HasPrefix(text, "WITH seen") || strings.Contains(text, " kind, owner, token, expires, queued_until, refused_until, TIME") {
				asks.Add(1)
			}
		})
		leaveSecond()
		assert.Zero(t, asks.Load())
		leaveFirst()
		require.Eventually(t, func() bool { return asks.Load() > 0 }, time.Minute, time.Millisecond)
		tap.onStatement(nil)
		leaveThird()
		require.NoError(t, s.Release(t.Context(), l))
	})
}
