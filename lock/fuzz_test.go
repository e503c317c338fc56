package lock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// FuzzNames acquires locks with arbitrary names. Each name is refused before the store is
// called, or names its own lock, byte for byte.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "k", "}", "}k", "k}", "{k}", "\x00\xff\r\n", "🔒", strings.Repeat("k", lock.MaxKeyLen), strings.Repeat("k", lock.MaxKeyLen+1), "%s%n", "\x1b[2J", "\u202e"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		bubble(t, func(t *testing.T, b *bench) {
			good := name != "" && len(name) <= lock.MaxKeyLen && name[0] != '}'
			h, err := b.Mutex(name).Lock(ctx)
			require.Equal(t, good, err == nil, "%v", err)
			if !good {
				require.ErrorIs(t, err, lock.ErrBadKey)
				printable(t, err.Error())
				assert.Zero(t, b.calls(locktest.Acquire))
				return
			}
			assert.Equal(t, name, h.Key())
			printable(t, h.String())
			_, err = b.Mutex(name).TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			printable(t, err.Error())
			_, err = b.Mutex(name + " ").TryLock(ctx)
			require.Equal(t, len(name) < lock.MaxKeyLen, err == nil, "%v", err)
			require.NoError(t, h.Unlock(ctx))
		})
	})
}

// printable checks that a text is short and has no control characters.
func printable(t *testing.T, text string) {
	t.Helper()
	assert.Less(t, len(text), 1000)
	assert.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
}

// FuzzOptions creates clients with arbitrary options. New returns an error that names the
// field, or the client works.
func FuzzOptions(f *testing.F) {
	const second = int64(time.Second)
	for _, o := range []struct {
		ttl, hold       int64
		fixed           bool
		waiters         int
		fraction        float64
		failures        int
		timeout, margin int64
		heap            bool
	}{
		{},
		{heap: true},
		{ttl: second, fixed: true},
		{ttl: 100e6, fixed: true},
		{ttl: 100e6},
		{ttl: 100e6, margin: 1e6, heap: true},
		{ttl: second, hold: 3 * second},
		{ttl: int64(lock.MaxTTL)},
		{hold: math.MaxInt64},
		{hold: 100e6},
		{hold: 1},
		{ttl: -1},
		{ttl: math.MaxInt64},
		{ttl: 100e6 + 1},
		{fraction: 0.5},
		{fraction: 0.01},
		{fraction: 0.0001},
		{fraction: 0.00009},
		{fraction: math.NaN()},
		{fraction: math.Inf(-1)},
		{failures: -1},
		{failures: 1},
		{failures: -2},
		{failures: math.MaxInt},
		{timeout: 1},
		{timeout: math.MaxInt64},
		{timeout: -1},
		{margin: 1},
		{margin: second},
		{margin: math.MaxInt64},
		{margin: math.MinInt64},
		{waiters: 1},
		{waiters: math.MaxInt},
		{waiters: -1},
	} {
		f.Add(o.ttl, o.hold, o.fixed, o.waiters, o.fraction, o.failures, o.timeout, o.margin, o.heap)
	}
	f.Fuzz(func(t *testing.T, ttl, hold int64, fixed bool, waiters int, fraction float64, failures int, timeout, margin int64, heap bool) {
		synctest.Test(t, func(t *testing.T) {
			o := lock.Options{
				Terms:      lock.Terms{TTL: time.Duration(ttl), MaxHold: time.Duration(hold), Fixed: fixed},
				MaxWaiters: waiters,
				Renewal: renewal.Policy{
					Fraction: fraction, Failures: failures, Timeout: time.Duration(timeout), Margin: time.Duration(margin),
				},
			}
			if heap {
				engine, err := heapqueue.NewScheduler(nil)
				require.NoError(t, err)
				defer engine.Close()
				o.Scheduler = engine
			}
			c, err := lock.New(memstore.New(), &o)
			if err != nil {
				assert.Nil(t, c)
				assert.True(t, strings.Contains(err.Error(), "Options.") || errors.Is(err, lock.ErrBadTTL), "%v names no field", err)
				return
			}
			works(t, c, o)
		})
	})
}

// works checks that a client keeps a lock for as long as its options say.
func works(t *testing.T, c *lock.Client, o lock.Options) {
	t.Helper()
	h, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	assert.True(t, h.Valid())
	_, err = c.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	ttl := o.TTL
	if ttl == 0 {
		ttl = 30 * time.Second
	}
	begun := time.Now()
	switch {
	case ttl > time.Hour: // clocks are compared once a second
		require.NoError(t, h.Unlock(ctx))
	case o.Fixed, o.MaxHold > 0 && o.MaxHold < ttl/2:
		<-h.Done()
		require.ErrorIs(t, h.Err(), lock.ErrLost)
		assert.LessOrEqual(t, time.Since(begun), ttl)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
	default:
		if f := o.Renewal.Fraction; f == 0 || f >= 0.01 { // otherwise it renews as often as it can
			limit := 3 * ttl
			if o.MaxHold > 0 {
				limit = min(limit, o.MaxHold/2)
			}
			time.Sleep(limit)
			require.NoError(t, h.Err())
		}
		require.NoError(t, h.Unlock(ctx))
	}
	require.NoError(t, c.Close(context.Background()))
}
