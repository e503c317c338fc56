package redislock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file run with the original and with this package.

func TestALockIsAKeyWithTheToken(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		got, err := l.obtain(ctx, rdb, key, time.Hour, nil)
		require.NoError(t, err)
		assert.Equal(t, key, got.Key())
		assert.Len(t, got.Token(), 22)
		assert.Empty(t, got.Metadata())
		assert.Equal(t, got.Token(), rdb.Get(ctx, key).Val())
		assertTTL(t, got, time.Hour)

		_, err = l.obtain(ctx, rdb, key, time.Hour, nil)
		assert.Equal(t, l.notObtained, err, "not wrapped")

		require.NoError(t, got.Release(ctx))
		assert.Zero(t, rdb.Exists(ctx, key).Val())
		again, err := l.obtain(ctx, rdb, key, time.Hour, nil)
		require.NoError(t, err)
		assert.NotEqual(t, got.Token(), again.Token())
		assert.Equal(t, l.notHeld, got.Release(ctx), "not wrapped")
	})
}

func TestTokensAndMetadata(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		first, err := l.obtain(ctx, rdb, key, time.Minute, &options{token: "foo", metadata: "bar"})
		require.NoError(t, err)
		assert.Equal(t, "foo", first.Token())
		assert.Equal(t, "bar", first.Metadata())
		assert.Equal(t, "foobar", rdb.Get(ctx, key).Val())

		_, err = l.obtain(ctx, rdb, key, time.Hour, nil)
		assert.ErrorIs(t, err, l.notObtained)
		_, err = l.obtain(ctx, rdb, key, time.Hour, &options{token: "other"})
		assert.ErrorIs(t, err, l.notObtained)

		second, err := l.obtain(ctx, rdb, key, time.Hour, &options{token: "foo", metadata: "baz"})
		require.NoError(t, err)
		assert.Equal(t, "foobaz", rdb.Get(ctx, key).Val())
		assertTTL(t, second, time.Hour)
		left, err := first.TTL(ctx)
		assert.Zero(t, left)
		assert.NoError(t, err)
		assert.ErrorIs(t, first.refresh(ctx, time.Hour), l.notObtained)
		assert.ErrorIs(t, first.Release(ctx), l.notHeld)
		assert.NoError(t, second.Release(ctx))

		random, err := l.obtain(ctx, rdb, key, time.Minute, &options{metadata: "who"})
		require.NoError(t, err)
		assert.Len(t, random.Token(), 22)
		assert.Equal(t, "who", random.Metadata())
		assert.Equal(t, random.Token()+"who", rdb.Get(ctx, key).Val())
	})
}

func TestRefreshSetsTheTTL(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		got, err := l.obtain(ctx, rdb, key, time.Hour, nil)
		require.NoError(t, err)
		require.NoError(t, got.refresh(ctx, time.Minute))
		assertTTL(t, got, time.Minute)
		require.NoError(t, got.refresh(ctx, 2*time.Hour))
		assertTTL(t, got, 2*time.Hour)
	})
}

func TestALockThatHasExpired(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		got, err := l.obtain(ctx, rdb, key, time.Minute, nil)
		require.NoError(t, err)
		require.NoError(t, rdb.Del(ctx, key).Err())
		left, err := got.TTL(ctx)
		assert.Zero(t, left)
		assert.NoError(t, err)
		assert.Equal(t, l.notObtained, got.refresh(ctx, time.Minute), "not wrapped")
		assert.Equal(t, l.notHeld, got.Release(ctx), "not wrapped")

		require.NoError(t, rdb.Set(ctx, key, "another", 0).Err())
		assert.ErrorIs(t, got.Release(ctx), l.notHeld)
		assert.Equal(t, "another", rdb.Get(ctx, key).Val())
		assert.Equal(t, l.notHeld, l.releaseNil(ctx), "not wrapped")
	})
}

func TestARealExpiry(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		first, err := l.obtain(ctx, rdb, key, 20*time.Millisecond, nil)
		require.NoError(t, err)
		second, err := l.obtain(ctx, rdb, key, time.Minute, &options{retry: l.limit(l.linear(5*time.Millisecond), 5000)})
		require.NoError(t, err)
		assert.ErrorIs(t, first.Release(ctx), l.notHeld)
		assert.NoError(t, second.Release(ctx))
	})
}

// counted frees the key at one of the calls of NextBackoff.
type counted struct {
	strategy
	calls  int
	freeAt int
	free   func()
}

func (c *counted) NextBackoff() time.Duration {
	if c.calls++; c.calls == c.freeAt {
		c.free()
	}
	return c.strategy.NextBackoff()
}

