package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestTheSmallestTTL(t *testing.T) {
	bubbleWith(t, &lock.Options{Terms: lock.Terms{TTL: lock.MinTTL}}, func(t *testing.T, b *bench) {
		h := b.lock("k")
		settle(time.Minute)
		assert.True(t, h.Valid())
		b.loseRequests(hang(locktest.Renew))
		renewed := b.mem.ExpiresIn("k")
		start := time.Now()
		<-h.Done()
		assert.Less(t, time.Since(start), renewed, "told in time")
	})
}

// The prefix of a client's owners is a secret and does not appear in messages.
func TestAClientShowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		assert.NotContains(t, fmt.Sprintf("%v %+v %s %q", b.Client, b.Client, b.Client, b.Client), lock.IDOf(b.Client))
	})
}

func TestTheZeroHandles(t *testing.T) {
	for _, h := range []*lock.Held{nil, {}} {
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
		assert.False(t, h.Valid())
		assert.True(t, closed(h.Done()))
		assert.Zero(t, h.Deadline())
		assert.Zero(t, h.Token())
		assert.Empty(t, h.Key())
		assert.Empty(t, h.Handles())
		assert.Nil(t, h.Members())
		assert.Equal(t, "lock not held", h.String())
		inner, stop := h.Context(ctx)
		require.ErrorIs(t, context.Cause(inner), lock.ErrNotHeld)
		stop()
	}
}

func TestErrorsThatNoTryWouldMendAreReturnedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, want := range []error{
			lock.ErrWrongType, lock.ErrNotAcquired, lock.ErrClosed, lock.ErrBadKey, lock.ErrBadTTL, lock.ErrBadMembers, errors.ErrUnsupported,
		} {
			before := b.calls(locktest.Acquire)
			b.loseRequests(always(locktest.Acquire, fmt.Errorf("store: %w", want)))
			start := time.Now()
			_, err := b.Mutex("k").Lock(ctx)
			require.ErrorIs(t, err, want)
			assert.Equal(t, 1, b.calls(locktest.Acquire)-before)
			assert.Zero(t, time.Since(start))
			assert.Zero(t, b.Stats().Releasing, "nothing was taken")
		}
	})
}

// Owners are secrets, because anybody who knows an owner can release its lock.
func TestOwnersNeverShow(t *testing.T) {
	var owners []string
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		b.store.Over(spy{b.mem, &owners})
		a, c := b.lock("a"), b.lock("c")
		b.mem.Delete("a")
		b.loseRequests(always(locktest.Release, errIO))
		<-a.Done()
		seen := []string{fmt.Sprintf("%v %+v %v", a, a, a.Err()), fmt.Sprint(a.Unlock(ctx)), fmt.Sprint(c.Unlock(ctx))}
		_, err := b.Mutex("c").TryLock(ctx)
		seen = append(seen, fmt.Sprintf("%v %+v %#v", err, err, err))
		settle(time.Minute)
		require.Len(t, owners, 3)
		for _, owner := range owners {
			assert.GreaterOrEqual(t, len(owner), 26, "at least 128 random bits")
			for _, text := range append(seen, log.String()) {
				assert.NotContains(t, text, owner)
			}
		}
		assert.NotEqual(t, owners[0], owners[1])
		assert.Contains(t, log.String(), "key=a", "the log names the lock")
	})
}

type spy struct {
	driver.Store
	owners *[]string
}

func (s spy) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	*s.owners = append(*s.owners, r.Owner)
	return s.Store.Acquire(ctx, r)
}

// A handle shows its key. That it shows no owner is a test of verify/security.
func TestAHandleIsPrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.Mutex("k"), b.Batch("k2", "a"), b.Semaphore("k3", 2), lock.Multi(b.Mutex("x"), b.Mutex("y"))} {
			held, err := l.Lock(t.Context())
			require.NoError(t, err)
			for key := range strings.SplitSeq(held.Key(), ", ") {
				assert.Contains(t, held.String(), `"`+key+`"`)
			}
			assert.Equal(t, held.String(), fmt.Sprintf("%+v", held))
			require.NoError(t, held.Unlock(t.Context()))
		}
	})
	assert.Equal(t, "lock not held", fmt.Sprint(new(lock.Held)))
}
