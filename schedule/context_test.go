package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// engine is an engine with the number of its timers.
type engine interface {
	schedule.Scheduler
	Stats() schedule.Stats
	Close() []schedule.Task
}

const tick = time.Millisecond

// onEngines runs a test on both engines, in a bubble. At its end no timer is pending.
func onEngines(t *testing.T, f func(t *testing.T, e engine)) {
	for name, open := range map[string]func() (engine, error){
		"wheel": func() (engine, error) { return wheel.New(&wheel.Options{Tick: tick, MaxPending: 10_000}) },
		"heap":  func() (engine, error) { return heapqueue.NewScheduler(&heapqueue.Options{MaxPending: 10_000}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := open()
				require.NoError(t, err)
				defer e.Close()
				f(t, e)
				synctest.Wait()
				assert.Zero(t, e.Stats().Pending, "timers that were not freed")
			})
		})
	}
}

// assertAlive checks a context that has not ended.
func assertAlive(t *testing.T, ctx context.Context) { //nolint:revive // t comes first in the tests of this module
	t.Helper()
	synctest.Wait()
	require.NoError(t, ctx.Err())
	require.NoError(t, context.Cause(ctx))
	select {
	case <-ctx.Done():
		require.Fail(t, "Done is closed")
	default:
	}
}

// assertEnded checks a context that has ended with err and cause.
func assertEnded(t *testing.T, ctx context.Context, err, cause error) { //nolint:revive // as above
	t.Helper()
	require.Equal(t, err, ctx.Err())
	require.Equal(t, cause, context.Cause(ctx))
	select {
	case <-ctx.Done():
	default:
		require.Fail(t, "Err is set and Done is not closed")
	}
	require.Equal(t, err, ctx.Err(), "Err has changed")
}

func TestContextDeadline(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		for _, useDone := range []bool{false, true} {
			began := time.Now()
			byTimeout, cancel := schedule.WithTimeout(t.Context(), e, time.Second)
			defer cancel()
			byDeadline, cancel := schedule.WithDeadline(t.Context(), e, began.Add(time.Second))
			defer cancel()
			for _, ctx := range []context.Context{byTimeout, byDeadline} {
				deadline, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.Equal(t, began.Add(time.Second), deadline)
				if useDone {
					done := ctx.Done()
					assert.Equal(t, done, ctx.Done(), "Done made a second channel")
				}
				assert.Equal(t, "v", context.WithValue(ctx, key("k"), "v").Value(key("k")))
				assert.Contains(t, fmt.Sprint(ctx), ".WithDeadline("+deadline.String()+" [1s])")
			}
			time.Sleep(time.Second - 1)
			synctest.Wait()
			require.NoError(t, byTimeout.Err())
			time.Sleep(1 + tick)
			synctest.Wait()
			for _, ctx := range []context.Context{byTimeout, byDeadline} {
				assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
				var timeout interface{ Timeout() bool }
				require.ErrorAs(t, ctx.Err(), &timeout)
				assert.True(t, timeout.Timeout())
			}
			cancel()
			assertEnded(t, byDeadline, context.DeadlineExceeded, context.DeadlineExceeded)
		}
		for _, d := range []time.Duration{0, -time.Second} {
			ctx, cancel := schedule.WithTimeout(t.Context(), e, d)
			assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
			cancel()
			assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
		}
		ctx, cancel := schedule.WithTimeout(t.Context(), e, 1<<63-1)
		assertAlive(t, ctx)
		cancel()
		assertEnded(t, ctx, context.Canceled, context.Canceled)
		cancel()
		assertEnded(t, ctx, context.Canceled, context.Canceled)
	})
}

type key string

