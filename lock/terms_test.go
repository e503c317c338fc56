package lock_test

import (
	"context"
	"errors"
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

func TestHandlesAreWanted(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		var other []*lock.Held
		asks := func(h *lock.Held, by lock.Locker) {
			t.Helper()
			assert.False(t, closed(h.Wanted()))
			got := make(chan *lock.Held)
			go func() {
				held, err := by.Lock(ctx)
				assert.NoError(t, err)
				got <- held
			}()
			select {
			case <-h.Wanted():
			case <-time.After(time.Second):
				require.Fail(t, "the holder is not told")
			}
			require.NoError(t, h.Unlock(ctx))
			assert.True(t, closed(h.Wanted()), "the channel stays closed")
			other = append(other, <-got)
		}
		lockOf := func(l lock.Locker) *lock.Held {
			t.Helper()
			held, err := l.Lock(ctx)
			require.NoError(t, err)
			return held
		}
		c := b.With(lock.Terms{Yields: true}).With(lock.Terms{TTL: time.Minute})
		asks(lockOf(c.Mutex("mutex")), b.Mutex("mutex"))
		asks(lockOf(c.Election("election", "a")), b.Election("election", "b"))
		asks(lockOf(c.RWMutex("writer")), b.RWMutex("writer").RLocker())
		asks(lockOf(lock.Multi(b.Mutex("a"), c.Mutex("b"), c.Mutex("c"))), b.Mutex("c"))

		rw := c.RWMutex("downgraded")
		reader, err := rw.Downgrade(ctx, lockOf(rw))
		require.NoError(t, err)
		asks(reader, b.RWMutex("downgraded"))

		outer := lockOf(c.Reentrant("reentrant"))
		inside, stop := outer.Context(ctx)
		defer stop()
		inner, err := c.Reentrant("reentrant").Lock(inside)
		require.NoError(t, err)
		require.NoError(t, outer.Unlock(ctx))
		asks(inner, b.Reentrant("reentrant"))

		plain := b.lock("plain")
		assert.Nil(t, plain.Wanted())
		assert.Nil(t, new(lock.Held).Wanted())
		assert.Nil(t, lockOf(lock.Multi(b.Mutex("d"))).Wanted())
		for _, h := range other {
			require.NoError(t, h.Unlock(ctx))
		}

		_, err = c.Semaphore("s", 1).Lock(ctx)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = lockOf(c.Mutex("exported")).Export()
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestWithInheritsTheTermsOfItsClient(t *testing.T) {
	o := &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second, MaxHold: time.Minute, Metadata: "host-1"}}
	waiting(t, o, func(t *testing.T, b *bench) {
		shown := func(c *lock.Client) driver.Holder {
			t.Helper()
			h, err := c.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			info, err := c.Inspect(ctx, "k")
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			return info.Holders[0]
		}
		assert.Equal(t, "host-1", shown(b.With(lock.Terms{TTL: 3 * time.Second})).Metadata)
		assert.Equal(t, 3*time.Second, shown(b.With(lock.Terms{TTL: 3*time.Second + 999*time.Microsecond})).ExpiresIn, "whole milliseconds, never more than asked")
		again := b.With(lock.Terms{TTL: 3 * time.Second}).With(lock.Terms{Metadata: "job-7"})
		assert.Equal(t, "job-7", shown(again).Metadata)
		assert.Equal(t, 3*time.Second, shown(again).ExpiresIn, "of the client that With was called of")

		_, err := b.With(lock.Terms{TTL: 1}).With(lock.Terms{Metadata: "m"}).Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadTTL, "bad terms are inherited")
		h, err := b.With(lock.Terms{TTL: 1}).With(lock.Terms{TTL: time.Second}).Mutex("k").Lock(ctx)
		require.NoError(t, err, "and replaced")
		require.NoError(t, h.Unlock(ctx))
	})
}

// Each client of this table locks for as long as its terms allow.
func TestMaxHoldAndFixedReplaceEachOther(t *testing.T) {
	const hold, fixed, none = time.Minute, 10 * time.Second, time.Duration(0)
	for name, c := range map[string]struct {
		client, with lock.Terms
		lasts        time.Duration
	}{
		"MaxHold is inherited":              {lock.Terms{MaxHold: hold}, lock.Terms{Metadata: "m"}, hold},
		"Fixed is inherited":                {lock.Terms{Fixed: true}, lock.Terms{Metadata: "m"}, fixed},
		"MaxHold ends Fixed":                {lock.Terms{Fixed: true}, lock.Terms{MaxHold: hold}, hold},
		"Fixed ends MaxHold":                {lock.Terms{MaxHold: hold}, lock.Terms{Fixed: true}, fixed},
		"NoMaxHold ends MaxHold":            {lock.Terms{MaxHold: hold}, lock.Terms{MaxHold: lock.NoMaxHold}, none},
		"NoMaxHold ends Fixed":              {lock.Terms{Fixed: true}, lock.Terms{MaxHold: lock.NoMaxHold}, none},
		"NoMaxHold is allowed with Fixed":   {lock.Terms{}, lock.Terms{MaxHold: lock.NoMaxHold, Fixed: true}, fixed},
		"NoMaxHold is the default of a New": {lock.Terms{MaxHold: lock.NoMaxHold}, lock.Terms{}, none},
	} {
		t.Run(name, func(t *testing.T) {
			c.client.TTL = 10 * time.Second
			bubbleWith(t, &lock.Options{Terms: c.client}, func(t *testing.T, b *bench) {
				h, err := b.With(c.with).Mutex("k").Lock(ctx)
				require.NoError(t, err)
				start := time.Now()
				if c.lasts == none {
					settle(2 * hold)
					require.NoError(t, h.Unlock(ctx))
					return
				}
				<-h.Done()
				assert.InDelta(t, c.lasts.Seconds(), time.Since(start).Seconds(), 0.3)
				require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
			})
		})
	}
}

// A fixed lease needs no margin for renewals.
func TestAFixedLeaseMayBeShort(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		_, err := b.With(lock.Terms{TTL: lock.MinTTL}).Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		h, err := b.With(lock.Terms{TTL: lock.MinTTL, Fixed: true}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		start := time.Now()
		<-h.Done()
		assert.InDelta(t, 77, time.Since(start).Milliseconds(), 10)
		assert.Zero(t, b.calls(locktest.Renew))
	})
	o := &lock.Options{Renewal: renewal.Policy{Margin: time.Second}}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		_, err := b.With(lock.Terms{TTL: time.Second, Fixed: true}).Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		require.ErrorContains(t, err, "margin")
	})
}

// A fixed lease that was handed over is acquired again, so that it lasts its full TTL. If that
// request has no answer, the store may execute it after the release.
func TestAFixedLeaseThatIsNotAnsweredLeavesATombstone(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		store := &forgetful{agedStore: agedStore{b.mem, 20 * time.Second}}
		b.store.Over(store)
		h, err := b.With(lock.Terms{Fixed: true}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		synctest.Wait()
		_, err = b.mem.Acquire(ctx, *store.lost)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Zero(t, b.mem.Len())
	})
}

// forgetful is an agedStore that loses the first acquire.
type forgetful struct {
	agedStore
	lost *driver.Request
}

func (s *forgetful) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if s.lost == nil {
		s.lost = &r
		return driver.Lease{}, errIO
	}
	return s.agedStore.Acquire(ctx, r)
}
