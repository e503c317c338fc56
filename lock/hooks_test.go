package lock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// hookLog is what hooks were told, in order.
type hookLog struct {
	mu    sync.Mutex // guards all below
	calls []hookCall
}

type hookCall struct {
	hook string
	lock.HookInfo
	value any // of the ctx
}

type ctxKey struct{}

func (o *hookLog) hooks() *lock.Hooks {
	hook := func(name string) func(context.Context, lock.HookInfo) {
		return func(ctx context.Context, i lock.HookInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.calls = append(o.calls, hookCall{name, i, ctx.Value(ctxKey{})})
		}
	}
	return &lock.Hooks{
		Waiting: hook("waiting"), Acquired: hook("acquired"), Refused: hook("refused"), Released: hook("released"), Lost: hook("lost"),
	}
}

// take returns the calls so far and forgets them.
func (o *hookLog) take() []hookCall {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

// names returns the calls so far as hooks and kinds.
func (o *hookLog) names() (names []string) {
	for _, c := range o.take() {
		names = append(names, c.hook+" "+string(c.Kind))
	}
	return names
}

// hooked runs a test with a client whose hooks are recorded.
func hooked(t *testing.T, terms lock.Terms, waits bool, test func(t *testing.T, b *bench, o *hookLog)) {
	t.Helper()
	o := new(hookLog)
	bubbleOn(t, &lock.Options{Terms: terms, Hooks: o.hooks()}, waits, func(t *testing.T, b *bench) { test(t, b, o) })
}

func TestHooksAreToldOfALock(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		h, err := b.Mutex("k").Lock(context.WithValue(ctx, ctxKey{}, "outer"))
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		_, err = b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = b.Mutex("k").Lock(limited)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		time.Sleep(time.Second)
		require.NoError(t, h.Unlock(context.WithValue(ctx, ctxKey{}, "unlock")))

		calls := o.take()
		require.Len(t, calls, 5)
		for i, want := range []hookCall{
			{"acquired", lock.HookInfo{Outcome: lock.OutcomeAcquired, Token: h.Token()}, "outer"},
			{"refused", lock.HookInfo{Outcome: lock.OutcomeHeldByOther}, nil},
			{"waiting", lock.HookInfo{}, nil},
			{"refused", lock.HookInfo{Outcome: lock.OutcomeCanceled, Waited: time.Second}, nil},
			{"released", lock.HookInfo{Outcome: lock.OutcomeUnlocked, Token: h.Token(), Held: 5 * time.Second}, "unlock"},
		} {
			got := calls[i]
			assert.Equal(t, got.hook == "refused", got.Err != nil)
			want.Kind, want.Key, got.Err = lock.KindMutex, "k", nil
			assert.Equal(t, want, got)
		}
	})
}

// A call that waits behind another one of its client is told once that it waits.
func TestHooksAreToldOnceThatALockWaits(t *testing.T) {
	for _, waits := range []bool{true, false} {
		hooked(t, lock.Terms{}, waits, func(t *testing.T, b *bench, o *hookLog) {
			h := b.lock("k")
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if h, err := b.Mutex("k").Lock(ctx); assert.NoError(t, err) {
						assert.NoError(t, h.Unlock(ctx))
					}
				})
			}
			settle(2 * time.Second)
			require.NoError(t, h.Unlock(ctx))
			wg.Wait()
			count := map[string]int{}
			for _, c := range o.take() {
				count[c.hook]++
				if c.hook == "acquired" && c.Token != h.Token() {
					assert.GreaterOrEqual(t, c.Waited, 2*time.Second)
				}
			}
			assert.Equal(t, map[string]int{"acquired": 4, "waiting": 3, "released": 4}, count)
		})
	}
}

func TestHooksNameEachKind(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		for kind, l := range map[lock.Kind]lock.Locker{
			lock.KindMutex:     b.Mutex("mutex"),
			lock.KindReentrant: b.Reentrant("reentrant"),
			lock.KindRead:      b.RWMutex("rw").RLocker(),
			lock.KindWrite:     b.RWMutex("rw"),
			lock.KindSemaphore: b.Semaphore("semaphore", 2),
			lock.KindBatch:     b.Batch("batch", "a", "b"),
			lock.KindElection:  b.Election("election", "me"),
			lock.KindMulti: lock.Multi(b.Mutex("a"), b.RWMutex("b").RLocker(), b.Semaphore("c", 1), b.Election("d", "me"),
				b.Reentrant("e"), b.Batch("f", "x"), b.RWMutex("g")),
		} {
			want := []string{"acquired " + string(kind), "released " + string(kind)}
			require.NoError(t, lockAll(t, l).Unlock(ctx))
			assert.Equal(t, want, o.names())
			h, err := l.TryLock(ctx)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			assert.Equal(t, want, o.names())
		}
	})
}