func TestContextOfANilParentPanics(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		assert.Panics(t, func() { schedule.WithTimeout(nil, e, time.Second) })           //nolint:staticcheck // SA1012
		assert.Panics(t, func() { schedule.WithDeadline(nil, e, time.Now().Add(tick)) }) //nolint:staticcheck // SA1012
		assert.Panics(t, func() { schedule.WithTimeout(t.Context(), nil, time.Second) }) // no engine
	})
}

// The earlier deadline of a parent wins, and needs no timer.
func TestContextWithAnEarlierParent(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		parent, cancelParent := schedule.WithTimeout(t.Context(), e, time.Second)
		defer cancelParent()
		child, cancel := schedule.WithTimeout(parent, e, time.Minute)
		defer cancel()
		assert.Equal(t, 1, e.Stats().Pending)
		want, _ := parent.Deadline()
		got, ok := child.Deadline()
		assert.True(t, ok)
		assert.Equal(t, want, got)
		time.Sleep(time.Second + tick)
		synctest.Wait()
		assertEnded(t, child, context.DeadlineExceeded, context.DeadlineExceeded)
	})
}

// derive returns the shapes in which a context hangs below another one that can be cancelled.
func derive(e engine) map[string]func(parent context.Context) (context.Context, context.CancelFunc) {
	return map[string]func(context.Context) (context.Context, context.CancelFunc){
		"ours": func(p context.Context) (context.Context, context.CancelFunc) {
			return schedule.WithTimeout(p, e, time.Minute)
		},
		"standard": context.WithCancel,
		"cause": func(p context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(p)
			return ctx, func() { cancel(nil) }
		},
		"ours below a value": func(p context.Context) (context.Context, context.CancelFunc) {
			return schedule.WithTimeout(context.WithValue(p, key("k"), 1), e, time.Minute)
		},
		"standard below a value": func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.WithValue(p, key("k"), 1), time.Minute)
		},
		"ours in another type": func(p context.Context) (context.Context, context.CancelFunc) {
			return schedule.WithTimeout(struct{ context.Context }{p}, e, time.Minute)
		},
	}
}

// A child ends with its parent and for its reason, and a parent outlives its children.
func TestContextEndsWithItsParent(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		parents := derive(e)
		parents["hour"] = func(p context.Context) (context.Context, context.CancelFunc) {
			return schedule.WithTimeout(p, e, time.Hour)
		}
		for above, newParent := range parents {
			for below, newChild := range derive(e) {
				for _, useDone := range []bool{false, true} {
					what := fmt.Sprintf("%s below %s, Done used: %v", below, above, useDone)
					parent, cancelParent := newParent(t.Context())
					child, cancelChild := newChild(parent)
					sibling, cancelSibling := newChild(parent)
					grandchild, cancelGrandchild := newChild(child)
					if useDone {
						grandchild.Done()
						sibling.Done()
					}
					cancelSibling()
					assertEnded(t, sibling, context.Canceled, context.Canceled)
					assertAlive(t, parent)
					assertAlive(t, grandchild)
					cancelParent()
					synctest.Wait()
					for _, ctx := range []context.Context{parent, child, grandchild} {
						assertEnded(t, ctx, context.Canceled, context.Canceled)
					}
					late, cancelLate := newChild(child)
					synctest.Wait()
					assertEnded(t, late, context.Canceled, context.Canceled)
					cancelLate()
					cancelGrandchild()
					cancelChild()
					require.Zero(t, e.Stats().Pending, what)
				}
			}
		}
	})
}

