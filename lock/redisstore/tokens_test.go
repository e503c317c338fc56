package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTokensThatCannotRiseGrantNothing(t *testing.T) {
	for _, last := range []string{"text", "", "-1", "1.5", "1e3", "1.00000000000000", "0x10", " 1", "inf", "nan", "9007199254740991", "9007199254740992", "10000000000000000", "99999999999999999999"} {
		t.Run(last, func(t *testing.T) {
			tb := newTable(t)
			require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, last, time.Minute).Err())
			before := tb.dump()
			_, err := tb.call(acquireScript, tb.keysFor("a:1"), "a:1", ttlMs, 0)
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
		_, err := tb.call(releaseScript, tb.keysFor("a:1"), "a:1", z)
		require.ErrorContains(t, err, "token")
	}
	_, err := tb.call(forceScript, tb.forceKeys(), token)
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

				_, err := tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, 0)
				if name == "lock" {
					require.ErrorContains(t, err, "WRONGTYPE")
				} else {
					require.NoError(t, err, "a taken lock needs no other key")
				}
				if name != "token" {
					_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, placeMs)
					require.ErrorContains(t, err, "WRONGTYPE")
				}
				assert.Equal(t, before, tb.dump(), "the script wrote nothing")
				if name == "lock" {
					return
				}
				tb.expire()
				before = tb.dump()
				_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, 0)
				require.Error(t, err)
				assert.Equal(t, before, tb.dump(), "the script wrote nothing")
			})
		}
	}
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
