// Cases of Wait in mode Exclusive.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// patience bounds the time of events that must happen, even on a busy machine.
func (f *fixture) patience() time.Duration { return 20*time.Second + 3*f.longest(f.TTL) }

// waiting has cases whose leases outlast a busy machine.
var waiting = []testCase{
	{name: "a_free_lock_is_not_waited_for", needs: needsWaiting, run: func(f *fixture) {
		r := f.request("k")
		start := time.Now()
		l, err := f.store.Wait(f.ctx, r, func() {})
		require.NoError(f, err)
		l = complete(l, r)
		assert.Equal(f, f.Tokenless, l.Token == 0)
		assert.False(f, l.Unanswered)
		f.fresh(l, start)
		f.heldByOther("k")
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		require.NoError(f, f.store.Release(f.ctx, l))
		f.acquire(f.request("k"))
	}},
	{name: "a_released_lock_is_handed_over_in_order", needs: needsOrder, run: func(f *fixture) {
		const n = 8
		holder := f.acquire(f.request("k"))
		var calls []*waitCall
		for range n {
			calls = append(calls, f.wait("k"))
		}
		last := holder.Token
		for i, c := range calls {
			for _, other := range calls[i:] {
				require.False(f, other.over(), "the lock is still held")
			}
			require.NoError(f, f.store.Release(f.ctx, holder))
			holder = c.get()
			f.rises(last, holder.Token) // S3
			last = holder.Token
			assert.False(f, holder.Sent.After(time.Now()))
			f.heldByOther("k")
			assert.Equal(f, []outcome{renewed}, f.renew(holder))
		}
		require.NoError(f, f.store.Release(f.ctx, holder))
		f.acquire(f.request("k"))
	}},
	{name: "S4_a_waiter_is_not_overtaken", needs: needsOrder, run: func(f *fixture) {
		holder := f.acquire(f.request("k"))
		c := f.wait("k")
		require.NoError(f, f.store.Release(f.ctx, holder))
		f.heldByOther("k") // whether or not the waiter has noticed the release
		c.get()
	}},
	{name: "L4_a_waiter_that_is_cancelled_leaves", needs: needsWaiting, run: func(f *fixture) {
		holder := f.acquire(f.request("k"))
		first, second := f.wait("k"), f.wait("k")
		start := time.Now()
		require.ErrorIs(f, first.cancelled(), errCancelled)
		assert.Less(f, time.Since(start), f.TTL, "a cancelled Wait returns at once")
		first.release()
		require.Equal(f, 1, f.Waiting(f.T, f.store, holder.Key))
		require.NoError(f, f.store.Release(f.ctx, holder))
		l := second.get()
		require.NoError(f, f.store.Release(f.ctx, l))
		f.acquire(f.request("k"))
	}},
	{name: "L4_a_hand_over_that_crosses_a_cancellation_is_not_lost", needs: needsWaiting, run: func(f *fixture) {
		var got, given int
		var wg sync.WaitGroup
		defer wg.Wait()
		for range 40 {
			holder := f.acquire(f.request("k"))
			c := f.wait("k")
			wg.Go(func() {
				time.Sleep(rand.N(time.Millisecond))
				assert.NoError(f, f.store.Release(f.ctx, holder))
			})
			time.Sleep(rand.N(time.Millisecond))
			if c.cancelled() == nil {
				got++
			} else {
				given++
			}
			c.release()
			wg.Wait()
			f.acquireAndRelease("k") // the lock is free at once
		}
		f.Logf("%d calls got the lock, %d were cancelled first", got, given)
	}},
	{name: "L4_a_late_wait_of_a_released_owner_fails", needs: needsWaiting, run: func(f *fixture) {
		r := f.request("k")
		require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		_, err := f.store.Wait(f.ctx, r, func() {})
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		f.acquire(f.request("k"))
	}},
	{name: "a_wait_that_is_refused", needs: needsWaiting, run: func(f *fixture) {
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errCancelled)
		_, err := f.store.Wait(ctx, f.request("k"), func() {})
		require.ErrorIs(f, err, errCancelled)
		r := f.request("k")
		r.Mode = 250
		_, err = f.store.Wait(f.ctx, r, func() {})
		require.ErrorIs(f, err, errors.ErrUnsupported)
		f.acquire(f.request("k"))
		if f.Spoil != nil {
			spoiled := f.request("spoiled")
			f.Spoil(f.T, f.store, spoiled.Key)
			_, err = f.store.Wait(f.ctx, spoiled, func() {})
			require.ErrorIs(f, err, driver.ErrWrongType)
		}
	}},
	{name: "waits_of_many_keys_do_not_meet", needs: needsWaiting, run: func(f *fixture) {
		const n = 20
		var holders []driver.Lease
		var calls []*waitCall
		for i := range n {
			holders = append(holders, f.acquire(f.request(fmt.Sprint(i))))
			calls = append(calls, f.wait(fmt.Sprint(i)))
		}
		for i := range n {
			require.NoError(f, f.store.Release(f.ctx, holders[n-1-i]))
			calls[n-1-i].get()
		}
	}},
	{name: "S1_S3_many_wait_and_some_give_up", needs: needsWaiting, run: func(f *fixture) {
		const clients, rounds = 8, 12
		key, ex := f.request("k").Key, NewExclusion()
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				for round := range rounds {
					r := f.request("k")
					ctx, cancel := context.WithCancel(f.ctx)
					if (i+round)%4 == 0 {
						ctx, cancel = context.WithTimeout(f.ctx, rand.N(20*time.Millisecond))
					}
					l, err := f.store.Wait(ctx, r, func() {})
					cancel()
					if err != nil {
						assert.ErrorIs(f, err, context.DeadlineExceeded)
						err = f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: l.Unanswered})
						if !errors.Is(err, driver.ErrNotHeld) {
							assert.NoError(f, err)
						}
						continue
					}
					l = complete(l, r)
					ex.Enter(key, l.Token)
					time.Sleep(rand.N(time.Millisecond))
					ex.Leave(key, l.Token)
					assert.NoError(f, f.store.Release(f.ctx, l))
				}
			})
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.GreaterOrEqual(f, ex.Entered(), clients*rounds*3/4)
		assert.Zero(f, f.Waiting(f.T, f.store, key))
		f.acquireAndRelease("k")
	}},
}

