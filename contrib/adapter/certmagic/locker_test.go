package certmagiclock_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

var (
	_ certmagic.Locker           = (*certmagiclock.Locker)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Locker)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Locker)(nil)
	_ certmagic.Storage          = (*certmagiclock.Storage)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Storage)(nil)
)

// bubble calls test in virtual time with two lockers of one store.
func bubble(t *testing.T, test func(t *testing.T, store *memstore.Store, a, b *certmagiclock.Locker)) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		o := &certmagiclock.Options{Logger: new(record).logger()}
		test(t, store, certmagiclock.New(adaptertest.NewClient(t, adaptertest.Process{Store: store}), o), certmagiclock.New(adaptertest.NewClient(t, adaptertest.Process{Store: store}), o))
	})
}

// tryLock returns whether TryLock has locked the name.
func tryLock(t *testing.T, l *certmagiclock.Locker) bool {
	t.Helper()
	ok, err := l.TryLock(t.Context(), name)
	require.NoError(t, err)
	return ok
}

func TestExclusion(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, a, b *certmagiclock.Locker) {
		require.NoError(t, a.Lock(t.Context(), name))
		time.Sleep(time.Hour) // the lease is renewed
		assert.False(t, tryLock(t, b))
		assert.False(t, tryLock(t, a), "in the same process, too")
		assert.NoError(t, a.RenewLockLease(t.Context(), name, time.Hour))
		unlocked := false
		go func() {
			time.Sleep(time.Minute)
			unlocked = true
			ended, end := context.WithCancel(t.Context())
			end()
			assert.NoError(t, a.Unlock(ended, name))
		}()
		require.NoError(t, b.Lock(t.Context(), name))
		assert.True(t, unlocked)
		assert.NoError(t, b.Unlock(t.Context(), name))
		assert.True(t, tryLock(t, a))
		assert.NoError(t, a.Unlock(t.Context(), name))
		assert.Zero(t, store.Len())
	})
}

func TestALeaseIsNotLongerThanItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := adaptertest.NewClient(t, memstore.New())
		locker := certmagiclock.New(client, &certmagiclock.Options{Prefix: "caddy/"})
		require.NoError(t, locker.Lock(t.Context(), name))
		require.NoError(t, locker.RenewLockLease(t.Context(), name, 6*time.Hour))
		info, err := client.Inspect(t.Context(), "caddy/"+name)
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.LessOrEqual(t, info.Holders[0].ExpiresIn, 30*time.Second)
	})
}

func TestErrorsOfNames(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memstore.Store, a, b *certmagiclock.Locker) {
		assert.ErrorIs(t, a.Unlock(t.Context(), name), lock.ErrNotHeld)
		assert.ErrorIs(t, a.RenewLockLease(t.Context(), name, 0), lock.ErrNotHeld)
		assert.ErrorIs(t, a.Lock(t.Context(), string(make([]byte, lock.MaxKeyLen))), lock.ErrBadKey)
		assert.Error(t, certmagiclock.New(nil, nil).Lock(t.Context(), name))

		require.NoError(t, a.Lock(t.Context(), name))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.Lock(ctx, name)
		assert.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = b.TryLock(ctx, name)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "that ctx has ended is no answer")
	})
}

// TestALostLock takes a lock away. Another instance may then have it, and Unlock of the first
// one leaves it alone.
func TestALostLock(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, a, b *certmagiclock.Locker) {
		require.NoError(t, a.Lock(t.Context(), name))
		store.Delete(key)
		require.True(t, tryLock(t, b))
		assert.ErrorIs(t, a.RenewLockLease(t.Context(), name, 0), lock.ErrNotAcquired)
		assert.ErrorIs(t, a.RenewLockLease(t.Context(), name, 0), lock.ErrNotAcquired, "nor at the next try")
		assert.ErrorIs(t, a.Unlock(t.Context(), name), lock.ErrLost)
		assert.ErrorIs(t, a.Unlock(t.Context(), name), lock.ErrNotHeld)
		assert.False(t, tryLock(t, a))
		assert.NoError(t, b.Unlock(t.Context(), name))
	})
}

// TestALostLockIsLockedAgain makes a lock that was lost valid again by RenewLockLease.
func TestALostLockIsLockedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, a, b *certmagiclock.Locker) {
		require.NoError(t, a.Lock(t.Context(), name))
		store.Delete(key)
		require.NoError(t, a.RenewLockLease(t.Context(), name, 0))
		time.Sleep(time.Hour)
		assert.False(t, tryLock(t, b))
		assert.NoError(t, a.Unlock(t.Context(), name))
		assert.True(t, tryLock(t, b))
	})
}

