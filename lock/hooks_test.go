package lock_test

import (
	"context"
	"errors"
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

func TestEnteringAgainCallsNoHook(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		require.NoError(t, lock.Do(ctx, b.Reentrant("k"), func(ctx context.Context, _ *lock.Held) error {
			return lock.Do(ctx, b.Reentrant("k"), func(context.Context, *lock.Held) error { return nil })
		}))
		assert.Equal(t, []string{"acquired reentrant", "released reentrant"}, o.names())
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
		assert.Equal(t, renewal.ReasonNotOwned, why.Reason)
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

// hookAllocs is how many objects the hooks need for a Lock and its Unlock.
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
