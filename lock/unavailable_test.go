package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// fails makes all requests that acquire something fail.
func fails(err error) func(context.Context, locktest.Op) error {
	return func(_ context.Context, op locktest.Op) error {
		if op == locktest.Acquire || op == locktest.Wait {
			return err
		}
		return nil
	}
}

// hangs makes all requests hang until their ctx ends.
func hangs(ctx context.Context, _ locktest.Op) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// contention requires an error that says that the lock is taken, and unavailability one
// that says that the store gave no usable answer.
func contention(t *testing.T, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrNotAcquired, about...)
	require.NotErrorIs(t, err, lock.ErrUnavailable, about...)
}

func unavailability(t *testing.T, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrUnavailable, about...)
	require.NotErrorIs(t, err, lock.ErrNotAcquired, about...)
	require.NotErrorAs(t, err, new(*lock.HeldError), about...)
}

// kindsOf returns locks of all kinds on one key.
func kindsOf(b *bench) map[string]lock.Locker {
	return map[string]lock.Locker{
		"mutex": b.Mutex("k"), "reentrant": b.Reentrant("k"), "writer": b.RWMutex("k"), "reader": b.RWMutex("k").RLocker(),
		"semaphore": b.Semaphore("k", 1), "batch": b.Batch("k", "m"), "election": b.Election("k", "me"), "multi": lock.Multi(b.Mutex("k"), b.Mutex("l")),
	}
}

func onBothStores(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Run("without queues", func(t *testing.T) { bubble(t, test) })
	t.Run("with queues", func(t *testing.T) { waiting(t, nil, test) })
}

func TestAStoreWithoutAnAnswerIsUnavailable(t *testing.T) {
	onBothStores(t, func(t *testing.T, b *bench) {
		for name, l := range kindsOf(b) {
			for how, get := range map[string]func(context.Context) (*lock.Held, error){"Lock": l.Lock, "TryLock": l.TryLock} {
				about := name + " " + how
				b.loseRequests(fails(errIO))
				_, err := get(ctx)
				unavailability(t, err, about)
				require.ErrorIs(t, err, errIO, about)
				require.NotErrorIs(t, err, context.DeadlineExceeded, about)

				b.loseRequests(fails(fmt.Errorf("dial: %w", context.DeadlineExceeded)))
				_, err = get(ctx)
				unavailability(t, err, about)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "the ctx has not ended")

				b.loseRequests(hangs)
				short, cancel := context.WithTimeout(ctx, 5*time.Second)
				_, err = get(short)
				cancel()
				unavailability(t, err, about)
				require.ErrorIs(t, err, context.DeadlineExceeded, about)

				canceled, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				_, err = get(canceled)
				unavailability(t, err, about)
				require.ErrorIs(t, err, context.Canceled, about)
				b.heal()
				settle(time.Minute)
			}
		}
	})
}

func TestATakenLockIsNotUnavailable(t *testing.T) {
	onBothStores(t, func(t *testing.T, b *bench) {
		for name, l := range kindsOf(b) {
			first := l
			if name == "reader" {
				first = b.RWMutex("k")
			}
			held, err := first.Lock(ctx)
			require.NoError(t, err, name)
			_, err = l.TryLock(ctx)
			contention(t, err, name)
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = l.Lock(short)
			cancel()
			contention(t, err, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			_, err = l.TryLock(short)
			contention(t, err, "the store was not asked")
			require.NoError(t, held.Unlock(ctx), name)
			settle(time.Minute)
		}
	})
}

// The latest answer decides, unless a later request is overdue.
func TestTheLatestAnswerDecides(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.taken("k")
		try := func(until time.Duration, then func(context.Context, locktest.Op) error) error {
			b.heal()
			short, cancel := context.WithTimeout(ctx, until)
			defer cancel()
			defer time.AfterFunc(2*time.Second, func() { b.loseRequests(then) }).Stop()
			_, err := b.Mutex("k").Lock(short)
			return err
		}
		contention(t, try(time.Second, hangs), "it hangs later")
		contention(t, try(2*time.Second+50*time.Millisecond, hangs), "the answer is not overdue")
		unavailability(t, try(5*time.Second, hangs))
		unavailability(t, try(5*time.Second, fails(errIO)))
	})
}

// queueingStore is a store whose Wait says that the owner is queued, or not, and then ends as
// the test wants.
type queueingStore struct {
	driver.Store
	queued bool
	end    func(context.Context) error
}

func (s *queueingStore) Wait(ctx context.Context, _ driver.Request, queued func()) (driver.Lease, error) {
	if s.queued {
		queued()
		queued() // as often as the store likes
	}
	<-ctx.Done()
	return driver.Lease{}, s.end(ctx)
}

func TestAQueuedLockWhoseContextEnds(t *testing.T) {
	type end = func(context.Context) error
	cause := context.Cause
	for name, c := range map[string]struct {
		queued bool
		end    end
		want   func(*testing.T, error, ...any)
	}{
		"queued":                  {true, cause, contention},
		"queued, the plain error": {true, context.Context.Err, contention},
		"not queued":              {false, cause, unavailability},
		"queued, the last poll lost": {true, func(ctx context.Context) error {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
		}, unavailability},
		"queued, then an error": {true, func(context.Context) error { return errIO }, unavailability},
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, nil, func(t *testing.T, b *bench) {
				b.store.Over(&queueingStore{b.mem, c.queued, c.end})
				canceled, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Minute, func() { cancel(errors.New("enough")) })
				_, err := b.Mutex("k").Lock(canceled)
				c.want(t, err)
				require.ErrorContains(t, err, "enough")
				require.ErrorIs(t, err, context.Cause(canceled))
			})
		})
	}
}