// TestALockThatReachesItsMaxHold is lost, but the store has it for another TTL.
func TestALockThatReachesItsMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := adaptertest.NewClient(t, memstore.New()).With(lock.Terms{MaxHold: time.Minute})
		locker := certmagiclock.New(client, &certmagiclock.Options{Logger: new(record).logger()})
		require.NoError(t, locker.Lock(t.Context(), name))
		time.Sleep(time.Minute + time.Second)
		require.False(t, tryLock(t, locker))
		assert.NoError(t, locker.RenewLockLease(t.Context(), name, 0), "it is given back first")
	})
}

// TestALostNameThatThisProcessLocksAgain has two holders of a name in one process, of which one has
// lost its lock. The valid lock stays until both have unlocked, in either order.
func TestALostNameThatThisProcessLocksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store, a, b *certmagiclock.Locker) {
		require.NoError(t, a.Lock(t.Context(), name))
		store.Delete(key)
		require.NoError(t, a.Lock(t.Context(), name))
		time.Sleep(time.Minute) // the first holder is told
		assert.ErrorIs(t, a.RenewLockLease(t.Context(), name, 0), lock.ErrLost)
		assert.ErrorIs(t, a.Unlock(t.Context(), name), lock.ErrLost)
		assert.NoError(t, a.RenewLockLease(t.Context(), name, 0))
		assert.False(t, tryLock(t, b))
		assert.NoError(t, a.Unlock(t.Context(), name))
		assert.True(t, tryLock(t, b))
	})
}

func TestUnlockDuringRenewLockLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		other := adaptertest.NewClient(t, adaptertest.Process{Store: store})
		locker := certmagiclock.New(adaptertest.NewClient(t, pausing{adaptertest.Process{Store: store}}), nil)
		require.NoError(t, locker.Lock(t.Context(), name))
		store.Delete(key)
		renewed := make(chan error)
		go func() { renewed <- locker.RenewLockLease(context.WithValue(t.Context(), slow{}, true), name, 0) }()
		synctest.Wait()
		assert.ErrorIs(t, locker.Unlock(t.Context(), name), lock.ErrLost)
		assert.ErrorIs(t, <-renewed, lock.ErrNotHeld)
		_, err := other.Mutex(key).TryLock(t.Context())
		assert.NoError(t, err, "no lock is left")
	})
}

func TestTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log record
		client := adaptertest.NewClient(t, memstore.New())
		locker := certmagiclock.New(client, &certmagiclock.Options{Logger: log.logger()})
		require.NoError(t, locker.Lock(t.Context(), name))
		require.NoError(t, client.Close(t.Context()))
		synctest.Wait()
		assert.ErrorIs(t, locker.RenewLockLease(t.Context(), name, 0), lock.ErrClosed)
		assert.ErrorIs(t, locker.Unlock(t.Context(), name), lock.ErrClosed)
		assert.ErrorIs(t, locker.Lock(t.Context(), name), lock.ErrClosed)
		assert.Empty(t, log.String(), "no lock was lost")
	})
}

// The Logger of a Locker follows the rules of the library's: losses do not flood it, and nothing waits for it.
func TestTheLogOfAMassLossIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log record
		store := memstore.New()
		client := adaptertest.NewClient(t, store)
		locker := certmagiclock.New(client, &certmagiclock.Options{Logger: log.logger()})
		for i := range 150 {
			require.NoError(t, locker.Lock(t.Context(), strconv.Itoa(i)))
			store.Delete("certmagic/" + strconv.Itoa(i))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 100, strings.Count(log.String(), "\n"))
		require.NoError(t, client.Close(context.Background()))
	})
}

func TestAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := (&locktest.Faulty{Before: func(context.Context, locktest.Op) error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}}).Over(memstore.New())
		locker := certmagiclock.New(adaptertest.NewClient(t, store), nil)
		require.NoError(t, locker.Lock(t.Context(), "a"))
		down.Store(true)
		ok, err := locker.TryLock(t.Context(), "b")
		assert.False(t, ok)
		assert.ErrorIs(t, err, lock.ErrUnavailable)
		assert.ErrorIs(t, locker.Lock(t.Context(), "b"), lock.ErrUnavailable)
		assert.ErrorIs(t, locker.RenewLockLease(t.Context(), "a", 0), lock.ErrUnavailable)
		down.Store(false)
	})
}

func TestStorage(t *testing.T) {
	files := &certmagic.FileStorage{Path: t.TempDir()}
	storage := certmagiclock.Wrap(lockless{files, t}, adaptertest.NewClient(t, memstore.New()), nil)
	assert.Equal(t, files.String()+", with locks of leasewheel", storage.String())
	require.NoError(t, storage.Store(t.Context(), "k", []byte("v")))
	assert.True(t, files.Exists(t.Context(), "k"), "data is in the storage that was wrapped")
	ok, err := storage.TryLock(t.Context(), name)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.NoError(t, storage.RenewLockLease(t.Context(), name, time.Hour))
	assert.NoError(t, storage.Unlock(t.Context(), name))
	assert.NoError(t, storage.Lock(t.Context(), name))
	assert.NoError(t, storage.Unlock(t.Context(), name))
}
