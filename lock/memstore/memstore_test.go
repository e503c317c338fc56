package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	locktest.TestStore(t, locktest.Config{
		New:      func(*testing.T) lock.Store { return memstore.New() },
		TTL:      30 * time.Second,
		Run:      synctest.Test,
		Modes:    locktest.AllModes,
		Inspects: true,
		Waiting:  func(_ *testing.T, s lock.Store, key string) int { return s.(*memstore.Store).Waiting(key) },
		Delete:   func(_ *testing.T, s lock.Store, key string) { s.(*memstore.Store).Delete(key) },
	})
}

func TestWhatHasExpiredIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for i := range 5000 {
			r := lock.Request{Key: fmt.Sprint(i), Owner: fmt.Sprint("owner", i), TTL: time.Second}
			l, err := s.Acquire(context.Background(), r)
			require.NoError(t, err)
			if i%2 == 0 {
				l.Unanswered = true
				require.NoError(t, s.Release(context.Background(), l))
			}
		}
		assert.Equal(t, 2500, s.Len())
		assert.Equal(t, time.Second, s.ExpiresIn("1"))
		assert.Zero(t, s.ExpiresIn("0"))
		time.Sleep(time.Second)
		assert.Zero(t, s.Len())
		assert.False(t, s.Delete("1"))
	})
}

func TestAClosedStoreRefuses(t *testing.T) {
	s := memstore.New()
	l, err := s.Acquire(context.Background(), lock.Request{Key: "a", Owner: "o", TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.Acquire(context.Background(), l.Request)
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.Release(context.Background(), l), lock.ErrClosed)
	require.ErrorIs(t, s.Renew(context.Background(), []lock.Lease{l}, nil), lock.ErrClosed)
	_, err = s.Inspect(context.Background(), l.Key)
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.ForceRelease(context.Background(), l.Key), lock.ErrClosed)
}
