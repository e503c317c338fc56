package redsync

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	"github.com/leasewheel/leasewheel/lock"
)

// The tests of this file are about what differs from the original.

const tryTime = 400 * time.Millisecond // of the default expiry

func TestAMinorityThatHangsCostsOneTryTime(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k")
		hung := list[2].hang()

		start := time.Now()
		require.NoError(t, m.Lock())
		assert.Equal(t, tryTime, time.Since(start))
		assert.Equal(t, start.Add(8*time.Second-80*time.Millisecond), m.Until())

		start = time.Now()
		succeeds(t, m.Extend)
		assert.Equal(t, tryTime, time.Since(start))

		start = time.Now()
		succeeds(t, m.Unlock)
		assert.Equal(t, tryTime, time.Since(start))

		resume(t, list, hung)
	})
}

func TestAMajorityThatHangsEndsATry(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k")
		hung := []chan struct{}{list[1].hang(), list[2].hang()}

		start := time.Now()
		err := m.TryLock()
		assert.Equal(t, 2*tryTime, time.Since(start), "the try, and the release")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, lock.ErrUnavailable)
		assert.NotErrorIs(t, err, lock.ErrNotAcquired)
		assert.Empty(t, list[0].value("k"), "released")

		resume(t, list, hung...)
		assert.Equal(t, 2, list[1].count(), "a late acquire and its release")
	})
}

func TestASecondTryOnAHungServerSendsNothing(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		hung := list[0].hang()
		m := rs.NewMutex("k", redsync.WithTries(3), redsync.WithRetryDelay(time.Second))
		assert.ErrorIs(t, m.Lock(), context.DeadlineExceeded)
		synctest.Wait()
		assert.Equal(t, 1, list[0].count())
		resume(t, list, hung)
	})
}

func TestASingleServerThatHangs(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k")
		require.NoError(t, m.Lock())
		hung := list[0].hang()
		for _, call := range []func() (bool, error){m.Extend, m.Valid, m.Unlock} {
			start := time.Now()
			ok, err := call()
			assert.False(t, ok)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 8*time.Second, time.Since(start), "the expiry")
		}
		close(hung)
	})
}

func TestACallReturnsWhenItsContextEnds(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		oops := errors.New("oops")
		calls := map[string]func(ctx context.Context, m *redsync.Mutex) error{
			"lock": func(ctx context.Context, m *redsync.Mutex) error { return m.LockContext(ctx) },
			"try":  func(ctx context.Context, m *redsync.Mutex) error { return m.TryLockContext(ctx) },
			"extend": func(ctx context.Context, m *redsync.Mutex) error {
				_, err := m.ExtendContext(ctx)
				return err
			},
			"valid": func(ctx context.Context, m *redsync.Mutex) error {
				_, err := m.ValidContext(ctx)
				return err
			},
			"unlock": func(ctx context.Context, m *redsync.Mutex) error {
				_, err := m.UnlockContext(ctx)
				return err
			},
		}
		for name, call := range calls {
			hung := []chan struct{}{list[1].hang(), list[2].hang()}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Millisecond, func() { cancel(oops) })
			start := time.Now()
			err := call(ctx, rs.NewMutex("k"))
			assert.Equal(t, 10*time.Millisecond, time.Since(start), name)
			if name == "lock" {
				assert.ErrorIs(t, err, redsync.ErrFailed)
			} else {
				assert.ErrorIs(t, err, context.Canceled, name)
				assert.ErrorIs(t, err, oops, name)
			}
			resume(t, list, hung...)
		}
	})
}

func TestUnlockIsSentAfterItsContextHasEnded(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k")
		require.NoError(t, m.Lock())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ok, err := m.UnlockContext(ctx)
		if !ok { // the answers may be there already
			assert.ErrorIs(t, err, context.Canceled)
		}
		assertFree(t, list, "k")
	})
}