// Err asks a parent of any type, even before Done is called.
func TestContextErrAsksTheParent(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		why := errors.New("why")
		parent, end := context.WithCancelCause(t.Context())
		before, cancel := schedule.WithTimeout(parent, e, time.Minute)
		defer cancel()
		watched, cancel := schedule.WithTimeout(parent, e, time.Minute)
		defer cancel()
		asked, cancel := schedule.WithTimeout(parent, e, time.Minute)
		defer cancel()
		done := watched.Done()
		end(why)
		select {
		case <-asked.Done():
		default:
			assert.Fail(t, "the parent has ended before the first call of Done")
		}
		assertEnded(t, before, context.Canceled, why)
		assertEnded(t, watched, context.Canceled, why)
		<-done
		after, cancel := schedule.WithTimeout(parent, e, time.Minute)
		defer cancel()
		assertEnded(t, after, context.Canceled, why)
		assert.Zero(t, e.Stats().Pending, "the end of a parent frees the timer")

		own := &customCtx{Context: context.Background(), done: make(chan struct{})}
		below, cancel := schedule.WithTimeout(own, e, time.Minute)
		defer cancel()
		assertAlive(t, below)
		own.end(why)
		synctest.Wait()
		assertEnded(t, below, why, why)
	})
}

// customCtx is a context of a user, with an error of its own.
type customCtx struct {
	context.Context
	done chan struct{}
	err  atomic.Value
}

func (c *customCtx) Done() <-chan struct{} { return c.done }

func (c *customCtx) Err() error {
	err, _ := c.err.Load().(error)
	return err
}

func (c *customCtx) end(err error) {
	c.err.Store(err)
	close(c.done)
}

// The first end of a context decides its cause.
func TestContextCause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		first, second := errors.New("first"), errors.New("second")
		for _, useDone := range []bool{false, true} {
			parent, endParent := context.WithCancelCause(t.Context())
			timed, cancelTimed := schedule.WithTimeout(parent, e, time.Second)
			stopped, cancelStopped := schedule.WithTimeout(parent, e, time.Second)
			follows, cancelFollows := schedule.WithTimeout(parent, e, time.Minute)
			below, endBelow := context.WithCancelCause(follows)
			belowTimed, endBelowTimed := context.WithCancelCause(timed)
			own, endOwn := context.WithCancelCause(follows)
			endOwn(second)
			if useDone {
				timed.Done()
				follows.Done()
			}
			cancelStopped()
			time.Sleep(time.Second + tick)
			synctest.Wait()
			endParent(first)
			synctest.Wait()
			for _, ctx := range []context.Context{timed, belowTimed} {
				assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
			}
			assertEnded(t, stopped, context.Canceled, context.Canceled)
			assertEnded(t, follows, context.Canceled, first)
			assertEnded(t, below, context.Canceled, first)
			assertEnded(t, own, context.Canceled, second)
			endBelow(second)
			endBelowTimed(second)
			cancelTimed()
			cancelFollows()
			assertEnded(t, follows, context.Canceled, first)
			assertEnded(t, belowTimed, context.DeadlineExceeded, context.DeadlineExceeded)
			assertAlive(t, context.WithoutCancel(follows))
			again, cancel := schedule.WithTimeout(context.WithoutCancel(follows), e, time.Second)
			assertAlive(t, again)
			cancel()
			assertEnded(t, again, context.Canceled, context.Canceled)
		}
	})
}

// Functions and children of package context need no goroutine while they wait.
func TestContextNeedsNoGoroutines(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		parent, cancelParent := context.WithCancel(t.Context())
		defer cancelParent()
		for _, p := range []context.Context{t.Context(), parent} {
			before := runtime.NumGoroutine()
			ctx, cancel := schedule.WithTimeout(p, e, time.Hour)
			var cancels []context.CancelFunc
			for range 10 {
				_, c1 := context.WithCancel(ctx)
				_, c2 := context.WithTimeout(ctx, time.Minute)
				below, c3 := schedule.WithTimeout(context.WithValue(ctx, key("k"), 1), e, time.Minute)
				below.Done()
				stop := context.AfterFunc(ctx, func() { t.Error("the func was stopped") })
				cancels = append(cancels, c1, c2, c3, func() { assert.True(t, stop()) })
			}
			assert.LessOrEqual(t, runtime.NumGoroutine(), before+1, "that of the engine")
			for _, i := range rand.Perm(len(cancels)) {
				cancels[i]()
			}
			cancel()
		}
	})
}

