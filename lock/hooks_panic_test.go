package lock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// A lock that nobody gets because Acquired panics does not stay taken until MinHold has passed.
func TestAPanicOfAcquiredEndsMinHold(t *testing.T) {
	hooks := &lock.Hooks{Acquired: func(context.Context, lock.HookInfo) { panic("oops") }}
	bubbleOn(t, &lock.Options{Hooks: hooks, Terms: lock.Terms{MinHold: time.Hour}}, true, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.Mutex("a"), b.all("a", "b"), b.Batch("g", "x")} {
			assert.PanicsWithValue(t, "oops", func() { _, _ = l.Lock(ctx) })
			settle(time.Second)
			assert.Zero(t, b.mem.Len(), "%v", l)
			assert.Zero(t, b.Stats().Renewal.Held, "%v", l)
		}
	})
}

// A hook that panics leaves no lock behind.
func TestAPanicOfAHook(t *testing.T) {
	oops := func(context.Context, lock.HookInfo) { panic("oops") }
	panics := func(context.Context, lock.HookInfo) context.Context { panic("oops") }
	for name, hooks := range map[string]*lock.Hooks{
		"Acquired": {Acquired: oops}, "Released": {Released: oops}, "Refused": {Refused: oops}, "Waiting": {Waiting: oops},
		"Acquiring": {Acquiring: panics}, "Releasing": {Releasing: panics},
	} {
		bubbleOn(t, &lock.Options{Hooks: hooks}, true, func(t *testing.T, b *bench) {
			taken := b.taken("taken")
			assert.PanicsWithValue(t, "oops", func() {
				_, _ = b.Mutex("taken").TryLock(ctx)
				_ = b.lock("k").Unlock(ctx)
				_, _ = b.Mutex("taken").Lock(ctx)
			}, name)
			assert.Panics(t, func() {
				h, err := b.all("m1", "m2").TryLock(ctx)
				require.NoError(t, err)
				_ = h.Unlock(ctx)
				_, _ = b.all("taken").TryLock(ctx)
				_, _ = b.all("taken").Lock(ctx)
			}, name)
			_ = b.mem.Release(ctx, taken)
			settle(time.Second)
			assert.Zero(t, b.mem.Len(), name)
			assert.Zero(t, b.Stats().Waiting, name)
			require.NoError(t, b.Close(ctx), name)
		})
	}
}

// A Waiting hook that does not return takes its call out of the queue of the client, or out of that
// of the store if the call asks the store already. The calls behind it go on.
func TestAWaitingHookThatDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("oops") }, "exit": runtime.Goexit} {
		for _, waits := range []bool{true, false} {
			for bad := 1; bad <= 2; bad++ { // the first asks the store, the second waits behind it
				told := 0
				hooks := &lock.Hooks{Waiting: func(context.Context, lock.HookInfo) {
					if told++; told == bad {
						leave()
					}
				}}
				bubbleOn(t, &lock.Options{Hooks: hooks}, waits, func(t *testing.T, b *bench) {
					h := b.lock("k")
					locked := 0
					for range 3 {
						go func() {
							defer func() { _ = recover() }()
							h, err := b.Mutex("k").Lock(ctx)
							if assert.NoError(t, err) {
								locked++
								assert.NoError(t, h.Unlock(ctx))
							}
						}()
						synctest.Wait()
					}
					require.NoError(t, h.Unlock(ctx))
					settle(time.Second)
					assert.Equal(t, 2, locked, "%s of call %d, store waits: %v", name, bad, waits)
					assert.Zero(t, b.Stats().Waiting)
				})
			}
		}
	}
}

// A hook may use the client, and one that blocks delays nobody else.
func TestAHookThatBlocks(t *testing.T) {
	var release chan struct{}
	var client *lock.Client
	hooks := &lock.Hooks{Acquired: func(ctx context.Context, i lock.HookInfo) {
		if i.Key == "slow" {
			_, _ = client.Mutex("inner").Lock(ctx)
			<-release
		}
	}}
	bubbleWith(t, &lock.Options{Hooks: hooks}, func(t *testing.T, b *bench) {
		release, client = make(chan struct{}), b.Client
		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("slow").Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, b.lock("other").Unlock(ctx))
		_, err := b.Mutex("slow").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "it is held already")
		require.NoError(t, b.Close(ctx), "it does not wait for hooks")
		close(release)
		require.NoError(t, <-done)
	})
}
