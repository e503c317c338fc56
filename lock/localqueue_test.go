package lock

import (
	"container/list"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Calls ask, give up and fail at random. A writer asks alone, the number of concurrent calls is
// bounded, and every call returns.
func TestWhoAsksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l localQueues
		l.init(1000)
		var mu sync.Mutex // guards both
		asking, most := map[driver.Mode]int{}, map[driver.Mode]int{}
		call := func(r driver.Request) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(100)+1)*time.Millisecond)
			defer cancel()
			own := new(localCall)
			if l.enter(ctx, r, own, nil) != nil {
				return
			}
			mu.Lock()
			asking[r.Mode]++
			most[r.Mode] = max(most[r.Mode], asking[r.Mode])
			assert.False(t, asking[driver.Write] > 0 && asking[driver.Write]+asking[driver.Read] > 1, "a writer asks alone")
			mu.Unlock()
			time.Sleep(time.Duration(rand.N(5)) * time.Millisecond)
			mu.Lock()
			asking[r.Mode]--
			mu.Unlock()
			if rand.N(20) == 0 {
				l.leave(r, own, false, false, context.Canceled)
				return
			}
			l.leave(r, own, false, false, nil)
		}
		permits, batch := &driver.Attrs{Limit: 5}, &driver.Attrs{Members: []string{"m"}}
		var wg sync.WaitGroup
		for i := range 3000 {
			r := driver.Request{Key: "k", Mode: driver.Mode(i % 5)}
			switch r.Mode {
			case driver.Write:
				if i%4 > 0 {
					r.Mode = driver.Read
				}
			case driver.Permit:
				r.Attrs = permits
			case driver.Members:
				r.Attrs = batch
			}
			wg.Go(func() { call(r) })
			if i%100 == 0 {
				time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
			}
		}
		wg.Wait()
		require.Zero(t, l.len())
		require.Empty(t, l.queues)
		assert.Equal(t, 1, most[driver.Exclusive])
		assert.Equal(t, 1, most[driver.Write])
		assert.LessOrEqual(t, most[driver.Permit], 5)
		assert.LessOrEqual(t, most[driver.Read], maxActive)
		for _, mode := range []driver.Mode{driver.Read, driver.Permit, driver.Members} {
			assert.Greater(t, most[mode], 1, mode)
		}
	})
}

// The ctx of a queued call ends, and before the call leaves the queue it is allowed to ask or
// is failed. This moment is too short for a test from outside.

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// behind adds a call to the queue of r.
func behind(l *localQueues, r driver.Request) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	return l.queues[queueKeyOf(r)].waiters.PushBack(&turn{call: new(localCall), request: r, ended: make(chan error, 1)})
}

// lineFor returns queues with one active call for r and one behind it.
func lineFor(t *testing.T, r driver.Request) (l *localQueues, active *localCall, place *list.Element) {
	t.Helper()
	l, active = new(localQueues), new(localCall)
	l.init(10)
	require.NoError(t, l.enter(t.Context(), r, active, nil))
	return l, active, behind(l, r)
}

func TestACallThatLeavesItsLineTooLate(t *testing.T) {
	r := driver.Request{Key: "k"}
	t.Run("its turn has come", func(t *testing.T) {
		l, active, place := lineFor(t, r)
		l.leave(r, active, false, false, nil)
		require.ErrorIs(t, l.cancel(ended, queueKeyOf(r), place), ErrUnavailable, "the store has answered nobody")
		assert.Zero(t, l.len())
		assert.Empty(t, l.queues, "the line is given back")
	})
	t.Run("it was told that the call before it failed", func(t *testing.T) {
		l, active, place := lineFor(t, r)
		l.leave(r, active, false, false, io.EOF)
		assert.Empty(t, l.queues, "the line is given back")
		require.ErrorIs(t, l.cancel(ended, queueKeyOf(r), place), io.EOF)
		assert.Zero(t, l.len())
	})
}

// The queue of a key is used again for the next key, without what was counted in it.
func TestAnUnusedQueueServesTheNextKey(t *testing.T) {
	l := new(localQueues)
	l.init(10)
	read := driver.Request{Key: "k", Mode: driver.Read}
	reader, writer := new(localCall), new(localCall)
	require.NoError(t, l.enter(t.Context(), read, reader, nil))
	of := l.queues[queueKeyOf(read)]
	l.setTaken(read, true)
	l.leave(read, reader, true, false, nil)
	require.Empty(t, l.queues)
	other := driver.Request{Key: "other"}
	require.NoError(t, l.enter(t.Context(), other, writer, nil))
	assert.Same(t, of, l.queues[queueKeyOf(other)])
	assert.Equal(t, keyQueue{active: []*localCall{writer}}, *of)
	require.NoError(t, l.enter(t.Context(), read, reader, nil))
	assert.NotSame(t, of, l.queues[queueKeyOf(read)])
}

// If a call is cancelled at the moment at which it may ask the store, the next call may ask.
func TestATurnIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l localQueues
		l.init(10)
		k := driver.Request{Key: "k"}
		var had, cancelled int
		for i := range 200 {
			var a, b, c localCall
			require.NoError(t, l.enter(t.Context(), k, &a, nil))
			ctx, cancel := context.WithCancel(t.Context())
			second, third := make(chan error), make(chan error)
			go func() { second <- l.enter(ctx, k, &b, nil) }()
			synctest.Wait()
			go func() { third <- l.enter(t.Context(), k, &c, nil) }()
			synctest.Wait()
			assert.Equal(t, 3, l.len())
			if i%2 == 0 {
				l.leave(k, &a, false, false, nil)
				cancel()
			} else { // the call may notice this only after it was allowed to ask
				l.mu.Lock()
				cancel()
				l.calls--
				l.queues[queueKeyOf(k)].remove(&a)
				l.advance(queueKeyOf(k))
				l.mu.Unlock()
			}
			if err := <-second; err == nil {
				had++
				l.leave(k, &b, false, false, nil)
			} else {
				cancelled++
				require.ErrorIs(t, err, ErrUnavailable, "the store has answered nobody")
			}
			require.NoError(t, <-third)
			l.leave(k, &c, false, false, nil)
			require.Zero(t, l.len())
			require.Empty(t, l.queues)
		}
		t.Logf("%d had their turn, %d were cancelled", had, cancelled)
	})
}
