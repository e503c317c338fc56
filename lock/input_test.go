package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestBadKeysAreRefusedWithoutIO(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for name, key := range map[string]string{
			"empty":     "",
			"oversized": strings.Repeat("k", lock.MaxKeyLen+1),
			"brace":     "}abc",
		} {
			for _, try := range []func(context.Context) (*lock.Held, error){b.Mutex(key).Lock, b.Mutex(key).TryLock} {
				_, err := try(ctx)
				require.ErrorIs(t, err, lock.ErrBadKey, name)
				assert.Less(t, len(err.Error()), 300, "a long key is cut")
			}
		}
		assert.Zero(t, b.calls(locktest.Acquire))
		for _, key := range []string{"\x00", "a}b", "\xff\xfe\r\n", strings.Repeat("k", lock.MaxKeyLen), "🔒"} {
			h := b.lock(key)
			assert.Equal(t, key, h.Key(), "unchanged")
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, s := range []driver.Store{nil, (*memstore.Store)(nil)} {
		_, err := lock.New(s, nil)
		require.ErrorContains(t, err, "store is nil")
	}
	for want, o := range map[string]lock.Options{
		"Options.TTL must be at least":   {Terms: lock.Terms{TTL: -1}},
		"Options.TTL must be at least ":  {Terms: lock.Terms{TTL: lock.MinTTL - 1}},
		"Options.TTL must be at most":    {Terms: lock.Terms{TTL: lock.MaxTTL + 1}},
		"Options.TTL must be at most ":   {Terms: lock.Terms{TTL: math.MaxInt64}},
		"Options.Scheduler":              {Scheduler: (*wheel.Wheel)(nil)},
		"Options.MaxHold":                {Terms: lock.Terms{MaxHold: -2}},
		"Options.MaxHold has no meaning": {Terms: lock.Terms{MaxHold: time.Hour, Fixed: true}},
		"Options.MaxWaiters":             {MaxWaiters: -1},
		"Options.Fraction":               {Renewal: renewal.Options{Fraction: 2}},
		"TTL of 100ms is too short":      {Terms: lock.Terms{TTL: lock.MinTTL}, Renewal: renewal.Options{Margin: time.Second}},
		"TTL of 30s is too short":        {Renewal: renewal.Options{Margin: math.MaxInt64}},
	} {
		_, err := lock.New(memstore.New(), &o)
		require.ErrorContains(t, err, strings.TrimSpace(want))
		if strings.Contains(want, "TTL") || strings.Contains(want, "short") {
			require.ErrorIs(t, err, lock.ErrBadTTL)
		}
	}
}

func TestBadTermsAreTheErrorOfLock(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for want, terms := range map[string]lock.Terms{
			"Terms.TTL must be at least": {TTL: -time.Second},
			"Terms.TTL must be at most":  {TTL: 2 * lock.MaxTTL},
			"Terms.MaxHold":              {MaxHold: -2},
		} {
			_, err := b.With(terms).Mutex("k").Lock(ctx)
			require.ErrorContains(t, err, want)
			_, err = b.With(terms).Mutex("k").TryLock(ctx)
			require.ErrorContains(t, err, want)
		}
		assert.Zero(t, b.calls(locktest.Acquire))
	})
}

// The default margin depends on the tick of the engine.
func TestAnEngineThatIsTooCoarseIsRefused(t *testing.T) {
	coarse, err := wheel.New(&wheel.Options{Tick: time.Second})
	require.NoError(t, err)
	defer coarse.Close()
	_, err = lock.New(memstore.New(), &lock.Options{Scheduler: coarse, Terms: lock.Terms{TTL: 3 * time.Second}})
	require.ErrorIs(t, err, lock.ErrBadTTL)
	client, err := lock.New(memstore.New(), &lock.Options{Scheduler: coarse})
	require.NoError(t, err)
	require.NoError(t, client.Close(ctx))
}

func TestTheSmallestTTL(t *testing.T) {
	bubbleWith(t, &lock.Options{Terms: lock.Terms{TTL: lock.MinTTL}}, func(t *testing.T, b *bench) {
		h := b.lock("k")
		settle(time.Minute)
		assert.True(t, h.Valid())
		b.loseRequests(hang(locktest.Renew))
		renewed := b.mem.ExpiresIn("k")
		start := time.Now()
		<-h.Done()
		assert.Less(t, time.Since(start), renewed, "told in time")
	})
}

// The prefix of a client's owners is a secret and does not appear in messages.
func TestAClientShowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		assert.Equal(t, "lock client lock client lock client", fmt.Sprintf("%v %+v %s", b.Client, b.Client, b.Client))
	})
}

