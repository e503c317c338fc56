package redislock

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

	"github.com/leasewheel/leasewheel/internal/testredis"
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
	})
}

func TestANilLock(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		left, err := l.noLock.TTL(t.Context())
		assert.Zero(t, left)
		assert.Equal(t, l.notHeld, err)
		assert.Equal(t, l.notHeld, l.noLock.Release(t.Context()))
		assert.Equal(t, l.notObtained, l.noLock.refresh(t.Context(), time.Minute))
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

		_, err := l.obtain(t.Context(), rdb, key, time.Second, &options{retry: l.linear(time.Hour)})
		assertJoined(t, err, l.notObtained, context.DeadlineExceeded) // after one TTL

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.obtain(ctx, rdb, key, time.Hour, &options{retry: l.linear(time.Hour)})
		assertJoined(t, err, l.notObtained, context.DeadlineExceeded)

		ctx, cancel = context.WithCancel(t.Context())
		retry := &counted{strategy: l.linear(time.Hour), freeAt: 1, free: cancel}
		_, err = l.obtain(ctx, rdb, key, time.Hour, &options{retry: retry})
		assertJoined(t, err, l.notObtained, context.Canceled)
		_, err = l.obtain(ctx, rdb, newKey(t), time.Hour, nil)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// assertJoined checks that an error joins others, in their order.
func assertJoined(t *testing.T, err error, parts ...error) {
	for _, part := range parts {
		assert.ErrorIs(t, err, part)
	}
	assert.EqualError(t, err, errors.Join(parts...).Error())
}

func TestOneLockOfSeveralKeys(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb := t.Context(), shared.Server(t).Client(t)
		a, b, c := newKey(t), newKey(t), newKey(t)
		got, err := l.obtainMulti(ctx, rdb, []string{a, b, a}, time.Hour, &options{metadata: "who"})
		require.NoError(t, err)
		assert.Equal(t, a, got.Key())
		assert.Equal(t, []string{a, b, a}, got.Keys())
		for _, key := range []string{a, b} {
			assert.Equal(t, got.Token()+"who", rdb.Get(ctx, key).Val())
			assert.InDelta(t, time.Hour, rdb.PTTL(ctx, key).Val(), float64(time.Minute))
		}

		_, err = l.obtainMulti(ctx, rdb, []string{c, b}, time.Hour, nil)
		assert.Equal(t, l.notObtained, err)
		assert.Zero(t, rdb.Exists(ctx, c).Val(), "all or none")
		_, err = l.obtain(ctx, rdb, b, time.Hour, nil)
		assert.Equal(t, l.notObtained, err)

		require.NoError(t, got.refresh(ctx, 2*time.Hour))
		for _, key := range []string{a, b} {
			assert.InDelta(t, 2*time.Hour, rdb.PTTL(ctx, key).Val(), float64(time.Minute))
		}
		require.NoError(t, rdb.PExpire(ctx, b, time.Minute).Err())
		assertTTL(t, got, time.Minute)
		require.NoError(t, rdb.Persist(ctx, a).Err())
		assertTTL(t, got, time.Minute)
		require.NoError(t, rdb.Persist(ctx, b).Err())
		left, err := got.TTL(ctx)
		require.NoError(t, err)
		assert.Zero(t, left, "no key expires")

		require.NoError(t, got.Release(ctx))
		assert.Zero(t, rdb.Exists(ctx, a, b).Val())
		assert.Equal(t, l.notHeld, got.Release(ctx))
	})
}

// TestALockThatHasLostAKey is about a lock of two keys, one of which another program has.
func TestALockThatHasLostAKey(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb := t.Context(), shared.Server(t).Client(t)
		for name, lose := range map[string]func(key string) error{
			"expired":         func(key string) error { return rdb.Del(ctx, key).Err() },
			"taken":           func(key string) error { return rdb.Set(ctx, key, "another", 0).Err() },
			"of another type": func(key string) error { rdb.Del(ctx, key); return rdb.LPush(ctx, key, "x").Err() },
		} {
			for i := range 2 {
				keys := []string{newKey(t), newKey(t)}
				got, err := l.obtainMulti(ctx, rdb, keys, time.Hour, &options{token: "token"})
				require.NoError(t, err)
				require.NoError(t, lose(keys[i]))
				left, err := got.TTL(ctx)
				assert.Zero(t, left, name)
				assert.NoError(t, err, name)
				assert.Equal(t, l.notObtained, got.refresh(ctx, time.Minute), name)
				assert.Equal(t, l.notHeld, got.Release(ctx), name)
				assert.Equal(t, "token", rdb.Get(ctx, keys[1-i]).Val(), "%s: all or none", name)
				assert.Greater(t, rdb.PTTL(ctx, keys[1-i]).Val(), 2*time.Minute, "%s: all or none", name)
				if name != "of another type" {
					_, err = l.obtainMulti(ctx, rdb, keys, time.Minute, &options{token: "token"})
					assert.Equal(t, l.notObtained, err, "%s: the token of one key is not enough", name)
				}
			}
		}
	})
}

