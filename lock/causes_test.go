package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestInspectNamesTheCauseOfItsContext(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		b.loseAnswers(hang(locktest.Inspect))
		for _, cause := range []error{&lock.HeldError{Key: "other"}, lock.ErrNotHeld, lock.ErrClosed, errIO} {
			c, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			_, err := b.Inspect(c, "k")
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, `inspect "k"`)
		}
		time.AfterFunc(time.Second, func() { _ = b.Close(ctx) })
		_, err := b.Inspect(ctx, "k")
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}

// The context of an unlocked handle ends with ErrNotHeld. As an answer of a store, this error
// would mean that the lock is released.
func TestTheCauseOfTheContextOfCloseReleasesNothing(t *testing.T) {
	for name, cause := range map[string]error{"ErrNotHeld": lock.ErrNotHeld, "another": errIO} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.lock("k")
				b.loseRequests(hang(locktest.Release))
				c, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(cause) })
				err := b.Close(c)
				require.ErrorContains(t, err, "1 of 1 locks not released")
				require.ErrorIs(t, err, cause)
				synctest.Wait()
				assert.Equal(t, 1, b.mem.Len())
			})
		})
	}
}

// A Multi whose context has ended must not continue to wait, even if the cause of the context
// is a HeldError.
func TestAMultiEndsWithItsContextWhateverTheCause(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		held := b.lock("b")
		for name, l := range map[string]lock.Locker{"package lock": b.Mutex("b"), "of other making": passing{b.Mutex("b")}} {
			for _, cause := range []error{&lock.HeldError{Key: "other"}, lock.ErrNotAcquired, lock.ErrClosed} {
				c, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(cause) })
				began := time.Now()
				_, err := lock.Multi(b.Mutex("a"), l).Lock(c)
				require.ErrorIs(t, err, cause, name)
				assert.Less(t, time.Since(began), 2*time.Second)
				settle(time.Second)
				require.NoError(t, b.lock("a").Unlock(ctx), "it was given back")
			}
		}
		require.NoError(t, held.Unlock(ctx))
	})
}

// passing is a foreign Locker whose Lock returns the cause of its context.
type passing struct{ lock.Locker }

func (p passing) Lock(ctx context.Context) (*lock.Held, error) {
	h, err := p.Locker.Lock(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	return h, err
}
