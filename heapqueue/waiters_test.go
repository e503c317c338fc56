package heapqueue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// popped is the result of a Pop and the time that it took.
type popped struct {
	value any
	err   error
	after time.Duration
}

// popLater calls Pop in a goroutine and returns when Pop waits or has returned. The
// pointer is nil until Pop has returned.
func popLater[T any](ctx context.Context, q *heapqueue.Queue[T]) *atomic.Pointer[popped] {
	p, start := new(atomic.Pointer[popped]), time.Now()
	go func() {
		item, err := q.Pop(ctx)
		p.Store(&popped{item.Value, err, time.Since(start)})
	}()
	synctest.Wait()
	return p
}

// settle sleeps for d and then waits until every goroutine of the bubble is blocked.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAnEarlierInstantWakesTheLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, q *heapqueue.Queue[string], hour heapqueue.Handle[string])
		want   string
		after  time.Duration
	}{
		"Push onto an earlier instant": {func(t *testing.T, q *heapqueue.Queue[string], _ heapqueue.Handle[string]) {
			push(t, q, "new", time.Now().Add(time.Second))
		}, "new", time.Minute + time.Second},
		"Push of what is due": {func(t *testing.T, q *heapqueue.Queue[string], _ heapqueue.Handle[string]) {
			push(t, q, "new", time.Time{})
		}, "new", time.Minute},
		"Push onto a later instant": {func(t *testing.T, q *heapqueue.Queue[string], _ heapqueue.Handle[string]) {
			push(t, q, "new", time.Now().Add(2*time.Hour))
		}, "hour", time.Hour},
		"two Pushes, each earlier": {func(t *testing.T, q *heapqueue.Queue[string], _ heapqueue.Handle[string]) {
			push(t, q, "new", time.Now().Add(2*time.Second))
			push(t, q, "newer", time.Now().Add(time.Second))
		}, "newer", time.Minute + time.Second},
		"Move to an earlier instant": {func(t *testing.T, q *heapqueue.Queue[string], hour heapqueue.Handle[string]) {
			assert.True(t, q.Move(hour, time.Now().Add(time.Second)))
		}, "hour", time.Minute + time.Second},
		"Move to a later instant": {func(t *testing.T, q *heapqueue.Queue[string], hour heapqueue.Handle[string]) {
			assert.True(t, q.Move(hour, time.Now().Add(2*time.Hour)))
		}, "hour", time.Minute + 2*time.Hour},
		"Remove, then Push": {func(t *testing.T, q *heapqueue.Queue[string], hour heapqueue.Handle[string]) {
			assert.True(t, q.Remove(hour))
			push(t, q, "new", time.Now().Add(3*time.Hour))
		}, "new", time.Minute + 3*time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q heapqueue.Queue[string]
				hour := push(t, &q, "hour", time.Now().Add(time.Hour))
				p := popLater(t.Context(), &q)
				settle(time.Minute)
				tc.change(t, &q, hour)
				settle(24 * time.Hour)
				assert.Equal(t, &popped{tc.want, nil, tc.after}, p.Load())
			})
		})
	}
}

func TestPopWaitsForAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		for i, at := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(2 * time.Hour)} {
			p := popLater(t.Context(), &q)
			settle(time.Hour)
			require.Nil(t, p.Load())
			push(t, &q, i, at)
			settle(0)
			assert.Equal(t, &popped{i, nil, time.Hour}, p.Load())
		}
	})
}

func TestWaitersAreServedFirstComeFirstServed(t *testing.T) {
	for name, gap := range map[string]time.Duration{"all due at once": 0, "due one by one": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q heapqueue.Queue[int]
				push(t, &q, -1, time.Now().Add(24*time.Hour))
				var waiting []*atomic.Pointer[popped]
				for range 20 {
					waiting = append(waiting, popLater(t.Context(), &q))
				}
				leaver, leave := context.WithCancel(t.Context())
				gone := popLater(leaver, &q)
				waiting = append(waiting, popLater(t.Context(), &q))
				leave()
				for i := range waiting {
					push(t, &q, i, time.Now().Add(time.Hour+time.Duration(i)*gap))
				}
				settle(2 * time.Hour)
				for i, p := range waiting {
					assert.Equal(t, &popped{i, nil, time.Hour + time.Duration(i)*gap}, p.Load())
				}
				assert.Equal(t, &popped{0, context.Canceled, 0}, gone.Load(), "canceled in the middle of the list")
				assert.Equal(t, []int{-1}, values(q.Close()))
			})
		})
	}
}