func TestATokenObtainsSeveralKeysAgain(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, keys := t.Context(), shared.Server(t).Client(t), []string{newKey(t), newKey(t)}
		_, err := l.obtainMulti(ctx, rdb, keys, time.Minute, &options{token: "token", metadata: "first"})
		require.NoError(t, err)
		got, err := l.obtainMulti(ctx, rdb, keys, time.Hour, &options{token: "token", metadata: "second"})
		require.NoError(t, err)
		for _, key := range keys {
			assert.Equal(t, "tokensecond", rdb.Get(ctx, key).Val())
		}
		assertTTL(t, got, time.Hour)
		require.NoError(t, got.Release(ctx))
		_, err = l.obtainMulti(ctx, rdb, nil, time.Minute, nil)
		assert.Error(t, err, "no keys")
		assert.NotErrorIs(t, err, l.notObtained)
	})
}

// TestManyTakeSeveralKeysInAnyOrder would not end if a lock were taken key by key.
func TestManyTakeSeveralKeysInAnyOrder(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, keys := t.Context(), shared.Server(t).Client(t), []string{newKey(t), newKey(t), newKey(t)}
		var counters [3]int // the race detector reports two holders
		together(6, func(i int) {
			for range 30 {
				first, second := i%3, (i+1+i/3)%3
				got, err := l.obtainMulti(ctx, rdb, []string{keys[first], keys[second]}, time.Minute, &options{retry: l.linear(time.Millisecond)})
				if assert.NoError(t, err) {
					counters[first]++
					counters[second]++
					assert.NoError(t, got.Release(ctx))
				}
			}
		})
		assert.Equal(t, [3]int{120, 120, 120}, counters)
	})
}

// broken is a client that fails while errors are left in the channel.
type broken struct {
	redis.Scripter
	errors chan error
}

func (b broken) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	select {
	case err := <-b.errors:
		return redis.NewCmdResult(nil, err)
	default:
		return b.Scripter.EvalSha(ctx, sha, keys, args...)
	}
}

func TestRefreshTriesAgain(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, key := t.Context(), newKey(t)
		b := broken{shared.Server(t).Client(t), make(chan error, 10)}
		fail := func(list ...error) {
			for len(b.errors) > 0 {
				<-b.errors
			}
			for _, err := range list {
				b.errors <- err
			}
		}
		got, err := l.obtain(ctx, b, key, time.Hour, nil)
		require.NoError(t, err)
		one, two, three := errors.New("one"), errors.New("two"), errors.New("three")

		fail(one, two)
		require.NoError(t, got.refreshWith(ctx, time.Minute, &options{retry: l.linear(time.Millisecond)}))
		assertTTL(t, got, time.Minute)

		fail(one, two, three)
		assert.Equal(t, one, got.refresh(ctx, time.Hour), "not tried again, not wrapped")
		fail(one, two, three)
		assert.Equal(t, two, got.refreshWith(ctx, time.Hour, &options{retry: l.limit(l.linear(time.Millisecond), 1)}), "the last error")
		assert.Len(t, b.errors, 1)

		canceled, cancel := context.WithCancel(ctx)
		fail(one, two, three)
		retry := &counted{strategy: l.linear(time.Hour), freeAt: 1, free: cancel}
		assertJoined(t, got.refreshWith(canceled, time.Hour, &options{retry: retry}), one, context.Canceled)
		fail(one)
		retry = &counted{strategy: l.linear(time.Hour)}
		assertJoined(t, got.refreshWith(ctx, 10*time.Millisecond, &options{retry: retry}), one, context.DeadlineExceeded)

		fail(one)
		require.NoError(t, b.Scripter.(*redis.Client).Del(ctx, key).Err())
		retry = &counted{strategy: l.linear(time.Millisecond)}
		assert.Equal(t, l.notObtained, got.refreshWith(ctx, time.Hour, &options{retry: retry}), "a lost lock is final")
		assert.Equal(t, 1, retry.calls)

		fail(one)
		_, err = l.obtain(ctx, b, key, time.Minute, &options{retry: l.linear(time.Millisecond)})
		assert.Equal(t, one, err, "Obtain does not try again after an error")
	})
}

func TestKeysOfTwoSlots(t *testing.T) {
	cluster := testredis.StartCluster(t, 3, false).Client(t)
	both(t, func(t *testing.T, l library) {
		ctx, key := t.Context(), newKey(t)
		_, err := l.obtainMulti(ctx, cluster, []string{key + "{a}", key + "{b}"}, time.Minute, nil)
		assert.ErrorContains(t, err, "CROSSSLOT")
		got, err := l.obtainMulti(ctx, cluster, []string{key + "{a}", "{a}" + key}, time.Minute, nil)
		require.NoError(t, err)
		assert.NoError(t, got.refresh(ctx, time.Minute))
		assert.NoError(t, got.Release(ctx))
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
