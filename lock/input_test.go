package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	for _, s := range []lock.Store{nil, (*memstore.Store)(nil)} {
		_, err := lock.New(s, nil)
		require.ErrorContains(t, err, "store is nil")
	}
	for want, o := range map[string]lock.Options{
		"Options.TTL must be at least":   {Terms: lock.Terms{TTL: -1}},
		"Options.TTL must be at least ":  {Terms: lock.Terms{TTL: lock.MinTTL - 1}},
		"Options.TTL must be at most":    {Terms: lock.Terms{TTL: lock.MaxTTL + 1}},
		"Options.TTL must be at most ":   {Terms: lock.Terms{TTL: math.MaxInt64}},
		"Options.Scheduler":              {Scheduler: (*wheel.Wheel)(nil)},
		"Options.MaxHold":                {Terms: lock.Terms{MaxHold: -1}},
		"Options.MaxHold has no meaning": {Terms: lock.Terms{MaxHold: time.Hour, Fixed: true}},
		"Options.MaxWaiters":             {MaxWaiters: -1},
		"Options.LocalHandovers":         {LocalHandovers: -1},
		"Options.Fraction":               {Renewal: renewal.Options{Fraction: 2}},
		"a TTL of 100ms is too short":    {Terms: lock.Terms{TTL: lock.MinTTL}, Renewal: renewal.Options{Margin: time.Second}},
		"a TTL of 30s is too short":      {Renewal: renewal.Options{Margin: math.MaxInt64}},
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
			"Terms.MaxHold":              {MaxHold: -1},
		} {
			_, err := b.With(terms).Mutex("k").Lock(ctx)
			require.ErrorContains(t, err, want)
			_, err = b.With(terms).Mutex("k").TryLock(ctx)
			require.ErrorContains(t, err, want)
		}
		assert.Zero(t, b.calls(locktest.Acquire))
	})
}

// The margin follows the tick of an engine that has one.
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

// What its owners begin with is a secret, and stays out of messages.
func TestAClientShowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		assert.Equal(t, "lock client lock client lock client lock.Client{}", fmt.Sprintf("%v %+v %s %#v", b.Client, b.Client, b.Client, b.Client))
		assert.Equal(t, "k", b.Mutex("k").Key())
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
			assert.Zero(t, b.Stats().Cleaning, "nothing was taken")
		}
	})
}

// Owners are secrets: whoever knows one can release its lock.
func TestOwnersNeverShow(t *testing.T) {
	var owners []string
	var log strings.Builder
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		b.store.Store = spy{b.store.Store, &owners}
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
		assert.Contains(t, log.String(), "lease.key=a", "the log names the lock")
	})
}

type spy struct {
	lock.Store
	owners *[]string
}

func (s spy) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	*s.owners = append(*s.owners, r.Owner)
	return s.Store.Acquire(ctx, r)
}