// wakeCounter is a context that counts the calls of Err. Pop calls Err at its beginning
// and after each wake-up.
type wakeCounter struct {
	context.Context
	looks *atomic.Int64
}

func (c wakeCounter) Err() error {
	c.looks.Add(1)
	return c.Context.Err()
}

func TestOneValueWakesOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 20
		var q heapqueue.Queue[int]
		ctx := wakeCounter{t.Context(), new(atomic.Int64)}
		for range callers {
			popLater(ctx, &q)
		}
		before := ctx.looks.Load()
		for i := range callers / 2 {
			push(t, &q, i, time.Now())
			settle(time.Second)
		}
		require.Zero(t, q.Len())
		assert.EqualValues(t, callers/2, ctx.looks.Load()-before, "wake-ups for values due when pushed")

		// Each value has its own leader, which wakes twice: when it becomes the leader, and
		// at the instant. The first leader wakes for the first Push and at the instant.
		before = ctx.looks.Load()
		for i := range callers / 2 {
			push(t, &q, i, time.Now().Add(time.Duration(1+i)*time.Hour))
		}
		settle(24 * time.Hour)
		require.Zero(t, q.Len())
		assert.EqualValues(t, callers, ctx.looks.Load()-before, "wake-ups for values due later")
	})
}

func TestPushAndRemoveDoNotWakeTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		ctx := wakeCounter{t.Context(), new(atomic.Int64)}
		p := popLater(ctx, &q)
		before := ctx.looks.Load()
		for i := range 1000 {
			item := push(t, &q, i, time.Now().Add(time.Hour+time.Duration(i)))
			synctest.Wait()
			require.True(t, q.Remove(item))
		}
		assert.EqualValues(t, 1, ctx.looks.Load()-before, "only the first Push is earlier than wakeAt")
		q.Close()
		synctest.Wait()
		assert.ErrorIs(t, p.Load().err, schedule.ErrClosed)
	})
}

func TestALeavingFollowerWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		push(t, &q, 1, time.Now().Add(time.Hour))
		leader := wakeCounter{t.Context(), new(atomic.Int64)}
		popLater(leader, &q)
		before := leader.looks.Load()
		ctx, cancel := context.WithCancel(t.Context())
		popLater(ctx, &q)
		cancel()
		settle(time.Minute)
		assert.Equal(t, before, leader.looks.Load())
		q.Close()
	})
}

func TestALeavingLeaderWakesTheNext(t *testing.T) {
	for name, leave := range map[string]func(q *heapqueue.Queue[int], cancel func()){
		"armed": func(q *heapqueue.Queue[int], cancel func()) {
			q.Push(1, time.Now().Add(time.Minute))
			synctest.Wait()
			cancel()
		},
		"before it was armed": func(q *heapqueue.Queue[int], cancel func()) {
			cancel()
			synctest.Wait()
			q.Push(1, time.Now().Add(time.Minute))
		},
		"signalled": func(q *heapqueue.Queue[int], cancel func()) {
			cancel()
			q.Push(1, time.Now().Add(time.Minute))
		},
		"at the instant": func(q *heapqueue.Queue[int], cancel func()) {
			q.Push(1, time.Now().Add(time.Minute))
			time.AfterFunc(time.Minute, cancel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // because goroutines race in some cases
				synctest.Test(t, func(t *testing.T) {
					var q heapqueue.Queue[int]
					ctx, cancel := context.WithCancel(t.Context())
					leader := popLater(ctx, &q)
					follower := popLater(t.Context(), &q)
					last := popLater(t.Context(), &q)
					leave(&q, cancel)
					settle(time.Hour)
					won := follower
					if name == "at the instant" && leader.Load().err == nil {
						won = leader // the leader may see the value before the end of ctx
					}
					assert.Equal(t, &popped{1, nil, time.Minute}, won.Load())
					assert.Nil(t, last.Load())
					q.Close()
				})
			}
		})
	}
}