func TestAnswersThatComeTooLate(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k", redsync.WithTimeoutFactor(1), redsync.WithTries(1))
		for _, n := range list {
			n.slow(7950 * time.Millisecond)
		}
		assert.Equal(t, redsync.ErrFailed, m.Lock())
		time.Sleep(time.Minute)
		assertFree(t, list, "k")
		assert.Zero(t, m.Until())

		for _, n := range list {
			n.slow(0)
		}
		require.NoError(t, m.Lock())
		until := m.Until()
		for _, n := range list {
			n.slow(7950 * time.Millisecond)
		}
		ok, err := m.Extend()
		assert.False(t, ok)
		assert.Equal(t, redsync.ErrExtendFailed, err)
		assert.Equal(t, until, m.Until())
	})
}

func TestFailFastDoesNotWait(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k", redsync.WithFailFast(true))
		hung := list[0].hang()
		start := time.Now()
		require.NoError(t, m.Lock())
		succeeds(t, m.Extend, m.Unlock)
		assert.Zero(t, time.Since(start))

		resume(t, list, hung)
		assert.Equal(t, 3, list[0].count(), "acquired, extended and released, in this order")
	})
}

func TestTheDelayOfATry(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		list[0].keys["k"] = "another"
		start := time.Now()
		assert.ErrorIs(t, rs.NewMutex("k", redsync.WithTries(11)).Lock(), lock.ErrNotAcquired)
		assert.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
		assert.Less(t, time.Since(start), 2500*time.Millisecond)

		start = time.Now()
		assert.Error(t, rs.NewMutex("k", redsync.WithTries(3), redsync.WithRetryDelayFunc(nil)).Lock())
		assert.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	})
}

func TestARequestThatWasSentTwice(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k")
		list[0].before(func(_ context.Context, command string) error {
			if command == "setnx" { // the first request was executed, and its answer was lost
				list[0].mu.Lock()
				defer list[0].mu.Unlock()
				list[0].keys["k"] = "the value of the mutex"
			}
			return nil
		})
		assert.ErrorIs(t, m.TryLock(), lock.ErrNotAcquired)
		assert.Equal(t, 2, list[0].count(), "the release is sent")

		list[0].before(nil)
		m = rs.NewMutex("k", redsync.WithGenValueFunc(func() (string, error) { return "host", nil }))
		list[0].keys["k"] = "host" // of another mutex
		assert.ErrorIs(t, m.TryLock(), lock.ErrNotAcquired)
		assert.Equal(t, "host", list[0].value("k"), "kept")
	})
}

func TestOneMutexForManyGoroutines(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, list []*node, rs *redsync.Redsync) {
		for _, n := range list {
			n.slow(time.Millisecond)
		}
		m := rs.NewMutex("k", redsync.WithTries(10_000))
		counter := 0
		together(5, func(int) {
			for range 5 {
				require.NoError(t, m.Lock())
				counter++
				succeeds(t, m.Extend)
				assert.NotEmpty(t, m.Value())
				assert.True(t, m.Until().After(time.Now()))
				succeeds(t, m.Unlock)
			}
		})
		assert.Equal(t, 25, counter)
		assertFree(t, list, "k")
	})
}

// Two calls that wait for each other at two nodes end with the time of a try.
func TestCallsOfOneMutexDoNotWaitForEachOther(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, _ []*node, rs *redsync.Redsync) {
		m := rs.NewMutex("k", redsync.WithShufflePools(true))
		start := time.Now()
		together(4, func(int) {
			for range 500 {
				if m.TryLock() == nil {
					_, err := m.Unlock()
					assert.NoError(t, err)
				}
			}
		})
		assert.Zero(t, time.Since(start))
	})
}

func TestNodesHaveTheIndicesOfNew(t *testing.T) {
	list, rs := nodes(3)
	list[1].keys["k"] = "another"
	for range 20 {
		_, err := rs.NewMutex("k", redsync.WithShufflePools(true), redsync.WithValue("v")).Valid()
		var taken *redsync.ErrTaken
		require.ErrorAs(t, err, &taken)
		slices.Sort(taken.Nodes)
		assert.Equal(t, []int{0, 1, 2}, taken.Nodes)

		m := rs.NewMutex("k", redsync.WithShufflePools(true))
		require.NoError(t, m.Lock())
		_, err = m.Valid()
		var node *redsync.ErrNodeTaken
		require.ErrorAs(t, err, &node)
		assert.Equal(t, 1, node.Node)
		_, _ = m.Unlock()
	}
}

