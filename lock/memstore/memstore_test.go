package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	locktest.TestStore(t, locktest.Config{
		New:      func(*testing.T) driver.Store { return memstore.New() },
		TTL:      30 * time.Second,
		Explains: true,
		Run:      synctest.Test,
		Modes:    locktest.AllModes,
		Waiting:  func(_ *testing.T, s driver.Store, key string) int { return s.(*memstore.Store).Waiting(key) },
		Delete:   func(_ *testing.T, s driver.Store, key string) { s.(*memstore.Store).Delete(key) },
	})
}

func TestCallsOnAClosedStoreFail(t *testing.T) {
	s := memstore.New()
	l, err := s.Acquire(context.Background(), driver.Request{Key: "a", Owner: "o", TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.Acquire(context.Background(), l.Request)
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, s.Release(context.Background(), l), driver.ErrClosed)
	require.ErrorIs(t, s.Renew(context.Background(), []driver.Lease{l}, nil), driver.ErrClosed)
	_, err = s.Inspect(context.Background(), l.Key)
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, s.ForceRelease(context.Background(), l.Key), driver.ErrClosed)
}

// A kept lock has no owner, and no request finds it by an empty one.
func TestNobodyOwnsAKeptLock(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	r := driver.Request{Key: "k", Owner: "a", TTL: time.Minute}
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Hour)}
	require.NoError(t, s.Release(t.Context(), l))
	r.Owner = ""
	_, err = s.Acquire(t.Context(), r)
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), driver.ErrNotHeld)
	require.Positive(t, s.ExpiresIn("k"))
}

func TestAWatchThatIsStoppedCallsNothing(t *testing.T) {
	s := memstore.New()
	request := func(owner string) driver.Request {
		return driver.Request{Key: "k", Owner: owner, TTL: time.Minute, Attrs: &driver.Attrs{Yields: true}}
	}
	l, err := s.Acquire(t.Context(), request("holder"))
	require.NoError(t, err)
	wait := func() {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Wait(ctx, request("waiter"), cancel)
		require.Error(t, err)
	}
	former := func() { assert.Fail(t, "the former watch") }
	s.Watch(l, former)()
	wait()
	stop, told := s.Watch(l, former), false
	defer s.Watch(l, func() { told = true })()
	stop()
	wait()
	assert.True(t, told, "the latter watch")
}
