package lock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// spanKey is the key of the value that the hooks of a spanLog give to a context.
type spanKey struct{}

// spanLog records the calls of hooks and of the store, each with the value of its ctx.
type spanLog struct {
	mu    sync.Mutex // guards calls
	calls []string
}

func (l *spanLog) add(ctx context.Context, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(string)
	l.calls = append(l.calls, what+" in "+span)
}

// take returns the calls so far and forgets them.
func (l *spanLog) take() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// client returns a client whose calls get the value "acquire" or "release".
func (l *spanLog) client(t *testing.T) *lock.Client {
	t.Helper()
	store := driver.Wrap(memstore.New(), func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
		l.add(ctx, "store "+c.Name)
		return next(ctx)
	})
	note := func(what string) func(context.Context, lock.HookInfo) {
		return func(ctx context.Context, _ lock.HookInfo) { l.add(ctx, what) }
	}
	enter := func(span string) func(context.Context, lock.HookInfo) context.Context {
		return func(ctx context.Context, i lock.HookInfo) context.Context {
			assert.NotEmpty(t, i.Key)
			assert.Empty(t, i.Outcome)
			assert.Equal(t, span == "release" && i.Kind != lock.KindMulti, i.Token != 0)
			return context.WithValue(ctx, spanKey{}, span)
		}
	}
	c, err := lock.New(store, &lock.Options{Hooks: &lock.Hooks{
		Acquiring: enter("acquire"), Releasing: enter("release"),
		Waiting: note("waiting"), Acquired: note("acquired"), Refused: note("refused"), Released: note("released"), Lost: note("lost"),
	}})
	require.NoError(t, err)
	return c
}

func TestHooksGiveACallItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(spanLog)
		c := l.client(t)
		defer c.Close(ctx)
		h, err := c.Mutex("k").TryLock(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"store acquire in acquire", "acquired in acquire"}, l.take())

		_, err = c.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Equal(t, []string{"store acquire in acquire", "refused in acquire"}, l.take())

		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = c.Mutex("k").Lock(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the cause of the caller's context is found")
		calls := l.take()
		assert.Contains(t, calls, "store wait in acquire")
		assert.Contains(t, calls, "waiting in acquire")
		assert.Contains(t, calls, "refused in acquire")

		time.Sleep(time.Minute)
		for _, call := range l.take() {
			assert.Equal(t, "store renew in ", call, "a renewal belongs to no call")
		}
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, []string{"store release in release", "released in release"}, l.take())
	})
}

func TestAMultiHasOneContextForAllItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(spanLog)
		c := l.client(t)
		defer c.Close(ctx)
		h, err := lock.Multi(c.Mutex("a"), c.Mutex("b")).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		calls := l.take()
		slices.Sort(calls)
		assert.Equal(t, []string{
			"acquired in acquire", "released in release", "store acquire in acquire", "store release in release",
			"store release in release", "store wait in acquire",
		}, calls)
	})
}

// A hook that returns nil leaves the context of the call as it is.
func TestAHookMayReturnNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing := func(context.Context, lock.HookInfo) context.Context { return nil }
		c, err := lock.New(memstore.New(), &lock.Options{Hooks: &lock.Hooks{Acquiring: nothing, Releasing: nothing}})
		require.NoError(t, err)
		defer c.Close(ctx)
		require.NoError(t, lockAll(t, c.Mutex("k")).Unlock(ctx))
	})
}
