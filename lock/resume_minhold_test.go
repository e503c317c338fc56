package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// An exported MinHold is a duration. If it were an instant, a resumer whose clock is ahead would
// free the lock too early, just as after a long time between Export and Resume.
func TestAResumedLockKeepsTheRestOfItsMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		c := b.other(nil)
		for key, l := range map[string]lock.Locker{"k": b.Mutex("k"), "g": b.Batch("g", "x", "y")} {
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			text := export(t, h)
			time.Sleep(2 * minHold)
			resumed := resume(t, c, text)
			require.NoError(t, h.Detach())
			time.Sleep(time.Minute)
			require.NoError(t, resumed.Unlock(ctx))
			assert.Equal(t, minHold-2*time.Minute, b.rest(key))
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			time.Sleep(minHold - 2*time.Minute)
			next, err := l.TryLock(ctx)
			require.NoError(t, err)
			assert.Greater(t, next.Token(), resumed.Token())
		}
	})
}

// The longer MinHold counts: what was left of the exporter's, or that of the resumer.
func TestTheMinHoldOfTheResumingClient(t *testing.T) {
	const held = time.Minute
	for name, c := range map[string]struct{ exporter, resumer, rest time.Duration }{
		"none":             {lock.NoMinHold, lock.NoMinHold, 0},
		"of the resumer":   {lock.NoMinHold, minHold, minHold},
		"of the exporter":  {minHold, lock.NoMinHold, minHold - held},
		"longer resumer":   {minHold, 2 * minHold, 2 * minHold},
		"shorter resumer":  {minHold, minHold - held - 1, minHold - held},
		"exporter is over": {held, lock.NoMinHold, 0},
	} {
		t.Run(name, func(t *testing.T) {
			keeping(t, func(t *testing.T, b *bench) {
				h, err := b.With(lock.Terms{MinHold: c.exporter}).Mutex("k").Lock(ctx)
				require.NoError(t, err)
				time.Sleep(held)
				resumed := resume(t, b.With(lock.Terms{MinHold: c.resumer}), export(t, h))
				require.NoError(t, h.Detach())
				again := resume(t, b.other(nil), export(t, resumed)) // and on to a third process
				require.NoError(t, resumed.Detach())
				require.NoError(t, again.Unlock(ctx))
				assert.Equal(t, c.rest, b.rest("k"))
			})
		})
	}
}

func TestMinHoldOfAResumedLockCountsFromTheAnswer(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		text := export(t, b.lock("k"))
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew {
				time.Sleep(time.Second)
			}
			return nil
		})
		h := resume(t, b.Client, text)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, minHold, b.rest("k"))
	})
}

// A loss and Close treat a resumed lock like any other.
func TestTheEndOfAResumedLockWithMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		first := b.lock("k")
		h := resume(t, b.Client, export(t, first))
		require.NoError(t, first.Detach())
		b.loseRequests(always(locktest.Renew, errIO))
		<-h.Done()
		b.heal()
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		settle(time.Second)
		assert.Zero(t, b.mem.Len())

		c := b.other(nil)
		first = b.lock("k")
		resume(t, c, export(t, first))
		require.NoError(t, first.Detach())
		require.NoError(t, c.Close(ctx))
		assert.Equal(t, minHold, b.rest("k"))
	})
}

func TestResumeRefusesAMinHoldThatHasNoMeaning(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		plain := b.With(lock.Terms{MinHold: lock.NoMinHold})
		for _, l := range []lock.Locker{plain.RWMutex("k"), plain.RWMutex("r").RLocker(), plain.Semaphore("s", 2)} {
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			text := export(t, h)
			before := b.calls(locktest.Renew)
			_, err = b.Resume(ctx, text)
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.ErrorContains(t, err, `lock: resume "`+h.Key()+`": a lock of mode `)
			assert.Equal(t, before, b.calls(locktest.Renew), "the store was not asked")
			require.NoError(t, resume(t, plain, text).Unlock(ctx))
		}
	})
}
