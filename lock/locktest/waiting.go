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
	{name: "a_wait_that_is_refused", needs: needsWaiting, run: func(f *fixture) {
		_, err := f.store.Wait(f.cancelledContext(), f.request("k"), func() {})
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
}

func needsWaiting(c Config) bool { return c.Waiting != nil }
func needsOrder(c Config) bool   { return c.Waiting != nil && c.can.Unordered == 0 }
func needsDie(c Config) bool     { return c.Waiting != nil && c.Die != nil }

var errCancelled = errors.New("the waiter is cancelled")

// cancelledContext returns a context that has ended.
func (f *fixture) cancelledContext() context.Context {
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(errCancelled)
	return ctx
}

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