func TestTheZeroHandles(t *testing.T) {
	for _, h := range []*lock.Held{nil, {}} {
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
		assert.False(t, h.Valid())
		assert.True(t, closed(h.Done()))
		assert.Zero(t, h.Deadline())
		assert.Zero(t, h.Token())
		assert.Empty(t, h.Key())
		assert.Equal(t, "lock not held", h.String())
		inner, stop := h.Context(ctx)
		require.ErrorIs(t, context.Cause(inner), lock.ErrNotHeld)
		stop()
	}
	for _, m := range []*lock.Mutex{nil, {}, (*lock.Client)(nil).Mutex("k"), new(lock.Client).Mutex("k"), new(lock.Client).With(lock.Terms{}).Mutex("k")} {
		_, err := m.Lock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
		_, err = m.TryLock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
	}
}

// Every method of a client, a lock or a handle can be called on a nil pointer.
func TestNilPointersDoNotPanic(t *testing.T) {
	for _, v := range []any{
		(*lock.Mutex)(nil), (*lock.Reentrant)(nil), (*lock.RWMutex)(nil), (*lock.Semaphore)(nil), (*lock.Batch)(nil),
		(*lock.Election)(nil), (*lock.Client)(nil), (*lock.Held)(nil),
	} {
		value := reflect.ValueOf(v)
		for i := range value.NumMethod() {
			method := value.Method(i)
			args := make([]reflect.Value, method.Type().NumIn())
			for j := range args {
				args[j] = reflect.Zero(method.Type().In(j))
				if args[j].Type() == reflect.TypeFor[context.Context]() {
					args[j] = reflect.ValueOf(ctx)
				}
			}
			call := method.Call
			if method.Type().IsVariadic() {
				call = method.CallSlice
			}
			assert.NotPanics(t, func() { call(args) }, "%T.%s", v, value.Type().Method(i).Name)
		}
	}
	for leader, err := range (*lock.Election)(nil).Observe(ctx) {
		require.Error(t, err)
		assert.Zero(t, leader)
	}
	for _, l := range []lock.Locker{(*lock.RWMutex)(nil).RLocker(), new(lock.RWMutex).RLocker(), new(lock.Semaphore), new(lock.Batch), new(lock.Election), new(lock.Reentrant)} {
		_, err := l.Lock(ctx)
		require.ErrorContains(t, err, "not made by a Client", "%T", l)
		_, err = l.TryLock(ctx)
		require.ErrorContains(t, err, "not made by a Client", "%T", l)
	}
}

func TestErrorsThatNoTryWouldMendAreReturnedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, want := range []error{
			lock.ErrWrongType, lock.ErrNotAcquired, lock.ErrClosed, lock.ErrBadKey, lock.ErrBadTTL, lock.ErrBadMembers, errors.ErrUnsupported,
		} {
			before := b.calls(locktest.Acquire)
			b.loseRequests(always(locktest.Acquire, fmt.Errorf("store: %w", want)))
			start := time.Now()
			_, err := b.Mutex("k").Lock(ctx)
			require.ErrorIs(t, err, want)
			assert.Equal(t, 1, b.calls(locktest.Acquire)-before)
			assert.Zero(t, time.Since(start))
			assert.Zero(t, b.Stats().Releasing, "nothing was taken")
		}
	})
}

// Owners are secrets, because anybody who knows an owner can release its lock.
func TestOwnersNeverShow(t *testing.T) {
	var owners []string
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		b.store.Over(spy{b.mem, &owners})
		a, c := b.lock("a"), b.lock("c")
		b.mem.Delete("a")
		b.loseRequests(always(locktest.Release, errIO))
		<-a.Done()
		seen := []string{fmt.Sprintf("%v %+v %v", a, a, a.Err()), fmt.Sprint(a.Unlock(ctx)), fmt.Sprint(c.Unlock(ctx))}
		_, err := b.Mutex("c").TryLock(ctx)
		seen = append(seen, fmt.Sprintf("%v %+v %#v", err, err, err))
		settle(time.Minute)
		require.Len(t, owners, 3)
		for _, owner := range owners {
			assert.GreaterOrEqual(t, len(owner), 26, "at least 128 random bits")
			for _, text := range append(seen, log.String()) {
				assert.NotContains(t, text, owner)
			}
		}
		assert.NotEqual(t, owners[0], owners[1])
		assert.Contains(t, log.String(), "key=a", "the log names the lock")
	})
}

type spy struct {
	driver.Store
	owners *[]string
}

func (s spy) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	*s.owners = append(*s.owners, r.Owner)
	return s.Store.Acquire(ctx, r)
}
