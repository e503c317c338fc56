package redisson

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestPermitsAreWaitedFor(t *testing.T) {
	t.Parallel()
	store, rdb := own(t, Options{})
	s := store.Semaphore("s")
	set, err := s.TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	require.True(t, set)
	set, err = s.TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	assert.False(t, set)
	ids, err := s.TryAcquire(t.Context(), 2, time.Hour)
	require.NoError(t, err)
	_, err = s.TryAcquire(t.Context(), 1, time.Hour)
	var held *driver.HeldError
	require.ErrorAs(t, err, &held)
	assert.InDelta(t, time.Hour, held.ExpiresIn, float64(time.Minute))
	free, taken, err := s.Permits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{0, 2}, []int{free, taken})

	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), 1, time.Hour)
		done <- err
	}()
	asleep(t, store, rdb, semaphoreChannel(store.options.Prefix+"s"), 1)
	require.NoError(t, s.Release(t.Context(), ids[0]))
	soon(t, done)
	require.ErrorIs(t, s.Release(t.Context(), ids[0]), driver.ErrNotHeld)
	require.ErrorIs(t, s.Release(t.Context(), ids...), driver.ErrNotHeld, "only one of them was held")
	free, taken, err = s.Permits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{free, taken})
	for _, id := range []string{"", "zz", ids[0] + "00"} {
		require.ErrorContains(t, s.Release(t.Context(), id), "32 hexadecimal digits")
	}
	_, err = s.TryAcquire(t.Context(), 0, 0)
	require.ErrorContains(t, err, "number of permits must be 1 to 1000, got 0")
	_, err = s.TryAcquire(t.Context(), 1, time.Nanosecond)
	require.ErrorIs(t, err, driver.ErrBadTTL)
}

func TestPermitsEndWithTheirLeases(t *testing.T) {
	t.Parallel()
	store, _ := own(t, Options{})
	s := store.Semaphore("s")
	_, err := s.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	ids, err := s.TryAcquire(t.Context(), 1, 200*time.Millisecond)
	require.NoError(t, err)
	next, err := s.Acquire(t.Context(), 1, time.Hour) // nobody publishes a message
	require.NoError(t, err)
	require.ErrorIs(t, s.Release(t.Context(), ids...), driver.ErrNotHeld)
	require.ErrorIs(t, s.Extend(t.Context(), ids[0], time.Hour), driver.ErrNotHeld)
	require.NoError(t, s.Extend(t.Context(), next[0], time.Minute))
	_, err = s.TryAcquire(t.Context(), 1, 0)
	var held *driver.HeldError
	require.ErrorAs(t, err, &held)
	assert.LessOrEqual(t, held.ExpiresIn, time.Minute)
}

func TestPermitsOfARequestWithoutAnAnswerAreReleased(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	proxy := testredis.StartProxy(t, server)
	direct := newStore(t, server.Client(t), nil).Semaphore("s")
	_, err := direct.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	s := newStore(t, proxy.Client(t), nil).Semaphore("s")
	_, err = s.TryAcquire(t.Context(), 1, 0) // opens a connection
	require.NoError(t, err)
	_, held, err := direct.Permits(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, held)

	other := newStore(t, proxy.Client(t), nil).Semaphore("other")
	_, err = newStore(t, server.Client(t), nil).Semaphore("other").TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	proxy.Delay(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = other.TryAcquire(ctx, 1, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool {
		_, held, err := newStore(t, server.Client(t), nil).Semaphore("other").Permits(t.Context())
		return err == nil && held == 0
	}, 20*time.Second, 200*time.Millisecond)
}

func TestALatchOpens(t *testing.T) {
	t.Parallel()
	store, rdb := own(t, Options{})
	l := store.Latch("l")
	require.NoError(t, l.Await(t.Context()), "it has no count")
	require.NoError(t, l.CountDown(t.Context()))
	n, err := l.Count(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n, "CountDown of an open latch does nothing")
	_, err = l.TrySetCount(t.Context(), 0)
	require.ErrorContains(t, err, "the count must be at least 1, got 0")
	set, err := l.TrySetCount(t.Context(), 2)
	require.NoError(t, err)
	require.True(t, set)
	set, err = l.TrySetCount(t.Context(), 3)
	require.NoError(t, err)
	assert.False(t, set)
	done := make(chan error, 1)
	wait := func() {
		go func() { done <- l.Await(t.Context()) }()
		asleep(t, store, rdb, latchChannel(store.options.Prefix+"l"), 1)
	}
	wait()
	require.NoError(t, l.CountDown(t.Context()))
	n, err = l.Count(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	require.NoError(t, l.CountDown(t.Context()))
	soon(t, done)
	_, err = l.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	wait()
	deleted, err := l.Delete(t.Context())
	require.NoError(t, err)
	assert.True(t, deleted)
	soon(t, done)
}

func TestARepeatedCountDownCountsOnce(t *testing.T) {
	t.Parallel()
	store, _ := own(t, Options{})
	l := store.Latch("l")
	_, err := l.TrySetCount(t.Context(), 3)
	require.NoError(t, err)
	for range 2 {
		done, err := l.changeOnce(t.Context(), "down", 0, "one mark")
		require.NoError(t, err)
		assert.True(t, done)
	}
	n, err := l.Count(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
}

// RMultiLock has no format of its own: lock.Multi holds all of its members, each in its own format.
func TestMultiOfSeveralKinds(t *testing.T) {
	t.Parallel()
	plain, rdb := own(t, Options{})
	fair := newStore(t, rdb, &Options{Kind: KindFairLock, Prefix: plain.options.Prefix})
	a, err := lock.New(plain, nil)
	require.NoError(t, err)
	b, err := lock.New(fair, nil)
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, a.Close(context.Background()))
		assert.NoError(t, b.Close(context.Background()))
	}()
	all := lock.Multi(a.Mutex("a"), b.Mutex("b"), a.RWMutex("c"))
	h, err := all.Lock(t.Context())
	require.NoError(t, err)
	for _, key := range []string{"a", "b", "c"} {
		info, err := plain.Inspect(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, 1, info.Held, key)
	}
	assert.True(t, b.Queues())
	assert.False(t, a.Queues(), "an RLock has no queue")
	require.NoError(t, h.Unlock(t.Context()))
}
