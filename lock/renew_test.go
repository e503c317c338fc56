package lock_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestRenewNow(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		settle(3 * time.Second)
		require.NoError(t, h.Renew(ctx, 0))
		assert.Equal(t, 1, b.calls(locktest.Renew))
		assert.WithinDuration(t, time.Now().Add(29_400*time.Millisecond), h.Deadline(), time.Millisecond)
		assert.Equal(t, ttl, b.mem.ExpiresIn("k"))
		settle(9 * time.Second)
		assert.Equal(t, 1, b.calls(locktest.Renew), "the next renewal is a period later")
		settle(2 * time.Second)
		assert.Equal(t, 2, b.calls(locktest.Renew))
	})
}

func TestRenewWithALongerTTL(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		require.NoError(t, h.Renew(ctx, 10*time.Minute))
		assert.Equal(t, 10*time.Minute, b.mem.ExpiresIn("k"))
		assert.WithinDuration(t, time.Now().Add(588*time.Second), h.Deadline(), time.Millisecond)
		settle(3 * time.Minute)
		assert.Equal(t, 1, b.calls(locktest.Renew))
		b.loseRequests(always(locktest.Renew, errIO))
		settle(3 * time.Minute)
		assert.True(t, h.Valid(), "it survives an outage of minutes")
		b.heal()
		settle(time.Hour)
		assert.True(t, h.Valid())
		assert.Greater(t, b.mem.ExpiresIn("k"), 6*time.Minute, "renewals in the background have the new TTL")
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestRenewWithAShorterTTL(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		deadline := h.Deadline()
		require.NoError(t, h.Renew(ctx, 3*time.Second))
		assert.Equal(t, deadline, h.Deadline(), "the deadline never moves back")
		settle(time.Minute)
		assert.Greater(t, b.calls(locktest.Renew), 50)
		assert.LessOrEqual(t, b.mem.ExpiresIn("k"), 3*time.Second)
		b.loseRequests(always(locktest.Renew, errIO))
		start := time.Now()
		<-h.Done()
		assert.Less(t, time.Since(start), 3*time.Second)
	})
}

// A Fixed lease ends one TTL after the last Renew, and is not renewed in the background.
func TestRenewOfAFixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h, err := b.With(lock.Terms{TTL: 10 * time.Second, Fixed: true}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		for range 5 {
			settle(8 * time.Second)
			require.NoError(t, h.Renew(ctx, 0))
		}
		require.NoError(t, h.Renew(ctx, time.Minute))
		start := time.Now()
		<-h.Done()
		assert.InDelta(t, 58.8, time.Since(start).Seconds(), 0.1)
		assert.Equal(t, 6, b.calls(locktest.Renew))
		require.ErrorIs(t, h.Renew(ctx, 0), lock.ErrLost)
		assert.Equal(t, 6, b.calls(locktest.Renew), "no request is sent for a lock that has ended")
	})
}

func TestRenewDoesNotMoveTheEndOfMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h, err := b.With(lock.Terms{MaxHold: time.Minute}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, h.Renew(ctx, time.Hour))
		<-h.Done()
		assert.InDelta(t, 60, time.Since(start).Seconds(), 0.1)
	})
}

func TestRenewRefusesTTLs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		for _, wrong := range []time.Duration{-1, time.Nanosecond, lock.MinTTL - 1, lock.MinTTL, lock.MaxTTL + time.Millisecond} {
			err := h.Renew(ctx, wrong)
			require.ErrorIs(t, err, lock.ErrBadTTL, wrong)
			require.ErrorContains(t, err, `renew "k"`)
		}
		var none context.Context
		require.Error(t, h.Renew(none, 0))
		assert.Zero(t, b.calls(locktest.Renew), "no IO")
		require.NoError(t, h.Err())
		require.NoError(t, h.Renew(ctx, time.Second+999*time.Microsecond))
		settle(time.Minute)
		assert.LessOrEqual(t, b.mem.ExpiresIn("k"), time.Second, "whole milliseconds, never more than asked")
	})
}

func TestRenewOfALockThatIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var zero lock.Held
		require.ErrorIs(t, zero.Renew(ctx, 0), lock.ErrNotHeld)
		require.ErrorIs(t, (*lock.Held)(nil).Renew(ctx, 0), lock.ErrNotHeld)
		h := b.lock("k")
		require.NoError(t, h.Unlock(ctx))
		require.ErrorIs(t, h.Renew(ctx, 0), lock.ErrNotHeld)
		assert.Zero(t, b.calls(locktest.Renew))
		last := b.lock("k")
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, last.Renew(ctx, 0), lock.ErrClosed)
	})
}

// The store denies the ownership: every handle is told at once.
func TestRenewFindsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.mem.Delete("k")
		err := h.Renew(ctx, 0)
		require.ErrorIs(t, err, lock.ErrLost)
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		<-h.Done()
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
	})
}

func TestRenewWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(once(locktest.Renew, errIO))
		require.NoError(t, h.Renew(ctx, 0), "one failure is tolerated")

		var hung atomic.Bool
		b.loseRequests(func(ctx context.Context, op locktest.Op) error {
			if op == locktest.Renew && hung.CompareAndSwap(false, true) {
				return hang(op)(ctx, op)
			}
			return nil
		})
		require.NoError(t, h.Renew(ctx, 0), "so is a request without an answer")

		settle(time.Second)
		deadline := h.Deadline()
		b.loseRequests(always(locktest.Renew, errIO))
		err := h.Renew(ctx, time.Hour)
		require.ErrorIs(t, err, errIO)
		require.NotErrorIs(t, err, lock.ErrLost)
		assert.Equal(t, deadline, h.Deadline())
		assert.True(t, h.Valid(), "it is held as before")

		b.loseRequests(hang(locktest.Renew))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, h.Renew(short, 0), context.DeadlineExceeded)
		require.ErrorIs(t, h.Renew(ctx, 0), lock.ErrLost, "it does not wait for longer than the lease lasts")
		assert.False(t, h.Valid())
	})
}

// A renewal with the longer TTL was executed, but not answered. The holder must not count on
// it, and the next renewal in the background is a shorter one.
func TestRenewWhoseAnswerIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseAnswers(always(locktest.Renew, errIO))
		require.ErrorIs(t, h.Renew(ctx, time.Hour), errIO)
		assert.Equal(t, time.Hour, b.mem.ExpiresIn("k"))
		assert.LessOrEqual(t, time.Until(h.Deadline()), ttl)
		b.heal()
		settle(10 * time.Minute)
		assert.True(t, h.Valid())
		assert.LessOrEqual(t, time.Until(h.Deadline()), ttl)
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len(), "others need not wait for the hour")
	})
}

// A renewal in the background that was sent with the old TTL arrives after the longer one. It
// must not shorten the lease.
func TestALateRenewalDoesNotShortenALease(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		sent, arrive := make(chan struct{}), make(chan struct{})
		var once sync.Once
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			late := false
			if op == locktest.Renew {
				once.Do(func() { late = true })
			}
			if late {
				close(sent)
				<-arrive
			}
			return nil
		})
		<-sent
		require.NoError(t, h.Renew(ctx, time.Hour))
		deadline := h.Deadline()
		close(arrive)
		synctest.Wait()
		assert.Greater(t, b.mem.ExpiresIn("k"), 59*time.Minute)
		assert.Equal(t, deadline, h.Deadline())
	})
}

// All handles of a reentrant lock have one lease.
func TestRenewOfAReentrantLock(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer, err := b.Reentrant("k").Lock(ctx)
		require.NoError(t, err)
		inside, stop := outer.Context(ctx)
		defer stop()
		inner, err := b.Reentrant("k").Lock(inside)
		require.NoError(t, err)
		require.NoError(t, inner.Renew(ctx, time.Hour))
		assert.Greater(t, time.Until(outer.Deadline()), 50*time.Minute)
		require.NoError(t, outer.Unlock(ctx))
		require.ErrorIs(t, outer.Renew(ctx, 0), lock.ErrNotHeld)
		require.NoError(t, inner.Renew(ctx, 2*time.Hour))
		require.NoError(t, inner.Unlock(ctx))
		require.ErrorIs(t, inner.Renew(ctx, 0), lock.ErrNotHeld)
	})
}

func TestRenewOfAMulti(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h, err := lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Batch("g", "x", "y")).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Renew(ctx, time.Hour))
		for _, key := range []string{"a", "b", "g"} {
			assert.Equal(t, time.Hour, b.mem.ExpiresIn(key))
		}
		assert.Greater(t, time.Until(h.Deadline()), 50*time.Minute)
		b.mem.Delete("b")
		err = h.Renew(ctx, 0)
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorContains(t, err, `"b"`)
		assert.False(t, h.Valid())
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, h.Renew(ctx, 0), lock.ErrNotHeld)
	})
}

// A writer with another TTL becomes a reader with that TTL.
func TestDowngradeKeepsAChangedTTL(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		w := b.wlock("k")
		require.NoError(t, w.Renew(ctx, time.Hour))
		r, err := b.RWMutex("k").Downgrade(ctx, w)
		require.NoError(t, err)
		require.ErrorIs(t, w.Renew(ctx, 0), lock.ErrNotHeld)
		assert.Greater(t, time.Until(r.Deadline()), 50*time.Minute)
		settle(2 * time.Hour)
		assert.True(t, r.Valid())
		assert.Greater(t, b.mem.ExpiresIn("k"), 30*time.Minute)
		require.NoError(t, r.Unlock(ctx))
	})
}

// Renewals at the same time are all confirmed. The last answer decides the TTL.
func TestConcurrentRenews(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { assert.NoError(t, h.Renew(ctx, time.Duration(i+1)*time.Minute)) })
		}
		wg.Wait()
		assert.WithinDuration(t, time.Now().Add(49*time.Minute), h.Deadline(), time.Second)
		settle(3 * time.Hour)
		assert.True(t, h.Valid())
		require.NoError(t, h.Unlock(ctx))
	})
}

// A program that has used up the connections of its own pool cannot blame the server for a loss.
func TestALossWithoutARequestIsNotTheServersFault(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.store.Over(unsentStore{b.mem})
		h := b.lock("k")
		<-h.Done()
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.ErrorIs(t, lost, os.ErrDeadlineExceeded)
		assert.Equal(t, renewal.CauseUnknown, lost.Cause())
		assert.Contains(t, lost.Seen(), "2 renewals not sent within ")
	})
}

// unsentStore never has a connection for a renewal.
type unsentStore struct{ driver.Store }

func (unsentStore) Renew(context.Context, []driver.Lease, []renewal.Outcome) error {
	return driver.NotSent.Error(os.ErrDeadlineExceeded)
}