func TestExtendNeedsAValue(t *testing.T) {
	list, rs := nodes(1)
	ok, err := rs.NewMutex("k", redsync.WithSetNXOnExtend()).Extend()
	assert.False(t, ok)
	assert.Equal(t, redsync.ErrExtendFailed, err)
	assert.Zero(t, list[0].count())
}

func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	list, rs := nodes(1)
	short := rs.NewMutex("orders", redsync.WithExpiry(time.Millisecond-1))
	for _, c := range []struct {
		m    *redsync.Mutex
		want string
	}{
		{short, `redsync: mutex "orders": lock: bad TTL: the expiry 999.999µs is below 1ms`},
		{redsync.New().NewMutex("orders"), `redsync: no pools for mutex "orders"`},
		{redsync.New(list[0], nil).NewMutex("orders"), `redsync: pool 1 of mutex "orders" is nil`},
		{redsync.New((*node)(nil)).NewMutex("orders"), `redsync: pool 0 of mutex "orders" is nil`},
	} {
		assert.EqualError(t, c.m.Lock(), c.want)
		assert.EqualError(t, c.m.TryLock(), c.want)
		ok, err := c.m.Extend()
		assert.False(t, ok)
		assert.EqualError(t, err, c.want)
		if c.m == short { // another process may have acquired the lock
			continue
		}
		ok, err = c.m.Unlock()
		assert.False(t, ok)
		assert.EqualError(t, err, c.want)
		ok, err = c.m.Valid()
		assert.False(t, ok)
		assert.EqualError(t, err, c.want)
	}
	assert.Zero(t, list[0].count())
	assert.ErrorIs(t, short.Lock(), lock.ErrBadTTL)

	list[0].keys["orders"] = "v"
	ok, err := rs.NewMutex("orders", redsync.WithExpiry(0), redsync.WithValue("v")).Unlock()
	assert.True(t, ok)
	assert.NoError(t, err)
}

func TestANilContextDoesNotEnd(t *testing.T) {
	_, rs := nodes(1)
	m := rs.NewMutex("k")
	var none context.Context
	require.NoError(t, m.LockContext(none))
	ok, err := m.UnlockContext(none)
	assert.True(t, ok)
	assert.NoError(t, err)
}

func TestErrorsMatchThoseOfPackageLock(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{redsync.ErrFailed, lock.ErrNotAcquired},
		{redsync.ErrExtendFailed, lock.ErrLost},
		{redsync.ErrLockAlreadyExpired, lock.ErrNotHeld},
		{&redsync.ErrTaken{}, lock.ErrNotAcquired},
		{&redsync.RedisError{Err: errors.New("oops")}, lock.ErrUnavailable},
		{&redsync.ErrNodeTaken{}, nil},
	} {
		for _, e := range []error{lock.ErrNotAcquired, lock.ErrLost, lock.ErrNotHeld, lock.ErrUnavailable, lock.ErrClosed} {
			assert.Equal(t, errors.Is(c.want, e), errors.Is(c.err, e), "%v, %v", c.err, e)
		}
	}
	oops := errors.New("oops")
	assert.ErrorIs(t, redsync.RedisError{Err: oops}, oops)
}

// exiting is a pool that ends the goroutine of the call.
type exiting struct{}

func (exiting) Get(context.Context) (redis.Conn, error) {
	runtime.Goexit()
	return nil, nil
}

func TestAPoolThatEndsTheGoroutine(t *testing.T) {
	list, _ := nodes(2)
	m := redsync.New(list[0], exiting{}).NewMutex("k", redsync.WithExpiry(time.Hour))
	assert.ErrorContains(t, m.TryLock(), "node #1: the goroutine of the call has ended")
	assert.Empty(t, list[0].value("k"))
	_, err := m.Unlock()
	assert.ErrorContains(t, err, "node #1: the goroutine of the call has ended")
}