// A Multi is one lock, also if it has to wait and gives its locks back meanwhile.
func TestHooksSeeAMultiAsOneLock(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		taken, last := b.taken("a"), b.taken("b")
		m := lock.Multi(b.Mutex("a"), b.Mutex("b"))
		_, err := m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		calls := o.take()
		require.Len(t, calls, 1)
		assert.Equal(t, lock.OutcomeHeldByOther, calls[0].Outcome)
		assert.Equal(t, "a, b", calls[0].Key)

		time.AfterFunc(time.Second, func() { _ = b.mem.Release(ctx, taken) })
		time.AfterFunc(2*time.Second, func() { _ = b.mem.Release(ctx, last) })
		h := lockAll(t, m)
		assert.Equal(t, []string{"waiting multi", "acquired multi"}, o.names())
		require.NoError(t, h.Handles()[1].Unlock(ctx))
		assert.Equal(t, []string{"released multi"}, o.names(), "unlocking one ends the whole")
		require.NoError(t, h.Handles()[0].Unlock(ctx))
		assert.Empty(t, o.names())

		h = lockAll(t, m)
		b.mem.Delete("b")
		<-h.Done()
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		calls = o.take()
		require.Len(t, calls, 2)
		assert.Equal(t, "lost", calls[1].hook)
		require.ErrorIs(t, calls[1].Err, lock.ErrLost)
	})
}

// The same holds for locks within WaitAtMost, also if they are a Multi themselves.
func TestLocksOfAMultiReportNothing(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		taken := b.taken("b")
		time.AfterFunc(time.Second, func() { _ = b.mem.Release(ctx, taken) })
		m := lock.Multi(lock.WaitAtMost(b.Mutex("a"), time.Minute), lock.WaitAtMost(b.all("b", "c"), time.Minute))
		h := lockAll(t, m)
		require.NoError(t, h.Unlock(ctx))
		calls := o.take()
		require.Len(t, calls, 3)
		for i, hook := range []string{"waiting", "acquired", "released"} {
			assert.Equal(t, hook, calls[i].hook)
			assert.Equal(t, lock.KindMulti, calls[i].Kind)
			assert.Equal(t, "a, b, c", calls[i].Key)
		}

		m = lock.Multi(lock.WaitAtMost(b.all("b", "c"), 0))
		h, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())

		require.NoError(t, lockAll(t, lock.WaitAtMost(b.Mutex("a"), time.Minute)).Unlock(ctx))
		assert.Equal(t, []string{"acquired mutex", "released mutex"}, o.names(), "it is in no Multi")
	})
}

func TestAMultiReportsToTheClientOfItsFirstLock(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		other, err := lock.New(memstore.New(), nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		require.NoError(t, lockAll(t, lock.Multi(other.Mutex("a"), b.Mutex("b"))).Unlock(ctx))
		assert.Empty(t, o.names())
		require.NoError(t, lockAll(t, lock.Multi(b.Mutex("b"), other.Mutex("a"))).Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())
	})
}

func TestEnteringAgainCallsNoHook(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		require.NoError(t, lock.Do(ctx, b.Reentrant("k"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, b.Reentrant("k"), func(context.Context, *lock.Held) error { return nil })
		}))
		assert.Equal(t, []string{"acquired reentrant", "released reentrant"}, o.names())
	})
}

func TestADowngradeIsAReleaseAndAnAcquisition(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		m := b.RWMutex("k")
		r, err := m.Downgrade(ctx, lockAll(t, m))
		require.NoError(t, err)
		names := o.names()
		assert.Equal(t, "acquired write", names[0])
		assert.ElementsMatch(t, []string{"released write", "acquired read"}, names[1:])
		require.NoError(t, r.Unlock(ctx))
		assert.Equal(t, []string{"released read"}, o.names())
	})
}