// Calls of one client wait for each other, so most of them never ask the store.
func TestTheLocalQueueKnowsWhetherTheStoreAnswers(t *testing.T) {
	onBothStores(t, func(t *testing.T, b *bench) {
		all := func() (errs []error) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					short, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					_, err := b.Mutex("k").Lock(short)
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				})
			}
			wg.Wait()
			return errs
		}
		b.loseRequests(hangs)
		for _, err := range all() {
			unavailability(t, err)
		}
		b.heal()
		settle(time.Minute)
		b.taken("k")
		go func() { // is in the queue of the store before the others come
			long, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, _ = b.Mutex("k").Lock(long)
		}()
		settle(time.Second)
		for _, err := range all() {
			contention(t, err)
		}
		settle(time.Minute)
	})
}

// The cause of a ctx may be the error of any other lock.
func TestTheCauseOfTheContextDoesNotDecide(t *testing.T) {
	onBothStores(t, func(t *testing.T, b *bench) {
		ending := func(cause error) context.Context {
			c, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			return c
		}
		closed := fmt.Errorf("other: %w", lock.ErrClosed) // the client of b is open
		b.loseRequests(hangs)
		for _, cause := range []error{&lock.HeldError{Key: "other"}, closed} {
			_, err := b.Mutex("k").Lock(ending(cause))
			unavailability(t, err)
			require.ErrorIs(t, err, cause, "it is the cause all the same")
		}
		b.heal()
		settle(time.Minute)

		b.taken("k")
		for _, cause := range []error{fmt.Errorf("other: %w", lock.ErrUnavailable), closed} {
			_, err := b.Mutex("k").Lock(ending(cause))
			contention(t, err)
			require.ErrorIs(t, err, cause)
		}
	})
}

func TestOtherCallsOfAnUnavailableStore(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		first, second := b.lock("a"), b.lock("b")
		b.loseRequests(hangs)
		err := first.Unlock(ctx)
		unavailability(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the ctx has not ended")
		require.EqualError(t, err, `lock: unlock "a": not confirmed yet: store unavailable: no answer within 3s`)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = b.Inspect(short, "a")
		unavailability(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = b.Inspect(short, "a")
		require.EqualError(t, err, `lock: inspect "a": context deadline exceeded`)
		require.NotErrorIs(t, err, lock.ErrUnavailable, "the store was not asked")

		b.loseRequests(func(context.Context, locktest.Op) error { return errIO })
		unavailability(t, second.Unlock(ctx))
		unavailability(t, b.ForceRelease(ctx, "a"))
		_, err = b.Election("a", "me").Leader(ctx)
		unavailability(t, err)
		b.heal()
		settle(time.Minute)
		err = b.ForceRelease(ctx, "a")
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
	})
}

func TestAnAcquireThatWasNotSentLeavesNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, b *bench) {
		b.loseRequests(fails(fmt.Errorf("%w: connection refused", driver.ErrNotSent)))
		for i := range 20 {
			_, err := b.Mutex(fmt.Sprint(i)).TryLock(ctx)
			unavailability(t, err)
			_, err = b.Mutex(fmt.Sprint(i)).Lock(ctx)
			unavailability(t, err)
		}
		assert.Zero(t, b.Stats().Releasing)
		assert.Zero(t, b.calls(locktest.Release))
		b.loseRequests(func(context.Context, locktest.Op) error { return driver.ErrNotSent })
		require.NoError(t, b.Close(ctx))
	})
}

// A store that makes the mistake to return ErrNotSent for its last request only.
func TestAWaitThatHasSentSomethingIsReleased(t *testing.T) {
	for name, s := range map[string]forgetfulWaiter{
		"a place in the queue": {queued: true},
		"an unanswered grant":  {unanswered: true},
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, nil, func(t *testing.T, b *bench) {
				s.Store = b.mem
				b.store.Over(s)
				_, err := b.Mutex("k").Lock(ctx)
				unavailability(t, err)
				synctest.Wait()
				assert.Equal(t, 1, b.calls(locktest.Release))
			})
		})
	}
}

// forgetfulWaiter has a Wait whose last request is not sent.
type forgetfulWaiter struct {
	driver.Store
	queued, unanswered bool
}

func (w forgetfulWaiter) Wait(ctx context.Context, _ driver.Request, queued func()) (driver.Lease, error) {
	if w.queued {
		queued()
	}
	return driver.Lease{Unanswered: w.unanswered}, driver.ErrNotSent
}

// A second try that is not sent does not undo the first.
func TestAnAcquireThatMayHaveBeenSentIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		lost := once(locktest.Acquire, errIO)
		b.loseAnswers(lost)
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire && b.calls(op) > 1 {
				return driver.ErrNotSent
			}
			return nil
		})
		_, err := b.Mutex("k").TryLock(ctx)
		unavailability(t, err)
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
		assert.Positive(t, b.calls(locktest.Release))
	})
}