func TestContextAfterFunc(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		var calls atomic.Int64
		call := func() { calls.Add(1) }
		ctx, cancel := schedule.WithTimeout(t.Context(), e, time.Second)
		stop := context.AfterFunc(ctx, call)
		context.AfterFunc(ctx, call)
		stopped := context.AfterFunc(ctx, call)
		assert.True(t, stopped())
		assert.False(t, stopped())
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 2, calls.Load())
		assert.False(t, stop(), "f was called")
		assert.False(t, ctx.(afterFuncer).AfterFunc(call)())
		stop = context.AfterFunc(ctx, call)
		synctest.Wait()
		assert.False(t, stop())
		assert.EqualValues(t, 4, calls.Load(), "at once after the end")

		// A func that blocks delays neither the engine nor another func.
		ctx, cancel = schedule.WithTimeout(t.Context(), e, time.Second)
		defer cancel()
		release := make(chan struct{})
		for range 2 {
			ctx.(afterFuncer).AfterFunc(call)
			stop = ctx.(afterFuncer).AfterFunc(func() {
				calls.Add(1)
				<-release
			})
		}
		time.Sleep(time.Second + tick)
		synctest.Wait()
		assert.EqualValues(t, 8, calls.Load())
		ran := false
		_, err := e.Schedule(time.Second, taskFunc(func(schedule.Timer) { ran = true }))
		require.NoError(t, err)
		time.Sleep(time.Second + tick)
		synctest.Wait()
		assert.True(t, ran)
		assert.False(t, stop())
		close(release)

		parent, end := context.WithCancel(t.Context())
		ctx, cancel = schedule.WithTimeout(parent, e, time.Second)
		defer cancel()
		ctx.(afterFuncer).AfterFunc(call)
		end()
		synctest.Wait()
		assert.EqualValues(t, 9, calls.Load(), "the parent has ended")
	})
}

type afterFuncer interface{ AfterFunc(f func()) func() bool }

// A context that ends leaves nothing with its parent.
func TestContextLeavesItsParent(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		parent := &countingCtx{customCtx: customCtx{Context: context.Background(), done: make(chan struct{})}}
		for _, d := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := schedule.WithTimeout(parent, e, d)
			ctx.Done()
			assert.EqualValues(t, 1, parent.followers.Load())
			time.Sleep(time.Second + tick)
			synctest.Wait()
			cancel()
			assert.Zero(t, parent.followers.Load())
		}
	})
}

// countingCtx never ends, and counts the functions that wait for that.
type countingCtx struct {
	customCtx
	followers atomic.Int64
}

func (c *countingCtx) AfterFunc(func()) func() bool {
	c.followers.Add(1)
	return func() bool {
		c.followers.Add(-1)
		return true
	}
}

type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

// If the engine takes no timer, or is closed, package time ends the context.
func TestContextOfAFullOrClosedEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		var timers []schedule.Timer
		for range 9_998 {
			timer, err := e.Schedule(time.Hour, taskFunc(nil))
			require.NoError(t, err)
			timers = append(timers, timer)
		}
		var all []context.Context
		for i := range 6 {
			if i == 3 {
				assert.Len(t, e.Close(), 10_000)
			}
			ctx, cancel := schedule.WithTimeout(t.Context(), e, time.Second)
			stopped, cancelStopped := schedule.WithTimeout(t.Context(), e, time.Second)
			follows, cancelFollows := context.WithCancel(ctx)
			defer cancelFollows()
			defer cancel()
			cancelStopped()
			assertEnded(t, stopped, context.Canceled, context.Canceled)
			all = append(all, ctx, follows)
		}
		time.Sleep(time.Second - 1)
		for _, ctx := range all {
			assertAlive(t, ctx)
		}
		time.Sleep(1 + tick)
		synctest.Wait()
		for _, ctx := range all {
			assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
		}
		for _, timer := range timers {
			assert.False(t, timer.Stop())
		}
		var zero wheel.Wheel
		ctx, cancel := schedule.WithTimeout(t.Context(), &zero, time.Second)
		defer cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		assertEnded(t, ctx, context.DeadlineExceeded, context.DeadlineExceeded)
	})
}