// A lock ends once: lost, unlocked or closed, whatever comes later.
func TestHooksAreToldOnceOfTheEnd(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		lost, deleted := b.lock("lost"), b.lock("deleted")
		b.mem.Delete("lost")
		<-lost.Done()
		require.ErrorIs(t, lost.Unlock(ctx), lock.ErrLost)
		calls := o.take()
		require.Len(t, calls, 3)
		assert.Equal(t, lock.OutcomeLost, calls[2].Outcome)
		var why *renewal.LostError
		require.ErrorAs(t, calls[2].Err, &why)
		assert.Equal(t, renewal.NotOwned, why.Reason)
		assert.Positive(t, calls[2].Held)

		b.mem.Delete("deleted")
		require.ErrorIs(t, deleted.Unlock(ctx), lock.ErrLost)
		assert.Equal(t, []string{"lost mutex"}, o.names(), "Unlock has noticed it")

		h := b.lock("k")
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrClosed)
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		calls = o.take()
		require.Len(t, calls, 3)
		count := map[lock.Outcome]int{}
		for _, c := range calls {
			count[c.Outcome]++
			if c.hook == "released" {
				assert.ErrorIs(t, c.Err, lock.ErrClosed)
			}
		}
		assert.Equal(t, map[lock.Outcome]int{lock.OutcomeAcquired: 1, lock.OutcomeClosed: 1, lock.OutcomeError: 1}, count)
	})
}

func TestHooksAreToldOfTheLimitOfTheTerms(t *testing.T) {
	hooked(t, lock.Terms{MaxHold: time.Minute}, false, func(t *testing.T, b *bench, o *hookLog) {
		h := b.lock("k")
		<-h.Done()
		calls := o.take()
		require.Len(t, calls, 2)
		var why *renewal.LostError
		require.ErrorAs(t, calls[1].Err, &why)
		assert.Equal(t, renewal.LimitReached, why.Reason)
		assert.InDelta(t, time.Minute, calls[1].Held, float64(20*time.Millisecond))
	})
}

func TestHooksAreToldOfAStoreWithoutAnswer(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		h := b.lock("k")
		b.loseRequests(always(locktest.Acquire, errIO))
		_, err := b.Mutex("other").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		b.loseRequests(always(locktest.Release, errIO))
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrUnavailable)
		calls := o.take()
		require.Len(t, calls, 3)
		assert.Equal(t, lock.OutcomeUnavailable, calls[1].Outcome)
		assert.Equal(t, lock.OutcomeUnlocked, calls[2].Outcome)
		require.ErrorIs(t, calls[2].Err, lock.ErrUnavailable)
	})
}

// Misuse is an error in the program, and no contention.
func TestMisuseCallsNoHook(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		for _, l := range []lock.Locker{
			b.Mutex(""), b.Semaphore("k", 0), b.Batch("k"), b.Election("k", ""), b.With(lock.Terms{TTL: 1}).Mutex("k"), lock.Multi(),
		} {
			_, err := l.TryLock(ctx)
			require.Error(t, err)
		}
		_, err := b.Mutex("k").Lock(nil) //nolint:staticcheck // misuse
		require.Error(t, err)
		assert.Empty(t, o.names())
	})
}

func TestMisuseOfAMultiCallsNoHook(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		holder, group := lockAll(t, b.Mutex("held")), lockAll(t, b.Batch("g", "x"))
		inside, cancel := holder.Context(ctx)
		defer cancel()
		inside, cancel = group.Context(inside)
		defer cancel()
		keeping := b.With(lock.Terms{MinHold: time.Minute})
		o.take()
		calls := b.calls(locktest.Acquire) + b.calls(locktest.Wait)
		for name, l := range map[string]lock.Locker{
			"bad key": b.Mutex(""), "bad limit": b.Semaphore("k", 0), "bad batch": b.Batch("k"), "bad name": b.Election("k", ""),
			"bad TTL": b.With(lock.Terms{TTL: 1}).Mutex("k"), "MinHold": keeping.RWMutex("k"), "nil": (*lock.Mutex)(nil),
			"held": b.Mutex("held"), "partly held": b.Batch("g", "x", "y"), "negative": lock.WaitAtMost(b.Mutex("k"), -1),
			"within": lock.WaitAtMost(lock.Multi(b.Mutex("b"), b.Mutex("")), time.Second),
		} {
			m := lock.Multi(b.Mutex("a"), b.Reentrant("held2"), l)
			_, err := m.Lock(inside)
			require.Error(t, err, name)
			_, err = m.TryLock(inside)
			require.Error(t, err, name)
			assert.Empty(t, o.names(), name)
		}
		assert.Equal(t, calls, b.calls(locktest.Acquire)+b.calls(locktest.Wait), "no lock was asked for")

		h, err := lock.Multi(b.Mutex("a"), b.Reentrant("held"), b.Batch("g", "x")).Lock(inside)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())
		require.NoError(t, holder.Unlock(ctx))
		require.NoError(t, group.Unlock(ctx))
		assert.Len(t, o.take(), 2, "the checks have entered nothing")
	})
}

