package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// An error is read in a log, where nothing else tells of which lock it speaks.
func TestErrorsNameThePackageAndTheKeyOnce(t *testing.T) {
	waiting(t, &lock.Options{MaxWaiters: 1}, func(t *testing.T, b *bench) {
		says := func(want string, err error) {
			t.Helper()
			require.EqualError(t, err, want)
		}
		lockFor := func(ctx context.Context, l lock.Locker) error {
			_, err := l.Lock(ctx)
			return err
		}
		says(`lock: bad key: it is empty`, lockFor(ctx, b.Mutex("")))
		says(`lock: "k": the context is nil`, lockFor(nil, b.Mutex("k")))
		says(`lock: "k": the limit of a semaphore must be 1 to 100000, got 0`, lockFor(ctx, b.Semaphore("k", 0)))
		says(`lock: "k": bad members: there must be 1 to 10000, got 0`, lockFor(ctx, b.Batch("k")))
		says(`lock: "k": the name of a candidate must have 1 to 1024 bytes, got 0`, lockFor(ctx, b.Election("k", "")))
		says(`lock: force the release of "k": not held`, b.ForceRelease(ctx, "k"))

		held := b.lock("k")
		short, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("out of patience"))
		defer cancel()
		failed := make(chan error, 1)
		go func() { failed <- lockFor(short, b.Mutex("k")) }()
		settle(time.Millisecond)
		says(`lock: "k": as many calls of Lock are waiting as Options.MaxWaiters allows`, lockFor(ctx, b.Mutex("k")))
		says(`lock: "k": not acquired: out of patience`, <-failed)
		says(`lock: "k": not acquired: out of patience`, lockFor(short, b.Mutex("k")))
		require.NoError(t, held.Unlock(ctx))
		says(`lock: unlock "k": not held`, held.Unlock(ctx))

		held = b.lock("k")
		b.loseRequests(always(locktest.Release, errIO))
		says(`lock: unlock "k": not confirmed yet: connection reset`, held.Unlock(ctx))
		b.loseRequests(always(locktest.Acquire, errIO))
		_, err := b.Mutex("j").TryLock(ctx)
		says(`lock: "j": connection reset`, err)
		b.loseRequests(always(locktest.Acquire, fmt.Errorf(`store: acquire "j": %w`, errIO)))
		_, err = b.Mutex("j").TryLock(ctx)
		says(`lock: store: acquire "j": connection reset`, err)
		b.heal()

		require.NoError(t, b.Close(ctx))
		_, err = b.Inspect(ctx, "k")
		says(`lock: inspect "k": client is closed`, err)
		says(`lock: this Client was not made by New`, new(lock.Client).Close(ctx))
	})
}

func TestTheErrorOfAMultiNamesTheKeyOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("a")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := b.all("a", "b").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, `lock: not acquired: context deadline exceeded: "a" is held by another`)
	})
}

const lostText = `renewal: lease lost: the store has it no more`

func TestALossNamesTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		first := b.reentrant("k")
		again, inside := b.again(first)
		whole := lockAll(t, b.all("a", "b"))
		b.mem.Delete("k")
		b.mem.Delete("b")
		<-first.Done()
		<-again.Done()
		<-whole.Done()
		<-inside.Done()
		for _, err := range []error{first.Err(), again.Err(), context.Cause(inside)} {
			require.EqualError(t, err, `lock: "k": `+lostText)
			require.ErrorIs(t, err, lock.ErrLost)
			require.ErrorIs(t, err, first.Err(), "the answer does not change")
			var lost *renewal.LostError
			require.ErrorAs(t, err, &lost)
			assert.Equal(t, renewal.NotOwned, lost.Reason)
		}
		require.EqualError(t, whole.Err(), `lock: "b": `+lostText)
		require.EqualError(t, whole.Unlock(ctx), `lock: unlock "b": `+lostText)
		require.EqualError(t, again.Unlock(ctx), `lock: unlock "k": `+lostText)
		require.EqualError(t, again.Err(), `lock: "k": `+lostText)
		require.EqualError(t, first.Unlock(ctx), `lock: unlock "k": `+lostText)
	})
}

// The wheel fires a few milliseconds after the deadline, so a look at it comes first.
func TestALossThatNoTimerHasToldOfNamesTheKey(t *testing.T) {
	for _, look := range []func(*lock.Held) error{
		func(h *lock.Held) error { return h.Err() },
		func(h *lock.Held) error { return h.Unlock(ctx) },
	} {
		bubbleWith(t, &lock.Options{Terms: lock.Terms{Fixed: true}}, func(t *testing.T, b *bench) {
			again, _ := b.again(b.reentrant("k"))
			time.Sleep(time.Until(again.Deadline()))
			require.ErrorIs(t, look(again), lock.ErrLost)
			require.EqualError(t, again.Err(), `lock: "k": renewal: lease lost: its deadline passed`)
		})
	}
}

func TestTheEndOfAMemberNamesItsKey(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		whole := lockAll(t, b.all("a", "b"))
		require.NoError(t, whole.Members()[1].Unlock(ctx))
		require.EqualError(t, whole.Err(), `lock: "b": not held`)
		require.ErrorIs(t, whole.Err(), lock.ErrNotHeld)
		require.EqualError(t, whole.Unlock(ctx), `lock: unlock "b": not held`)
	})
}

// Who returns why the ctx ended has told of the loss.
func TestDoTellsOfALossOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		lose := func(then func(ctx context.Context) error) error {
			return lock.Do(ctx, b.Mutex("k"), func(ctx context.Context) error {
				b.mem.Delete("k")
				<-ctx.Done()
				return then(ctx)
			})
		}
		err := lose(func(ctx context.Context) error { return fmt.Errorf("work: %w", context.Cause(ctx)) })
		require.EqualError(t, err, `work: lock: "k": `+lostText)
		require.ErrorIs(t, err, lock.ErrLost)

		other := &renewal.LostError{Reason: renewal.NotOwned}
		err = lose(func(context.Context) error { return other })
		require.EqualError(t, err, lostText+"\n"+`lock: unlock "k": `+lostText, "that of another lock is not this one's")
	})
}

func TestAQuorumNamesThePackageOnce(t *testing.T) {
	q, err := lock.Quorum(memstore.New())
	require.NoError(t, err)
	r := lock.Request{Key: "k", Owner: "o", TTL: ttl}
	require.ErrorIs(t, q.Release(ctx, lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
	_, err = q.Acquire(ctx, r)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.EqualError(t, err, "lock: quorum: not acquired: the acquisition was given up")
	require.NoError(t, closeStore(q))
}

func TestAQuorumRefusesANilContext(t *testing.T) {
	q, err := lock.Quorum(memstore.New())
	require.NoError(t, err)
	var none context.Context
	l := lock.Lease{Request: lock.Request{Key: "k", Owner: "o", TTL: ttl}}
	_, acquired := q.Acquire(none, l.Request)
	_, inspected := q.(lock.Inspector).Inspect(none, "k")
	for _, err := range []error{
		acquired, inspected, q.(lock.Inspector).ForceRelease(none, "k"), q.Release(none, l), q.Renew(none, []lock.Lease{l}, make([]renewal.Outcome, 1)),
	} {
		require.EqualError(t, err, "lock: the context is nil")
	}
	require.NoError(t, closeStore(q))
}