// Contexts are cancelled, time out, are derived from and asked at the same time. Err is never set
// before Done is closed, and neither it nor the cause changes.
func TestContextRaces(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		why := errors.New("why")
		var all sync.WaitGroup
		for i := range 200 {
			root, end := context.WithCancelCause(t.Context())
			d := time.Duration(1+i%5) * tick
			ctx, cancel := schedule.WithTimeout(root, e, d)
			start := make(chan struct{})
			race := func(f func()) {
				all.Go(func() {
					<-start
					f()
				})
			}
			race(cancel)
			race(cancel)
			race(func() { end(why) })
			for range 2 {
				race(func() {
					for ctx.Err() == nil {
						runtime.Gosched()
					}
					err, cause := ctx.Err(), context.Cause(ctx)
					select {
					case <-ctx.Done():
					default:
						t.Error("Err is set and Done is not closed")
					}
					time.Sleep(10 * tick)
					assert.Equal(t, err, ctx.Err())
					assert.Equal(t, cause, context.Cause(ctx))
				})
				race(func() {
					<-ctx.Done()
					assert.Error(t, ctx.Err())
				})
				race(func() {
					child, cancelChild := schedule.WithTimeout(ctx, e, d/2)
					standard, cancelStandard := context.WithTimeout(ctx, d/2)
					called := make(chan struct{})
					stop := context.AfterFunc(ctx, func() { close(called) })
					<-child.Done()
					<-standard.Done()
					if !stop() {
						<-called
					}
					cancelStandard()
					cancelChild()
				})
			}
			time.Sleep(d - 1) // the timeout is near
			close(start)
			if i%2 == 0 {
				time.Sleep(tick)
			}
		}
		all.Wait()
	})
}

// A chain of contexts of all kinds, in any order, ends with its root or its shortest timeout.
func TestContextChains(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 1))
			ctx, cancelRoot := context.WithCancel(t.Context())
			cancels := []context.CancelFunc{cancelRoot}
			shortest, timed := 2*time.Hour, false
			var chain []context.Context
			for i := range 30 {
				var cancel context.CancelFunc
				d := time.Duration(1+rng.IntN(3600)) * time.Second
				switch rng.IntN(5) {
				case 0:
					ctx, cancel = context.WithCancel(ctx)
				case 1:
					ctx, cancel = context.WithTimeout(ctx, d)
					shortest, timed = min(shortest, d), true
				case 2:
					ctx, cancel = context.WithValue(ctx, key(fmt.Sprint(i)), i), func() {}
				default:
					ctx, cancel = schedule.WithTimeout(ctx, e, d)
					shortest, timed = min(shortest, d), true
				}
				if rng.IntN(2) == 0 {
					ctx.Done()
				}
				chain, cancels = append(chain, ctx), append(cancels, cancel)
			}
			for i := range 30 {
				if v := ctx.Value(key(fmt.Sprint(i))); v != nil {
					assert.Equal(t, i, v)
				}
			}
			assertAlive(t, ctx)
			want := context.Canceled
			if timed && seed%2 == 0 {
				want = context.DeadlineExceeded
				time.Sleep(shortest - 1)
				assertAlive(t, ctx)
				time.Sleep(1 + 2*tick)
			} else {
				cancelRoot()
			}
			synctest.Wait()
			require.Equal(t, want, ctx.Err())
			if errors.Is(want, context.Canceled) {
				for _, c := range chain {
					assertEnded(t, c, want, want)
				}
			}
			for _, cancel := range cancels {
				cancel()
			}
		}
	})
}
