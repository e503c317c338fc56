package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// moments records when an operation is called, and makes it fail.
func (b *bench) moments(op locktest.Op) func() []time.Duration {
	begun := time.Now()
	var all []time.Duration
	b.loseRequests(func(_ context.Context, got locktest.Op) error {
		if got != op {
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		all = append(all, time.Since(begun))
		return errIO
	})
	return func() []time.Duration {
		b.mu.Lock()
		defer b.mu.Unlock()
		return all
	}
}

// Only failures in a row count: an answer of the store resets the count.
func TestFailuresBetweenAnswersAreTolerated(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		_, err := b.mem.Acquire(t.Context(), driver.Request{Key: "k", Owner: "other:1", TTL: 10 * time.Second})
		require.NoError(t, err)
		n := 0
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op != locktest.Acquire {
				return nil
			}
			n++
			if n%2 == 1 {
				return errIO
			}
			return nil
		})
		b.lock("k")
		assert.Greater(t, n, 10)
	})
}

// After a failure, TryLock tries again at once and Lock after the first backoff.
func TestWhenAFailedRequestIsRepeated(t *testing.T) {
	asked := -1
	o := &lock.Options{Backoff: func(n int) time.Duration {
		asked = n
		return time.Duration(n+1) * time.Second
	}}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		begun := time.Now()
		b.loseRequests(once(locktest.Acquire, errIO))
		_, err := b.Mutex("a").TryLock(t.Context())
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
		b.loseRequests(once(locktest.Acquire, errIO))
		b.lock("b")
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Zero(t, asked)
	})
}

// The Releaser tries again after 100 ms and doubles the pause after each failure, up to 2 s.
func TestTheCleanerTriesLessAndLessOften(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseAnswers(always(locktest.Acquire, errIO))
		moments := b.moments(locktest.Release)
		_, err := b.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, errIO)
		settle(8 * time.Second)
		var gaps []time.Duration
		for i, at := range moments()[1:] {
			gaps = append(gaps, at-moments()[i])
		}
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}, gaps)
	})
}

// Close ends a release in the background before the timeout of that release.
func TestCloseEndsAReleaseThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseAnswers(always(locktest.Acquire, errIO))
		b.loseRequests(hang(locktest.Release))
		_, err := b.Mutex("k").TryLock(t.Context())
		require.Error(t, err)
		settle(100 * time.Millisecond)
		begun := time.Now()
		b.loseRequests(nil)
		require.NoError(t, b.Close(t.Context()))
		assert.Zero(t, time.Since(begun))
		assert.Zero(t, b.mem.Len())
	})
}

// Close tries each release three times. Its error has the reason of the last failure.
func TestCloseSaysWhyALockWasNotReleased(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("k")
		moments := b.moments(locktest.Release)
		err := b.Close(t.Context())
		require.ErrorIs(t, err, errIO)
		require.ErrorContains(t, err, "1 of 1 locks")
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}, moments())
	})
}

func TestCloseDoesNotTakeAFailureForARelease(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("k")
		b.loseRequests(always(locktest.Release, errIO))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // within the first pause
		defer cancel()
		require.ErrorContains(t, b.Close(ctx), "1 of 1 locks")
	})
}

// The work was done, so a release that is not confirmed is logged and not returned.
func TestAReleaseThatIsNotConfirmedIsLogged(t *testing.T) {
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		errWork := errors.New("the work failed")
		outer := b.reentrant("outer")
		inside := inside(ctx, t, outer)
		b.loseRequests(always(locktest.Release, errIO))
		logged := func() {
			t.Helper()
			synctest.Wait() // a goroutine writes the record
			assert.Contains(t, log.String(), "release not confirmed")
			assert.Contains(t, log.String(), errIO.Error())
			log.Reset()
		}
		nothing := func(context.Context, *lock.Held) error { return nil }
		require.NoError(t, lock.Do(ctx, b.Mutex("a"), nothing))
		logged()
		assert.Equal(t, errWork, lock.Do(ctx, b.Mutex("b"), func(context.Context, *lock.Held) error { return errWork }))
		logged()
		require.NoError(t, lock.Do(inside, b.Reentrant("outer"), func(context.Context, *lock.Held) error { return outer.Unlock(ctx) }))
		logged()
		require.NoError(t, b.Election("e", "a").Run(ctx, nothing))
		logged()
	})
}

// The error names the end of the ctx once, even if the store returned it as its own error.
func TestTheEndOfAContextIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		errWhy := errors.New("out of timeout")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWhy)
		defer cancel()
		b.loseRequests(hang(locktest.Acquire))
		_, err := b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorIs(t, err, errWhy)
		assert.Equal(t, 1, strings.Count(err.Error(), errWhy.Error()), err.Error())

		b.loseRequests(func(ctx context.Context, _ locktest.Op) error {
			<-ctx.Done()
			return errIO
		})
		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, errWhy)
		defer cancel()
		_, err = b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, errWhy)
		require.ErrorIs(t, err, errIO, "and what the store said besides")
		b.heal()
	})
}

// A lease that arrives after Close cannot be released. The log says so without the owner.
func TestWhatIsLeftToItsTTLIsLogged(t *testing.T) {
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(10 * time.Second) // ignores its ctx
			}
			return nil
		})
		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("k").TryLock(t.Context())
			done <- err
		}()
		settle(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, b.Close(ctx))
		require.ErrorIs(t, <-done, lock.ErrClosed)
		settle(10 * time.Second)
		assert.Contains(t, log.String(), "left to its TTL")
		assert.Contains(t, log.String(), "the client is closed")
		assert.Contains(t, log.String(), "key=k")
		assert.NotContains(t, log.String(), "owner")
	})
}
