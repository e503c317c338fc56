package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// available has cases of stores that answer: no failure to get a taken lock may look like
// an outage.
var available = []testCase{
	{name: "a_taken_lock_is_no_outage", run: func(f *fixture) {
		held := f.acquire(f.request("k"))
		c := f.newClient()
		_, err := c.Mutex(held.Key).TryLock(f.ctx)
		f.contention(err)
		ctx, cancel := context.WithTimeout(f.ctx, f.answerTime())
		defer cancel()
		_, err = c.Mutex(held.Key).Lock(ctx)
		f.contention(err)
		assert.ErrorIs(f, err, context.DeadlineExceeded)
	}},
	{name: "a_waiter_in_the_queue_is_no_outage", needs: needsWaiting, run: func(f *fixture) {
		held := f.acquire(f.request("k"))
		c := f.newClient()
		ctx, cancel := context.WithCancelCause(f.ctx)
		defer cancel(nil)
		failed := make(chan error, 2)
		for range cap(failed) { // the second one waits in the client
			go func() {
				_, err := c.Mutex(held.Key).Lock(ctx)
				failed <- err
			}()
		}
		for end := time.Now().Add(f.patience()); f.Waiting(f.T, f.store, held.Key) == 0 || c.Stats().Waiting < 2; time.Sleep(time.Millisecond) {
			require.True(f, time.Now().Before(end), "Lock is not in the queue")
		}
		time.Sleep(f.answerTime())
		cancel(errCancelled)
		for range cap(failed) {
			err := <-failed
			f.contention(err, "Wait must call driver.Queued")
			assert.ErrorIs(f, err, errCancelled)
		}
	}},
}

// answerTime is long enough for an answer of the store.
func (f *fixture) answerTime() time.Duration { return min(f.TTL/2, 500*time.Millisecond) }

// contention expects an error that says that the lock is taken.
func (f *fixture) contention(err error, about ...any) {
	f.Helper()
	assert.ErrorIs(f, err, lock.ErrNotAcquired, about...)
	assert.NotErrorIs(f, err, lock.ErrUnavailable, about...)
}
