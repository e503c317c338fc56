package lock_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

const (
	notByAClient = "lock: this lock was not made by a Client, or its Client not by New"
	notByNew     = "lock: this Client was not made by New"
	nilContext   = "the context is nil"
)

var noContext context.Context // nil

// callAll calls every method of v, and gives check the error of each, if it returns one. It
// passes ctx, "x" for texts, and zero values otherwise.
func callAll(ctx context.Context, t *testing.T, v any, check func(method string, takesCtx bool, err error)) {
	t.Helper()
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		name := fmt.Sprintf("%T.%s", v, value.Type().Method(i).Name)
		method := value.Method(i)
		args := make([]reflect.Value, method.Type().NumIn())
		takesCtx := false
		for j := range args {
			args[j] = reflect.Zero(method.Type().In(j))
			if args[j].Kind() == reflect.String {
				args[j] = reflect.ValueOf("x")
			}
			if args[j].Type() == reflect.TypeFor[context.Context]() {
				takesCtx = true
				if ctx != nil {
					args[j] = reflect.ValueOf(ctx)
				}
			}
		}
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		var results []reflect.Value
		require.NotPanics(t, func() { results = call(args) }, name)
		if len(results) == 0 {
			continue
		}
		last := results[len(results)-1]
		if last.Type() == reflect.TypeFor[error]() {
			err, _ := last.Interface().(error)
			check(name, takesCtx, err)
		}
	}
}

func TestMisuseOfNilAndZeroValues(t *testing.T) {
	for _, c := range []struct {
		nilPointer, zero any
		want             string
	}{
		{(*lock.Mutex)(nil), new(lock.Mutex), notByAClient},
		{(*lock.Reentrant)(nil), new(lock.Reentrant), notByAClient},
		{(*lock.RWMutex)(nil), new(lock.RWMutex), notByAClient},
		{(*lock.RWMutex)(nil).RLocker(), new(lock.RWMutex).RLocker(), notByAClient},
		{(*lock.Semaphore)(nil), new(lock.Semaphore), notByAClient},
		{(*lock.Batch)(nil), new(lock.Batch), notByAClient},
		{(*lock.Election)(nil), new(lock.Election), notByAClient},
		{(*lock.Client)(nil), new(lock.Client), notByNew},
		{(*lock.Held)(nil), new(lock.Held), "lock: not held"},
	} {
		for _, v := range []any{c.nilPointer, c.zero} {
			callAll(ctx, t, v, func(method string, takesCtx bool, err error) {
				if takesCtx || err != nil {
					require.EqualError(t, err, c.want, method)
				}
			})
		}
	}
	for _, c := range []*lock.Client{nil, {}} {
		assert.Zero(t, c.Stats())
		assert.Same(t, c, c.With(lock.Terms{}))
		for _, l := range []lock.Locker{
			c.Mutex("k"), c.Reentrant("k"), c.RWMutex("k"), c.RWMutex("k").RLocker(), c.Semaphore("k", 2).WithPermits(2), c.Batch("k", "m"), c.Election("k", "me"),
		} {
			_, err := l.Lock(ctx)
			require.EqualError(t, err, notByAClient)
		}
	}
}

func TestMisuseOfANilContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, v := range []any{
			b.Mutex("k"), b.Reentrant("k"), b.RWMutex("k"), b.RWMutex("k").RLocker(), b.Semaphore("k", 1), b.Batch("k", "m"), b.Election("k", "me"), b.Client,
			lock.Multi(b.Mutex("k")),
		} {
			callAll(noContext, t, v, func(method string, takesCtx bool, err error) {
				if takesCtx {
					require.ErrorContains(t, err, nilContext, method)
				}
			})
		}
		assert.Zero(t, b.calls(locktest.Acquire))
	})
}

