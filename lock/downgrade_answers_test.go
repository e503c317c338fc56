package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestADowngradeAsksSoOften(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for name, tc := range map[string]struct {
			fail  func(context.Context, locktest.Op) error
			want  error
			tries int
		}{
			"a failure is tolerated":       {always(locktest.Acquire, errIO), errIO, 2},
			"what no other try mends":      {always(locktest.Acquire, lock.ErrWrongType), lock.ErrWrongType, 1},
			"what hangs ends with its ctx": {hang(locktest.Acquire), context.DeadlineExceeded, 1},
		} {
			w := b.wlock(name)
			asked := b.calls(locktest.Acquire)
			b.loseRequests(tc.fail)
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err := b.RWMutex(name).Downgrade(short, w)
			cancel()
			require.ErrorIs(t, err, tc.want, name)
			assert.Equal(t, tc.tries, b.calls(locktest.Acquire)-asked, name)
			b.heal()
			synctest.Wait()
			assert.Zero(t, b.mem.Len(), name)
		}
	})
}

// A request without an answer is remembered even if the next request is answered. The TTL
// counts from the Sent of the store if the store sets it.
func TestADowngradeOnAStoreThatSaysWhen(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(t *testing.T, b *bench) {
			spy := &dated{releases{Store: b.mem}}
			b.store.Over(spy)
			w := b.wlock("k")
			settle(ttl / 10) // before its first renewal
			if lost {
				b.loseAnswers(once(locktest.Acquire, errIO))
			}
			r, err := b.RWMutex("k").Downgrade(ctx, w)
			require.NoError(t, err)
			assert.Equal(t, ttl*98/100-time.Second, time.Until(r.Deadline()))
			require.NoError(t, r.Unlock(ctx))
			assert.Equal(t, lost, spy.last.Unanswered)
		})
	}
}

// dated is a store whose leases count from one second before the request.
type dated struct{ releases }

func (s *dated) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	sent := time.Now().Add(-time.Second)
	l, err := s.releases.Acquire(ctx, r)
	l.Sent = sent
	return l, err
}

func TestADowngradeOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		w := b.wlock("k")
		require.NoError(t, b.Close(ctx))
		_, err := b.RWMutex("k").Downgrade(ctx, w)
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}

func TestADowngradeInAPanicOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		spy := &releases{Store: b.mem}
		b.store.Over(spy)
		w := b.wlock("k")
		b.loseRequests(panics(locktest.Acquire))
		assert.PanicsWithValue(t, "oops", func() { _, _ = b.RWMutex("k").Downgrade(ctx, w) })
		synctest.Wait()
		assert.Zero(t, b.Stats().Renewal.Held, "it has no handle")
		assert.Zero(t, b.mem.Len())
		assert.True(t, spy.last.Unanswered)
	})
}
