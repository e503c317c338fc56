package tusdlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	tusdlock "github.com/leasewheel/leasewheel/contrib/adapter/tusd"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

var _ handler.Locker = (*tusdlock.Locker)(nil)

var shared testredis.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

func newLock(t *testing.T, locker *tusdlock.Locker) handler.Lock {
	l, err := locker.NewLock("upload")
	require.NoError(t, err)
	return l
}

// bubbles runs a test in two bubbles: with the locks of requests to one instance, and to two.
func bubbles(t *testing.T, test func(t *testing.T, first, second handler.Lock)) {
	for name, same := range map[string]bool{"the same instance": true, "another instance": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a := tusdlock.New(adaptertest.NewClient(t, adaptertest.Process{Store: store}), nil)
				b := a
				if !same {
					b = tusdlock.New(adaptertest.NewClient(t, adaptertest.Process{Store: store}), nil)
				}
				test(t, newLock(t, a), newLock(t, b))
			})
		})
	}
}

func TestAHolderIsAskedToUnlock(t *testing.T) {
	bubbles(t, func(t *testing.T, first, second handler.Lock) {
		asked := 0
		require.NoError(t, first.Lock(t.Context(), func() {
			asked++
			time.Sleep(10 * time.Millisecond)
			assert.NoError(t, first.Unlock())
		}))
		time.Sleep(time.Minute)
		assert.Zero(t, asked)
		began := time.Now()
		never := func() { assert.Fail(t, "asked for a lock that nobody waits for") }
		require.NoError(t, second.Lock(t.Context(), never))
		assert.Equal(t, 1, asked)
		assert.Less(t, time.Since(began), time.Second)
		assert.ErrorIs(t, first.Unlock(), lock.ErrNotHeld)
		time.Sleep(time.Minute)
		assert.NoError(t, second.Unlock())
		require.NoError(t, first.Lock(t.Context(), never), "a lock can be used again")
		assert.NoError(t, first.Unlock())
	})
}

func TestAHolderThatDoesNotUnlock(t *testing.T) {
	bubbles(t, func(t *testing.T, first, second handler.Lock) {
		asked := 0
		require.NoError(t, first.Lock(t.Context(), func() { asked++ }))
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			assert.Equal(t, handler.ErrLockTimeout, second.Lock(ctx, func() {}))
			assert.Equal(t, time.Minute, time.Since(began))
		}
		assert.Equal(t, 1, asked)
		require.NoError(t, first.Unlock())
		require.NoError(t, second.Lock(t.Context(), func() {}), "nobody else has a place")
		assert.NoError(t, second.Unlock())
	})
}

// tusd has no other way to learn that a lock has ended.
func TestAHolderWhoseLockEndsIsAskedToUnlock(t *testing.T) {
	for want, end := range map[error]func(*memstore.Store, *lock.Client){
		lock.ErrLost:   func(s *memstore.Store, _ *lock.Client) { s.Delete("videos/upload") },
		lock.ErrClosed: func(_ *memstore.Store, c *lock.Client) { _ = c.Close(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			client := adaptertest.NewClient(t, store)
			l := newLock(t, tusdlock.New(client, &tusdlock.Options{Prefix: "videos/"}))
			asked := 0
			require.NoError(t, l.Lock(t.Context(), func() { asked++ }))
			end(store, client)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, 1, asked)
			assert.ErrorIs(t, l.Unlock(), want)
		})
	}
}

// failing is a store whose locks fail.
type failing struct {
	*memstore.Store
	err error
}

func (f failing) Wait(context.Context, driver.Request, func()) (driver.Lease, error) {
	return driver.Lease{}, f.err
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, status := range map[error]int{lock.ErrUnavailable: http.StatusServiceUnavailable, lock.ErrClosed: http.StatusServiceUnavailable, lock.ErrWrongType: 0} {
			client := adaptertest.NewClient(t, failing{memstore.New(), fmt.Errorf("%w: 10.0.0.1", want)})
			l := newLock(t, tusdlock.New(client, nil))
			err := l.Lock(t.Context(), func() { assert.Fail(t, "asked without a lock") })
			require.ErrorIs(t, err, want)
			var response handler.Error
			assert.Equal(t, status != 0, errors.As(err, &response))
			assert.Equal(t, status, response.HTTPResponse.StatusCode)
			assert.NotContains(t, response.HTTPResponse.Body, "10.0.0.1", "uploaders see it")
			assert.ErrorIs(t, l.Unlock(), lock.ErrNotHeld)
		}
		assert.Error(t, newLock(t, tusdlock.New(nil, nil)).Lock(t.Context(), nil))
	})
}