func TestHooksAreToldOfAResumeWhoseContextHasEnded(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		text, err := b.lock("k").Export()
		require.NoError(t, err)
		o.take()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = b.Resume(ended, text)
		require.ErrorIs(t, err, context.Canceled)
		calls := o.take()
		require.Len(t, calls, 1)
		assert.Equal(t, lock.OutcomeCanceled, calls[0].Outcome)
	})
}

// A lock that nobody gets because Acquired panics does not stay taken until MinHold has passed.
func TestAPanicOfAcquiredEndsMinHold(t *testing.T) {
	hooks := &lock.Hooks{Acquired: func(context.Context, lock.HookInfo) { panic("oops") }}
	bubbleOn(t, &lock.Options{Hooks: hooks, Terms: lock.Terms{MinHold: time.Hour}}, true, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.Mutex("a"), b.all("a", "b"), b.Batch("g", "x")} {
			assert.PanicsWithValue(t, "oops", func() { _, _ = l.Lock(ctx) })
			settle(time.Second)
			assert.Zero(t, b.mem.Len(), "%v", l)
			assert.Zero(t, b.Stats().Renewal.Held, "%v", l)
		}
	})
}

// The last handle of a batch may be one that was entered through several others. Released is
// then called on the goroutine of its Unlock, where a panic can be recovered.
func TestReleasedOfABatchWithinSeveral(t *testing.T) {
	released := 0
	hooks := &lock.Hooks{Released: func(context.Context, lock.HookInfo) {
		released++
		panic("oops")
	}}
	bubbleOn(t, &lock.Options{Hooks: hooks}, true, func(t *testing.T, b *bench) {
		first, second := lockAll(t, b.Batch("g", "a")), lockAll(t, b.Batch("g", "b"))
		inside, cancel := first.Context(ctx)
		defer cancel()
		inside, cancel = second.Context(inside)
		defer cancel()
		h := lockAllIn(inside, t, b.Batch("g", "a", "b"))
		require.NoError(t, first.Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))
		assert.PanicsWithValue(t, "oops", func() { _ = h.Unlock(ctx) })
		assert.Equal(t, 2, released)
		assert.Zero(t, b.mem.Len())
	})
}

func lockAllIn(ctx context.Context, t *testing.T, l lock.Locker) *lock.Held {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	return h
}

// A Downgrade that finds the lock lost is a loss of the writer, and any other end is a release.
func TestHooksAreToldOfTheEndOfADowngrade(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(b *bench)
		want  string
		lost  uint64
	}{
		"it is held":      {func(*bench) {}, "released write", 0},
		"it was deleted":  {func(b *bench) { b.mem.Delete("k") }, "lost write", 1},
		"it has expired":  {func(b *bench) { b.loseRequests(always(locktest.Renew, errIO)); settle(ttl) }, "lost write", 1},
		"no answer comes": {func(b *bench) { b.loseRequests(always(locktest.Acquire, errIO)) }, "released write", 0},
		"it panics":       {func(b *bench) { b.loseRequests(panics(locktest.Acquire)) }, "released write", 0},
	} {
		hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
			m := b.RWMutex("k")
			h := lockAll(t, m)
			test.spoil(b)
			func() {
				defer func() { _ = recover() }()
				_, err := m.Downgrade(ctx, h)
				assert.Equal(t, test.lost > 0, errors.Is(err, lock.ErrLost), name)
			}()
			ends := o.names()[1:]
			if name == "it is held" {
				require.Equal(t, "acquired read", ends[len(ends)-1])
				ends = ends[:len(ends)-1]
			}
			assert.Equal(t, []string{test.want}, ends, name)
			assert.Equal(t, test.lost, b.Stats().Renewal.Lost(), name)
			_ = h.Unlock(ctx)
			assert.Empty(t, o.names(), name)
		})
	}
}

