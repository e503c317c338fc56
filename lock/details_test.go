package lock_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/leasewheel/leasewheel/lock/memstore"
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

// A Lock that is cancelled between two tries makes no further try.
func TestACancelledPauseIsTheEnd(t *testing.T) {
	o := &lock.Options{Backoff: each(time.Hour)}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		_, err := b.mem.Acquire(t.Context(), driver.Request{Key: "k", Owner: "other:1", TTL: 24 * time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		begun := time.Now()
		_, err = b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Minute, time.Since(begun))
		assert.Equal(t, 1, b.calls(locktest.Acquire))

		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("k").Lock(t.Context())
			done <- err
		}()
		settle(0)
		require.NoError(t, b.Close(t.Context()))
		err = <-done
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.NotErrorIs(t, err, context.Canceled)
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

// The text of a lease or a request has its key, and never its owner.
func TestLeasesAreNamedWithoutTheirOwners(t *testing.T) {
	modes := map[string]bool{}
	for mode := driver.Exclusive; mode <= driver.Members+1; mode++ {
		modes[mode.String()] = true
		r := driver.Request{Key: "k", Owner: "secret:1", Mode: mode, TTL: ttl}
		for _, v := range []any{r, driver.Lease{Request: r}} {
			for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
				text := fmt.Sprintf(format, v)
				assert.Contains(t, text, mode.String())
				assert.Contains(t, text, `"k"`)
				assert.NotContains(t, text, "secret")
			}
		}
	}
	assert.Len(t, modes, int(driver.Members)+2, "each has a word of its own")
	assert.NotContains(t, modes, "")
}

func TestDoWhenItsReleaseIsNotConfirmed(t *testing.T) {
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		errWork := errors.New("the work failed")
		b.loseRequests(always(locktest.Release, errIO))
		require.NoError(t, lock.Do(t.Context(), b.Mutex("a"), func(context.Context, *lock.Held) error { return nil }))
		synctest.Wait() // a goroutine writes the record
		assert.Contains(t, log.String(), "release not confirmed")
		assert.Contains(t, log.String(), errIO.Error())
		err := lock.Do(t.Context(), b.Mutex("b"), func(context.Context, *lock.Held) error { return errWork })
		assert.Equal(t, errWork, err)
	})
}

func TestErrorsOfALockThatIsHeld(t *testing.T) {
	err := &lock.HeldError{Key: "k"}
	assert.Equal(t, `lock: "k" is held by another, or waited for`, err.Error())
	err.ExpiresIn = 3 * time.Second
	assert.Contains(t, err.Error(), "3s")
	err.ExpiresIn = 1
	assert.Contains(t, err.Error(), "1ns")
	for n, cut := range map[int]bool{100: false, 101: true} {
		err.Key = strings.Repeat("x", n)
		assert.Equal(t, cut, strings.Contains(err.Error(), "..."), n)
		assert.Contains(t, err.Error(), strings.Repeat("x", 100))
	}
}

func TestTheErrorOfATakenLockNamesItOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("k")
		_, err := b.Mutex("k").TryLock(ctx)
		require.EqualError(t, err, `lock: "k" is taken for another 30s, or longer if renewed`)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = b.Mutex("k").Lock(short)
		require.Equal(t, 1, strings.Count(err.Error(), `"k"`), err)
		require.ErrorContains(t, err, `lock: not acquired: context deadline exceeded: "k" is taken`)
	})
}

func TestOptionsAtTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []lock.Options{
			{MaxWaiters: 1},
			{Terms: lock.Terms{TTL: lock.MaxTTL}},
			{Terms: lock.Terms{MaxHold: lock.MinTTL}},
			{Terms: lock.Terms{Fixed: true}},
		} {
			client, err := lock.New(memstore.New(), &o)
			require.NoError(t, err, "%+v", o)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			assert.True(t, held.Valid())
			require.NoError(t, client.Close(t.Context()))
		}
		_, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{TTL: lock.MaxTTL + time.Millisecond}})
		require.ErrorIs(t, err, lock.ErrBadTTL)
	})
}

// A Lock that gets its grant too late and does not try again releases the grant.
func TestALateGrantIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(ttl)
			}
			return nil
		})
		_, err := b.Mutex("k").Lock(t.Context())
		require.ErrorIs(t, err, lock.ErrUnavailable)
		settle(time.Second)
		assert.Equal(t, 1, b.calls(locktest.Release), fmt.Sprint(err))
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

// captured is a lock that keeps its handle for the test.
type captured struct {
	lock.Locker
	held *lock.Held
}

func (c *captured) Lock(ctx context.Context) (*lock.Held, error) {
	held, err := c.Locker.Lock(ctx)
	c.held = held
	return held, err
}

func TestDoOfAFunctionThatUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := &captured{Locker: b.Mutex("k")}
		errWork := errors.New("the work failed")
		err := lock.Do(t.Context(), c, func(ctx context.Context, _ *lock.Held) error {
			require.NoError(t, c.held.Unlock(ctx))
			return errWork
		})
		assert.Equal(t, errWork, err)
		assert.Equal(t, 1, b.calls(locktest.Release))
	})
}

func TestTheZeroClient(t *testing.T) {
	var none *lock.Client
	for _, c := range []*lock.Client{none, new(lock.Client)} {
		assert.Zero(t, c.Stats())
		require.Error(t, c.Close(t.Context()))
		assert.Same(t, c, c.With(lock.Terms{}))
	}
	assert.Empty(t, new(lock.Held).Handles())
}

func TestAContextOfNone(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		held := b.lock("k")
		var none context.Context
		ctx, stop := held.Context(none)
		defer stop()
		require.NoError(t, ctx.Err())
		require.NoError(t, held.Unlock(t.Context()))
		<-ctx.Done()
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