func TestObtainTriesAgain(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		require.NoError(t, rdb.Set(ctx, key, "another", 0).Err())
		retry := &counted{strategy: l.limit(l.linear(time.Millisecond), 3)}
		_, err := l.obtain(ctx, rdb, key, time.Minute, &options{retry: retry})
		assert.ErrorIs(t, err, l.notObtained)
		assert.Equal(t, 4, retry.calls)

		retry = &counted{strategy: l.linear(time.Millisecond), freeAt: 3, free: func() { rdb.Del(ctx, key) }}
		got, err := l.obtain(ctx, rdb, key, time.Minute, &options{retry: retry})
		require.NoError(t, err)
		assert.Equal(t, 3, retry.calls)
		assert.NoError(t, got.Release(ctx))
	})
}

func TestContextsEndObtain(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		rdb, key := shared.Server(t).Client(t), newKey(t)
		require.NoError(t, rdb.Set(t.Context(), key, "another", 0).Err())

		_, err := l.obtain(t.Context(), rdb, key, 50*time.Millisecond, &options{retry: l.linear(time.Millisecond)})
		assert.ErrorIs(t, err, context.DeadlineExceeded, "one TTL")

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = l.obtain(ctx, rdb, key, time.Hour, &options{retry: l.linear(time.Hour)})
		assert.Equal(t, context.DeadlineExceeded, err, "not wrapped")

		ctx, cancel = context.WithCancel(t.Context())
		retry := &counted{strategy: l.linear(time.Hour), freeAt: 1, free: cancel}
		_, err = l.obtain(ctx, rdb, key, time.Hour, &options{retry: retry})
		assert.Equal(t, context.Canceled, err, "not wrapped")
		_, err = l.obtain(ctx, rdb, newKey(t), time.Hour, nil)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestOneOfManyObtainsALock(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		rdb, key := shared.Server(t).Client(t), newKey(t)
		var winners atomic.Int64
		together(100, func(int) {
			_, err := l.obtain(t.Context(), rdb, key, time.Minute, nil)
			if err == nil {
				winners.Add(1)
				return
			}
			assert.ErrorIs(t, err, l.notObtained)
		})
		assert.EqualValues(t, 1, winners.Load())
	})
}

func TestRetryStrategies(t *testing.T) {
	const ms = time.Millisecond
	both(t, func(t *testing.T, l library) {
		for _, c := range []struct {
			name string
			s    strategy
			want []time.Duration
		}{
			{"none", l.none(), []time.Duration{0, 0, 0}},
			{"linear", l.linear(time.Second), []time.Duration{time.Second, time.Second, time.Second}},
			{"limited", l.limit(l.linear(time.Second), 2), []time.Duration{time.Second, time.Second, 0, 0}},
			{"limited to none", l.limit(l.linear(time.Second), 0), []time.Duration{0, 0}},
			{"exponential", l.exponential(10*ms, 300*ms), []time.Duration{
				10 * ms, 10 * ms, 16 * ms, 32 * ms, 64 * ms, 128 * ms, 256 * ms, 300 * ms, 300 * ms,
			}},
			{"from 4 ms on", l.exponential(0, 0), []time.Duration{4 * ms, 8 * ms, 16 * ms}},
		} {
			for i, want := range c.want {
				assert.Equal(t, want, c.s.NextBackoff(), "%s, call %d", c.name, i)
			}
		}
		s := l.exponential(0, 0)
		for range 23 {
			s.NextBackoff()
		}
		for _, want := range []time.Duration{1 << 25, 1 << 26, 1 << 26} {
			assert.Equal(t, want*ms, s.NextBackoff())
		}
	})
}

func TestFaultsOfTheServer(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		require.NoError(t, rdb.LPush(ctx, key, "x").Err())
		_, err := l.obtain(ctx, rdb, key, time.Minute, nil)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.NotErrorIs(t, err, l.notObtained)

		closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		require.NoError(t, closed.Close())
		_, err = l.obtain(ctx, closed, newKey(t), time.Minute, nil)
		assert.ErrorIs(t, err, redis.ErrClosed)
	})
}

func TestTheTextsOfErrors(t *testing.T) {
	texts := map[string]string{}
	both(t, func(_ *testing.T, l library) {
		texts[l.name] = errors.Join(l.notObtained, l.notHeld).Error()
	})
	assert.Equal(t, texts["original"], texts["ours"])
	assert.Equal(t, 1, strings.Count(texts["ours"], "\n"))
}

// assertTTL checks the TTL of a lock to a minute.
func assertTTL(t *testing.T, l lease, want time.Duration) {
	got, err := l.TTL(t.Context())
	require.NoError(t, err)
	assert.LessOrEqual(t, got, want)
	assert.Greater(t, got, want-time.Minute)
}