// A hook that panics leaves no lock behind.
func TestAPanicOfAHook(t *testing.T) {
	oops := func(context.Context, lock.HookInfo) { panic("oops") }
	panics := func(context.Context, lock.HookInfo) context.Context { panic("oops") }
	for name, hooks := range map[string]*lock.Hooks{
		"Acquired": {Acquired: oops}, "Released": {Released: oops}, "Refused": {Refused: oops}, "Waiting": {Waiting: oops},
		"Acquiring": {Acquiring: panics}, "Releasing": {Releasing: panics},
	} {
		bubbleOn(t, &lock.Options{Hooks: hooks}, true, func(t *testing.T, b *bench) {
			taken := b.taken("taken")
			assert.PanicsWithValue(t, "oops", func() {
				_, _ = b.Mutex("taken").TryLock(ctx)
				_ = b.lock("k").Unlock(ctx)
				_, _ = b.Mutex("taken").Lock(ctx)
			}, name)
			assert.Panics(t, func() {
				h, err := b.all("m1", "m2").TryLock(ctx)
				require.NoError(t, err)
				_ = h.Unlock(ctx)
				_, _ = b.all("taken").TryLock(ctx)
				_, _ = b.all("taken").Lock(ctx)
			}, name)
			_ = b.mem.Release(ctx, taken)
			settle(time.Second)
			assert.Zero(t, b.mem.Len(), name)
			assert.Zero(t, b.Stats().Waiting, name)
			require.NoError(t, b.Close(ctx), name)
		})
	}
}

// A Waiting hook that does not return takes its call out of the queue of the client, or out of that
// of the store if the call asks the store already. The calls behind it go on.
func TestAWaitingHookThatDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("oops") }, "exit": runtime.Goexit} {
		for _, waits := range []bool{true, false} {
			for bad := 1; bad <= 2; bad++ { // the first asks the store, the second waits behind it
				told := 0
				hooks := &lock.Hooks{Waiting: func(context.Context, lock.HookInfo) {
					if told++; told == bad {
						leave()
					}
				}}
				bubbleOn(t, &lock.Options{Hooks: hooks}, waits, func(t *testing.T, b *bench) {
					h := b.lock("k")
					locked := 0
					for range 3 {
						go func() {
							defer func() { _ = recover() }()
							h, err := b.Mutex("k").Lock(ctx)
							if assert.NoError(t, err) {
								locked++
								assert.NoError(t, h.Unlock(ctx))
							}
						}()
						synctest.Wait()
					}
					require.NoError(t, h.Unlock(ctx))
					settle(time.Second)
					assert.Equal(t, 2, locked, "%s of call %d, store waits: %v", name, bad, waits)
					assert.Zero(t, b.Stats().Waiting)
				})
			}
		}
	}
}

// A hook may use the client, and one that blocks delays nobody else.
func TestAHookThatBlocks(t *testing.T) {
	var release chan struct{}
	var client *lock.Client
	hooks := &lock.Hooks{Acquired: func(ctx context.Context, i lock.HookInfo) {
		if i.Key == "slow" {
			_, _ = client.Mutex("inner").Lock(ctx)
			<-release
		}
	}}
	bubbleWith(t, &lock.Options{Hooks: hooks}, func(t *testing.T, b *bench) {
		release, client = make(chan struct{}), b.Client
		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("slow").Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, b.lock("other").Unlock(ctx))
		_, err := b.Mutex("slow").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "it is held already")
		require.NoError(t, b.Close(ctx), "it does not wait for hooks")
		close(release)
		require.NoError(t, <-done)
	})
}

// hookAllocs is how many objects the hooks need for a Lock and its Unlock. Without hooks the two
// allocate as many objects as before there were hooks, 25 on memstore.
const hookAllocs = 7

func TestNoHooksCostNothing(t *testing.T) {
	allocs := func(o *lock.Options) float64 {
		client, err := lock.New(memstore.New(), o)
		require.NoError(t, err)
		defer client.Close(ctx)
		m := client.Mutex("k")
		return testing.AllocsPerRun(1000, func() {
			h, err := m.Lock(ctx)
			if err != nil || h.Unlock(ctx) != nil {
				t.Error("not locked")
			}
		})
	}
	without, with := allocs(nil), allocs(&lock.Options{Hooks: new(hookLog).hooks()})
	t.Logf("%v objects without hooks, %v with all hooks", without, with)
	assert.GreaterOrEqual(t, with-without, float64(hookAllocs), "a client without hooks allocates for them")
}

func BenchmarkHooks(b *testing.B) {
	nothing := func(context.Context, lock.HookInfo) {}
	for name, hooks := range map[string]*lock.Hooks{
		"none": nil,
		"all":  {Waiting: nothing, Acquired: nothing, Refused: nothing, Released: nothing, Lost: nothing},
	} {
		b.Run(name, func(b *testing.B) {
			client, err := lock.New(memstore.New(), &lock.Options{Hooks: hooks})
			require.NoError(b, err)
			defer client.Close(ctx)
			m := client.Mutex("k")
			b.ReportAllocs()
			for b.Loop() {
				h, err := m.Lock(ctx)
				if err != nil || h.Unlock(ctx) != nil {
					b.Fatal("not locked")
				}
			}
		})
	}
}
