package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestTokensRiseAfterALossOfData(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first := acquire(t, s, request("k"))
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	second := acquire(t, s, request("k"))
	assert.Greater(t, second.Token, first.Token, "the time of the server has advanced")
	require.NoError(t, s.Release(t.Context(), second))
	now := uint64(time.Now().UnixMicro())
	second = acquire(t, s, second.Request)
	assert.GreaterOrEqual(t, second.Token, now, "every token follows the clock, not only the first")
	require.NoError(t, rdb.Del(t.Context(), s.lockKey("k")).Err())
	assert.Greater(t, acquire(t, s, request("k")).Token, second.Token)
}

func TestTokensRiseAfterTheClockWentBack(t *testing.T) {
	tb := newTable(t)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, ahead, time.Hour).Err())
	token := tb.granted("a:1")
	assert.Equal(t, strconv.FormatUint(ahead+1, 10), token)
	around(t, 70*time.Minute, tb.pttl(tb.k.token), "remembered for ten minutes beyond the moment it names")

	tb.queued("b:1")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Equal(t, "b:1 "+strconv.FormatUint(ahead+2, 10), tb.value(), "the token of a hand-over rises too")
	around(t, 70*time.Minute, tb.pttl(tb.k.token))
}

func TestTokensThatCannotRiseGrantNothing(t *testing.T) {
	for _, last := range []string{"text", "", "-1", "1.5", "1e3", "1.00000000000000", "0x10", " 1", "inf", "nan", "9007199254740991", "9007199254740992", "10000000000000000", "99999999999999999999"} {
		t.Run(last, func(t *testing.T) {
			tb := newTable(t)
			require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, last, time.Minute).Err())
			before := tb.dump()
			_, err := tb.call(acquireScript, tb.keysFor("a:1"), "a:1", ttlMs, 0, memMs)
			require.ErrorContains(t, err, "token")
			assert.Equal(t, before, tb.dump(), "there is no lock")
		})
	}
	tb := newTable(t)
	require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, "9007199254740990", time.Minute).Err())
	assert.Equal(t, "9007199254740991", tb.granted("a:1"), "the highest token, digit by digit")
}

func TestAHandOverWithoutATokenChangesNothing(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	tb.queued("b:1")
	require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, "text", time.Minute).Err())
	before := tb.dump()
	for _, z := range []int{0, tombMs} {
		_, err := tb.call(releaseScript, tb.keysFor("a:1"), "a:1", z, memMs)
		require.ErrorContains(t, err, "token")
	}
	_, err := tb.call(forceScript, all(&tb.k)[:4], token, memMs)
	require.ErrorContains(t, err, "token")
	assert.Equal(t, before, tb.dump(), "no waiter has lost its position")
}

func TestAForeignValueIsLeftAlone(t *testing.T) {
	for name, key := range map[string]func(keys) string{
		"lock":   func(k keys) string { return k.lock },
		"token":  func(k keys) string { return k.token },
		"queue":  func(k keys) string { return k.queue },
		"places": func(k keys) string { return k.places },
	} {
		for _, kind := range []string{"another type", "another string"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				tb := newTable(t)
				held := tb.granted("a:1")
				tb.queued("b:1")
				bad := key(tb.k)
				require.NoError(t, tb.rdb.Del(t.Context(), bad).Err())
				if kind == "another type" {
					require.NoError(t, tb.rdb.SAdd(t.Context(), bad, "a:1", "b:1", held).Err())
				} else {
					require.NoError(t, tb.rdb.Set(t.Context(), bad, "mine", 0).Err())
				}
				require.NoError(t, tb.rdb.Set(t.Context(), "spoiled:"+bad, 1, time.Minute).Err())
				before := tb.dump()

				_, err := tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, 0, memMs)
				if name == "lock" {
					require.ErrorContains(t, err, "WRONGTYPE")
				} else {
					require.NoError(t, err, "a taken lock needs no other key")
				}
				if name != "token" {
					_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, placeMs, memMs)
					require.ErrorContains(t, err, "WRONGTYPE")
				}
				assert.Equal(t, before, tb.dump(), "the script wrote nothing")
				if name == "lock" {
					return
				}
				tb.expire()
				before = tb.dump()
				_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, 0, memMs)
				require.Error(t, err)
				assert.Equal(t, before, tb.dump(), "the script wrote nothing")
			})
		}
	}
}

func TestAForeignValueAtTheLockKeyIsAnError(t *testing.T) {
	s, rdb := sharedStore(t)
	for _, put := range []func(key string) error{
		func(key string) error { return rdb.HSet(t.Context(), key, "f", "v").Err() },
		func(key string) error { return rdb.Set(t.Context(), key, "a string of somebody else", 0).Err() },
		func(key string) error { return rdb.Set(t.Context(), key, "", 0).Err() },
		func(key string) error { return rdb.Set(t.Context(), key, "17", 0).Err() },
	} {
		r := request("k")
		require.NoError(t, rdb.Del(t.Context(), s.lockKey("k")).Err())
		require.NoError(t, put(s.lockKey("k")))
		before := rdb.Dump(t.Context(), s.lockKey("k")).Val()
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, driver.ErrWrongType)
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
		secretless(t, err, r.Owner)
		_, err = s.Inspect(t.Context(), "k")
		require.ErrorIs(t, err, driver.ErrWrongType)
		require.Error(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
		require.Error(t, s.ForceRelease(t.Context(), "k"))
		assert.Equal(t, before, rdb.Dump(t.Context(), s.lockKey("k")).Val())
	}
	require.NoError(t, rdb.Del(t.Context(), s.lockKey("k")).Err())
}