// Each text is compared as a whole: that is what a user sees first of a mistake.
func TestMisuse(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("k", lock.MaxKeyLen+1)
		cut := `"` + strings.Repeat("k", 100) + `"...`
		must := func(l lock.Locker) error {
			_, err := l.Lock(ctx)
			_, again := l.TryLock(ctx)
			require.EqualError(t, again, err.Error(), "Lock and TryLock agree")
			return err
		}
		with := func(t lock.Terms) lock.Locker { return b.With(t).Mutex("k") }
		create := func(o lock.Options) error {
			_, err := lock.New(memstore.New(), &o)
			return err
		}
		second := func(_ any, err error) error { return err }
		unlocked := b.lock("k")
		require.NoError(t, unlocked.Unlock(ctx))
		work := func(context.Context, *lock.Held) error { return nil }
		coarse, err := wheel.New(&wheel.Options{Tick: time.Second})
		require.NoError(t, err)
		defer coarse.Close()

		for want, err := range map[string]error{
			// keys
			`lock: "": bad key: it is empty`:                                       must(b.Mutex("")),
			`lock: "}k": bad key: it begins with '}'`:                              must(b.Reentrant("}k")),
			`lock: ` + cut + `: bad key: it is 1025 bytes long, the limit is 1024`: must(b.RWMutex(long)),
			`lock: inspect "": bad key: it is empty`:                               second(b.Inspect(ctx, "")),
			`lock: force the release of "}": bad key: it begins with '}'`:          b.ForceRelease(ctx, "}"),

			// arguments of locks
			`lock: "k": the limit of a semaphore must be 1 to 100000, got 0`:         must(b.Semaphore("k", 0)),
			`lock: "k": the limit of a semaphore must be 1 to 100000, got 100001`:    must(b.Semaphore("k", lock.MaxPermits+1)),
			`lock: "k": the number of permits must be 1 to the limit of 3, got 4`:    must(b.Semaphore("k", 3).WithPermits(4)),
			`lock: "k": the number of permits must be 1 to the limit of 3, got -1`:   must(b.Semaphore("k", 3).WithPermits(-1)),
			`lock: "k": the name of a candidate must have 1 to 1024 bytes, got 0`:    must(b.Election("k", "")),
			`lock: "k": bad members: there must be 1 to 10000, got 0`:                must(b.Batch("k")),
			`lock: "k": bad members: member 1 is empty`:                              must(b.Batch("k", "a", "")),
			`lock: "k": bad members: member 1 is member 0 again, "a"`:                must(b.Batch("k", "a", "a")),
			`lock: "k": bad members: member 0 is 1025 bytes long, the limit is 1024`: must(b.Batch("k", long)),
			`lock: Multi has no locks`:                                               must(lock.Multi()),
			`lock: lock 1 of Multi is nil`:                                           must(lock.Multi(b.Mutex("k"), nil)),
			`lock: lock 1 of Multi is lock 0 again, and would wait for it: "k"`:      must(lock.Multi(b.Mutex("k"), b.RWMutex("k"))),
			`lock: Do: the lock is nil`:                                              lock.Do(ctx, nil, work),
			`lock: Do: the function is nil`:                                          lock.Do(ctx, b.Mutex("k"), nil),

			// terms and options
			`lock: bad TTL: Terms.TTL must be at least 100ms, got 30ns`:                      must(with(lock.Terms{TTL: 30})),
			`lock: bad TTL: Terms.TTL must be at most 8760h0m0s, got 17520h0m0s`:             must(with(lock.Terms{TTL: 2 * lock.MaxTTL})),
			`lock: Terms.MaxHold must be at least 100ms, got 1ns`:                            must(with(lock.Terms{MaxHold: 1})),
			`lock: Terms.MaxHold must be at least 100ms, got -2ns`:                           must(with(lock.Terms{MaxHold: -2})),
			`lock: Terms.Metadata must have at most 1024 bytes, got 1025`:                    must(with(lock.Terms{Metadata: long})),
			`lock: Terms.MaxHold has no meaning for a Fixed lease, which ends after one TTL`: must(with(lock.Terms{Fixed: true, MaxHold: time.Hour})),

			`lock: bad TTL: TTL of 100ms is too short: with a margin of 22ms (the engine's tick is 10ms) it is valid for 77ms, but renewals need 66.67ms plus the margin; set Options.TTL to the shortest TTL in use, because the tick follows from it`: must(with(lock.Terms{TTL: 100 * time.Millisecond})),
			`lock: bad TTL: TTL of 1s is too short: with a margin of 2.002s (the engine's tick is 1s) it is valid for 0s, but renewals need 666.67ms plus the margin; use an Options.Scheduler with a finer tick`:                                       create(lock.Options{Terms: lock.Terms{TTL: time.Second}, Scheduler: coarse}),
			`lock: bad TTL: TTL of 30s is too short: with a margin of 20s it is valid for 9.7s, but renewals need 20s plus the margin`:                                                                                                                  create(lock.Options{Renewal: renewal.Policy{Margin: 20 * time.Second}}),

			`lock: bad TTL: Options.TTL must be at most 8760h0m0s, got 8760h0m0.001s`: create(lock.Options{Terms: lock.Terms{TTL: lock.MaxTTL + time.Millisecond}}),
			`lock: Options.MinHold must be 0 to 8760h0m0s, got 8760h0m0.001s`:         create(lock.Options{Terms: lock.Terms{MinHold: lock.MaxTTL + time.Millisecond}}),
			`lock: Options.MinHold must be 0 to 8760h0m0s, got -1h0m0s`:               create(lock.Options{Terms: lock.Terms{MinHold: -time.Hour}}),
			`lock: bad TTL: Options.TTL must be at least 100ms, got 30ns`:             create(lock.Options{Terms: lock.Terms{TTL: 30}}),
			`lock: Options.Scheduler is a nil pointer`:                                create(lock.Options{Scheduler: (*wheel.Wheel)(nil)}),
			`lock: Options.MaxWaiters must be above 0, got -1`:                        create(lock.Options{MaxWaiters: -1}),
			`renewal: Options.Fraction must be 0.0001 to 0.5, got 2`:                  create(lock.Options{Renewal: renewal.Policy{Fraction: 2}}),
			`lock: the store is nil`:                                                  second(lock.New((*memstore.Store)(nil), nil)),

			// handles
			`lock: unlock "k": not held`:    unlocked.Unlock(ctx),
			`lock: not held`:                unlocked.Err(),
			`lock: downgrade "k": not held`: second(b.RWMutex("k").Downgrade(ctx, nil)),
			`lock: downgrade "k": the handle is not that of a writer of this lock and client`: second(b.RWMutex("k").Downgrade(ctx, unlocked)),
			`lock: the context is nil`: b.Close(nil), //nolint:staticcheck // the mistake
		} {
			assert.EqualError(t, err, want)
			assert.Equal(t, strings.Contains(want, ": bad TTL: "), errors.Is(err, lock.ErrBadTTL), want)
		}
		assert.Equal(t, 1, b.calls(locktest.Acquire), "a mistake costs no request")
	})
}

