// Cases that distinguish contention from an outage.

package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// available has cases of stores that answer: no failure to get a taken lock may look like
// an outage.
var available = []testCase{
	{name: "a_taken_lock_is_no_outage", run: func(f *fixture) {
		held := f.lock(f.newClient().Mutex(f.prefix + "k"))
		_, err := f.newClient().Mutex(held.Key()).TryLock(f.ctx)
		f.contention(err)
		ctx, cancel := context.WithCancelCause(f.ctx)
		defer cancel(nil)
		_, err = f.newHookedClient(func() { cancel(errCancelled) }).Mutex(held.Key()).Lock(ctx)
		f.contention(err)
		assert.ErrorIs(f, err, errCancelled)
	}},
	{name: "a_waiter_in_the_queue_is_no_outage", needs: needsWaiting, run: func(f *fixture) {
		held := f.lock(f.newClient().Mutex(f.prefix + "k"))
		for tries := 1; ; tries++ { // a slow store may just be asked again, and be late
			errs := f.cancelQueued(held.Key())
			if tries < 10 && slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, lock.ErrUnavailable) }) {
				continue
			}
			for _, err := range errs {
				f.contention(err)
				assert.ErrorIs(f, err, errCancelled)
			}
			return
		}
	}},
}

// cancelQueued returns the errors of two calls of Lock whose context ends when one waits in the queue of
// the store, and the other one in that of the client.
func (f *fixture) cancelQueued(key string) []error {
	f.Helper()
	told := make(chan struct{}, 2)
	c := f.newHookedClient(func() { told <- struct{}{} })
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	failed := make(chan error, cap(told))
	for range cap(failed) {
		go func() {
			_, err := c.Mutex(key).Lock(ctx)
			failed <- err
		}()
	}
	for range cap(told) {
		select {
		case <-told:
		case <-time.After(f.patience()):
			require.Fail(f, "Wait did not call queued")
		}
	}
	assert.NotZero(f, f.Waiting(f.T, f.store, key), "in the queue")
	cancel(errCancelled)
	return []error{<-failed, <-failed}
}

// newHookedClient is newClient with a hook that is called when a Lock knows that it has to wait.
func (f *fixture) newHookedClient(waiting func()) *lock.Client {
	f.Helper()
	c, err := lock.New(keptOpen{f.store}, &lock.Options{
		Terms: lock.Terms{TTL: f.TTL},
		Hooks: &lock.Hooks{Waiting: func(context.Context, lock.HookInfo) { waiting() }},
	})
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, c.Close(context.Background())) })
	return c
}

// contention expects an error that means that the lock is taken.
func (f *fixture) contention(err error) {
	f.Helper()
	assert.ErrorIs(f, err, lock.ErrNotAcquired)
	assert.NotErrorIs(f, err, lock.ErrUnavailable)
}
