package heapqueue_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

func push[T any](t *testing.T, q *heapqueue.Queue[T], v T, at time.Time) heapqueue.Handle[T] {
	t.Helper()
	item, err := q.Push(v, at)
	require.NoError(t, err)
	return item
}

// values returns the values of items.
func values[T any](items []heapqueue.Item[T]) []T {
	var values []T
	for _, item := range items {
		values = append(values, item.Value)
	}
	return values
}

func TestPopReturnsTheEarliestAtItsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		start := time.Now()
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(100) {
			push(t, &q, i, start.Add(time.Duration(i)*time.Second))
		}
		require.Equal(t, 100, q.Len())
		for i := range 100 {
			v, err := q.Pop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, i, v.Value)
			assert.Equal(t, time.Duration(i)*time.Second, time.Since(start))
		}
		assert.Zero(t, q.Len())
	})
}

func TestPopEndsWithItsContext(t *testing.T) {
	because := errors.New("because")
	for name, tc := range map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}, context.DeadlineExceeded},
		"deadline with cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Minute, because)
		}, because},
		"cancel with cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Minute, func() { cancel(because) })
			return ctx, func() { cancel(nil) }
		}, because},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q heapqueue.Queue[int]
				item := push(t, &q, 1, time.Now().Add(time.Hour))
				ctx, cancel := tc.with(t.Context())
				defer cancel()
				p := popLater(ctx, &q)
				settle(time.Minute)
				assert.Equal(t, &popped{0, tc.want, time.Minute}, p.Load())

				require.True(t, q.Move(item, time.Now()), "the value is still queued")
				_, err := q.Pop(ctx)
				require.ErrorIs(t, err, tc.want, "ctx has ended, so the due value stays")
				v, err := q.Pop(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, v.Value)
			})
		})
	}
}

func TestPopRefusesANilContext(t *testing.T) {
	var q, unused heapqueue.Queue[int]
	assert.Nil(t, unused.Close())
	push(t, &q, 1, time.Time{})
	var none context.Context
	_, err := q.Pop(none)
	require.ErrorContains(t, err, "nil context")
	assert.Equal(t, 1, q.Len())
}

func TestCloseWakesWaitersAndReturnsTheValuesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		var items []heapqueue.Handle[int]
		for _, i := range []int{3, 1, 0, 2, 4} {
			items = append(items, push(t, &q, i, time.Now().Add(time.Hour+time.Duration(i))))
		}
		require.True(t, q.Remove(items[0]))
		var waiting []*atomic.Pointer[popped]
		for range 3 {
			waiting = append(waiting, popLater(t.Context(), &q))
		}
		settle(time.Minute)
		assert.Equal(t, []int{0, 1, 2, 4}, values(q.Close()))
		settle(0)
		for _, p := range waiting {
			assert.Equal(t, 0, p.Load().value)
			assert.Equal(t, time.Minute, p.Load().after)
			require.ErrorIs(t, p.Load().err, schedule.ErrClosed)
			require.EqualError(t, p.Load().err, "heapqueue: queue is closed")
		}

		assert.Nil(t, q.Close())
		assert.Zero(t, q.Len())
		_, err := q.Push(5, time.Now())
		require.ErrorIs(t, err, schedule.ErrClosed)
		_, err = q.Pop(t.Context())
		require.ErrorIs(t, err, schedule.ErrClosed)
		for _, item := range items {
			assert.False(t, q.Move(item, time.Now()))
			assert.False(t, q.Remove(item))
		}
	})
}

func TestStaleAndForeignItemsDoNothing(t *testing.T) {
	var q, other heapqueue.Queue[int]
	far := time.Now().Add(time.Hour)
	kept := push(t, &q, 3, far)
	foreign := push(t, &other, 4, far) // equal to kept but for its queue
	removed := push(t, &q, 1, far)
	require.True(t, q.Remove(removed))
	gone := push(t, &q, 2, time.Time{})
	_, err := q.Pop(t.Context())
	require.NoError(t, err)

	assert.NotEqual(t, kept, removed)
	assert.NotEqual(t, kept, gone)
	assert.NotEqual(t, kept, foreign)
	for name, item := range map[string]heapqueue.Handle[int]{
		"removed": removed, "popped": gone, "zero": {}, "of another queue": foreign,
	} {
		assert.False(t, q.Move(item, time.Time{}), name)
		assert.False(t, q.Remove(item), name)
	}
	copied := kept
	assert.True(t, q.Move(copied, time.Time{}))
	v, err := q.Pop(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, v.Value)
	assert.Equal(t, []int{4}, values(other.Close()))
}

func TestExtremeInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		start := time.Now()
		push(t, &q, 5, time.Unix(1<<60, 0))
		push(t, &q, 6, start.Add(math.MaxInt64))
		push(t, &q, 4, start.Add(200*365*24*time.Hour))
		push(t, &q, 3, start)
		push(t, &q, 2, start.Add(-time.Hour))
		push(t, &q, 0, time.Time{})
		push(t, &q, 1, time.Unix(-1<<60, 0))
		for want := range 4 {
			v, err := q.Pop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, v.Value)
		}
		assert.Equal(t, start, time.Now(), "instants in the past are due at once")

		p := popLater(t.Context(), &q)
		settle(200*365*24*time.Hour - 1)
		assert.Nil(t, p.Load())
		settle(1)
		assert.Equal(t, 4, p.Load().value)
		assert.Equal(t, []int{5, 6}, values(q.Close()), "instants beyond the range are due at its end")
	})
}

func TestConcurrentCallersGetEachValueOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const producers, each = 4, 5000
		l := &ledger{left: make([]atomic.Int64, producers*each), instants: make([]time.Time, producers*each)}
		var consuming, producing sync.WaitGroup
		for i := range producers {
			consuming.Go(func() { l.consume(t, rand.New(rand.NewPCG(uint64(i), 2))) })
			producing.Go(func() { l.produce(t, rand.New(rand.NewPCG(uint64(i), 1)), i*each, each) })
		}
		producing.Wait()
		time.Sleep(5 * time.Millisecond) // leaves some values for Close
		for _, v := range l.queue.Close() {
			l.left[v.Value].Add(1)
		}
		consuming.Wait()
		for v := range l.left {
			require.EqualValues(t, 1, l.left[v].Load(), "value %d", v)
		}
	})
}

// ledger counts how often each value left the queue, by Pop, Remove or Close, and records
// the instant of each value.
type ledger struct {
	queue    heapqueue.Queue[int]
	left     []atomic.Int64
	instants []time.Time // of each value, set before its Push
}

// consume pops with short timeouts until the queue is closed.
func (l *ledger) consume(t *testing.T, rng *rand.Rand) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(time.Millisecond))))
		item, err := l.queue.Pop(ctx)
		cancel()
		switch {
		case errors.Is(err, schedule.ErrClosed):
			return
		case err == nil:
			l.left[item.Value].Add(1)
			assert.False(t, time.Now().Before(l.instants[item.Value]), "value %d was popped early", item.Value)
		}
	}
}

// produce pushes n values from first on. At random, it removes or delays the value pushed
// before.
func (l *ledger) produce(t *testing.T, rng *rand.Rand, first, n int) {
	var before heapqueue.Handle[int]
	for v := first; v < first+n; v++ {
		l.instants[v] = time.Now().Add(time.Duration(rng.Int64N(int64(10*time.Millisecond))) - time.Millisecond)
		switch op := rng.IntN(3); {
		case op == 0 && l.queue.Remove(before):
			l.left[v-1].Add(1)
		case op == 1 && v > first:
			l.queue.Move(before, l.instants[v-1].Add(time.Millisecond))
		}
		var err error
		before, err = l.queue.Push(v, l.instants[v])
		assert.NoError(t, err)
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond))))
		}
	}
}

func TestQueueKeepsNoReferenceToAValueThatLeft(t *testing.T) {
	type payload struct{ _ [1024]byte }
	for name, leave := range map[string]func(q *heapqueue.Queue[*payload], item heapqueue.Handle[*payload]){
		"Remove": func(q *heapqueue.Queue[*payload], item heapqueue.Handle[*payload]) { q.Remove(item) },
		"Pop":    func(q *heapqueue.Queue[*payload], _ heapqueue.Handle[*payload]) { q.Pop(t.Context()) },
		"TryPop": func(q *heapqueue.Queue[*payload], _ heapqueue.Handle[*payload]) { q.TryPop() },
		"Close":  func(q *heapqueue.Queue[*payload], _ heapqueue.Handle[*payload]) { q.Close() },
		"PopDue": func(q *heapqueue.Queue[*payload], _ heapqueue.Handle[*payload]) { q.PopDue() },
		"Clear":  func(q *heapqueue.Queue[*payload], _ heapqueue.Handle[*payload]) { q.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			var q heapqueue.Queue[*payload]
			push(t, &q, new(payload), time.Now().Add(time.Hour)) // keeps the slots allocated
			v := new(payload)
			seen := weak.Make(v)
			item := push(t, &q, v, time.Time{})
			leave(&q, item)
			runtime.GC()
			assert.Nil(t, seen.Value())
			runtime.KeepAlive(&q)
			runtime.KeepAlive(item)
		})
	}
}

func TestTryPopReturnsOnlyDueValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		_, ok := q.TryPop()
		assert.False(t, ok, "empty")
		push(t, &q, 2, time.Now().Add(time.Second))
		p := popLater(t.Context(), &q)
		_, ok = q.TryPop()
		assert.False(t, ok, "early")
		time.Sleep(time.Second) // the leader and TryPop race
		v, ok := q.TryPop()
		settle(time.Hour)
		if ok {
			assert.Equal(t, 2, v.Value)
			assert.Nil(t, p.Load(), "no value is left")
		} else {
			assert.Equal(t, 2, p.Load().value)
		}
		push(t, &q, 3, time.Now())
		push(t, &q, 4, time.Now())
		q.Close()
		_, ok = q.TryPop()
		assert.False(t, ok, "closed")
	})
}