// waitingForEnds has cases that wait for leases or places to end.
var waitingForEnds = []testCase{
	{name: "S1_a_lock_that_was_handed_over_lasts_its_TTL", ends: true, needs: needsWaiting, run: func(f *fixture) {
		holder := f.acquire(f.request("k"))
		c := f.wait("k")
		time.Sleep(f.TTL / 5)
		require.NoError(f, f.store.Release(f.ctx, holder))
		l := c.get()
		assert.Less(f, time.Since(l.Sent), f.TTL, "the lease has time left")
		next := f.wait("k")
		for end := l.Sent.Add(f.TTL - f.TTL/50); time.Now().Before(end); time.Sleep(f.TTL / 50) {
			over := next.over()
			if time.Now().Before(end) {
				require.False(f, over, "another waiter got the lock too early")
			}
		}
		next.get()
	}},
	{name: "L2_a_dead_holder_is_followed_by_the_next", ends: true, needs: needsWaiting, run: func(f *fixture) {
		holder := f.acquire(f.request("k"))
		first, second := f.wait("k"), f.wait("k")
		require.ErrorIs(f, first.cancelled(), errCancelled)
		first.release()
		l := second.get()
		assert.GreaterOrEqual(f, time.Since(holder.Sent), f.TTL-f.TTL/50, "not before the holder's TTL has passed")
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "L3_waiters_notice_a_deleted_lock", ends: true, needs: needsWaitingAndDelete, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		c := f.wait("k")
		f.Delete(f.T, f.store, l.Key)
		c.get()
	}},
	{name: "L3_dead_waiters_are_skipped", ends: true, needs: needsDie, run: func(f *fixture) {
		r := f.request("k")
		r.TTL *= 20 // outlasts a busy machine
		if f.limits.Max > 0 {
			r.TTL = min(r.TTL, f.limits.Max)
		}
		holder := f.acquire(r)
		for range 5 {
			f.Die(f.T, f.store, f.request("k"))
		}
		c := f.wait("k")
		require.NoError(f, f.store.Release(f.ctx, holder))
		start := time.Now()
		c.get()
		assert.Less(f, time.Since(start), 3*f.longest(f.TTL), "waiters that died together delay the queue by one TTL")
	}},
}

func needsWaiting(c Config) bool          { return c.Waiting != nil }
func needsOrder(c Config) bool            { return c.Waiting != nil && c.can.Unordered == 0 }
func needsWaitingAndDelete(c Config) bool { return c.Waiting != nil && c.Delete != nil }
func needsDie(c Config) bool              { return c.Waiting != nil && c.Die != nil }

var errCancelled = errors.New("the waiter is cancelled")

func (f *fixture) acquireAndRelease(key string) {
	f.Helper()
	require.NoError(f, f.store.Release(f.ctx, f.acquire(f.request(key))))
}

// waitCall is a call of Wait in a goroutine.
type waitCall struct {
	f       *fixture
	request driver.Request
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed after lease and err are set
	lease   driver.Lease
	err     error
}

// wait calls Wait for an exclusive lock, and returns when the call is in the queue.
func (f *fixture) wait(key string) *waitCall {
	f.Helper()
	return f.waitFor(f.request(key))
}

// waitFor calls Wait, and returns when the call is in the queue.
func (f *fixture) waitFor(r driver.Request) *waitCall {
	f.Helper()
	c := &waitCall{f: f, request: r, done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(f.ctx)
	c.cancel = cancel
	before := f.Waiting(f.T, f.store, c.request.Key)
	f.Cleanup(func() { c.cancel(errCancelled); <-c.done })
	go func() {
		defer close(c.done)
		c.lease, c.err = f.store.Wait(ctx, c.request, func() {})
	}()
	for end := time.Now().Add(f.patience()); f.Waiting(f.T, f.store, c.request.Key) == before; time.Sleep(time.Millisecond) {
		require.True(f, time.Now().Before(end), "Wait is not in the queue")
	}
	return c
}

// race returns two calls, the one that ends first before the other.
func (f *fixture) race(a, b *waitCall) (first, second *waitCall) {
	select {
	case <-b.done:
		return b, a
	case <-a.done:
	case <-time.After(f.patience()):
	}
	return a, b
}

func (c *waitCall) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// get expects that the lock is handed over to the call.
func (c *waitCall) get() driver.Lease {
	c.f.Helper()
	select {
	case <-c.done:
	case <-time.After(c.f.patience()):
		require.Fail(c.f, "the lock was not handed over in time")
	}
	require.NoError(c.f, c.err)
	return complete(c.lease, c.request)
}

// cancelled cancels the call and returns its error, which is nil if it has the lock.
func (c *waitCall) cancelled() error {
	c.cancel(errCancelled)
	<-c.done
	return c.err
}

// release releases the result of Wait, as the client does.
func (c *waitCall) release() {
	c.f.Helper()
	err := c.f.store.Release(c.f.ctx, driver.Lease{Request: c.request, Token: c.lease.Token, Unanswered: c.lease.Unanswered})
	if !errors.Is(err, driver.ErrNotHeld) {
		require.NoError(c.f, err)
	}
}