func TestTheTextsOfRefusals(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		says := func(want string, l lock.Locker) {
			t.Helper()
			_, err := l.TryLock(ctx)
			assert.EqualError(t, err, want)
		}
		mutex, permit := b.lock("mutex"), lockAll(t, b.Semaphore("semaphore", 1))
		assert.EqualError(t, &lock.HeldError{Key: "k", ExpiresIn: 29754371898}, `lock: "k" is taken for another 29.754s, or longer if renewed`)
		assert.EqualError(t, &lock.HeldError{Key: "k", ExpiresIn: 66666666}, `lock: "k" is taken for another 66.67ms, or longer if renewed`)
		assert.EqualError(t, &lock.HeldError{Key: "k", ExpiresIn: 1}, `lock: "k" is taken for another 1ns, or longer if renewed`)
		for n, cut := range map[int]bool{100: false, 101: true} {
			held := &lock.HeldError{Key: strings.Repeat("x", n)}
			assert.Equal(t, cut, strings.Contains(held.Error(), strings.Repeat("x", 100)+`"...`), n)
		}
		assert.EqualError(t, &lock.HeldError{Key: "k"}, `lock: "k" is held by another, or waited for`)
		assert.EqualError(t, &lock.HeldError{Key: "k", Member: "m"}, `lock: member "m" of "k" is held by another, or waited for`)
		says(`lock: "mutex": the key is a mutex, not a semaphore`, b.Semaphore("mutex", 1))
		says(`lock: "mutex": the key is a mutex, not a read-write lock`, b.RWMutex("mutex"))
		says(`lock: "semaphore": the key is a semaphore, not a mutex`, b.Mutex("semaphore"))
		says(`lock: "semaphore": the key is a semaphore, not a batch`, b.Batch("semaphore", "m"))
		_, err := b.Semaphore("mutex", 1).Lock(ctx)
		assert.EqualError(t, err, `lock: "mutex": the key is a mutex, not a semaphore`)
		assert.ErrorIs(t, err, lock.ErrWrongType)
		require.NoError(t, mutex.Unlock(ctx))
		require.NoError(t, permit.Unlock(ctx))
	})
}

// A store that cannot inspect does not name the kinds.
func TestTheTextOfAWrongKindOfAStoreThatCannotInspect(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.store.Over(locktest.Plain(b.mem))
		b.lock("k")
		_, err := b.Semaphore("k", 1).TryLock(ctx)
		require.EqualError(t, err, `lock: "k": the key holds something that is not a lock of this kind`)
		require.ErrorIs(t, err, lock.ErrWrongType)
	})
}

func TestAnEndThatTheTermsSetNamesItsField(t *testing.T) {
	for want, terms := range map[string]lock.Terms{
		`its fixed TTL of 100ms ended`: {TTL: 100 * time.Millisecond, Fixed: true},
		`its MaxHold of 1m0s ended`:    {MaxHold: time.Minute},
	} {
		bubble(t, func(t *testing.T, b *bench) {
			h := lockAll(t, b.With(terms).Mutex("k"))
			<-h.Done()
			require.EqualError(t, h.Err(), `lock: "k": lease lost: `+want)
			var lost *renewal.LostError
			require.ErrorAs(t, h.Err(), &lost)
			assert.Equal(t, renewal.ReasonLimitReached, lost.Reason)
			assert.EqualValues(t, 1, b.Stats().Renewal.LimitReached)
			assert.Zero(t, b.Stats().Renewal.Lost(), "it is no failure")
			err := h.Unlock(ctx)
			require.EqualError(t, err, `lock: unlock "k": lease lost: `+want)
			require.ErrorIs(t, err, lock.ErrLost)
			require.EqualError(t, h.Err(), `lock: "k": lease lost: `+want, "the answer does not change")
		})
	}
	bubbleWith(t, &lock.Options{Terms: lock.Terms{MaxHold: time.Hour}}, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(always(locktest.Renew, errors.New("gone")))
		<-h.Done()
		require.EqualError(t, h.Err(), `lock: "k": lease lost: renewals failed: gone`)
	})
}
