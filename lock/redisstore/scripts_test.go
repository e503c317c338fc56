package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAcquireAFreeLock(t *testing.T) {
	tb := newTable(t)
	before := uint64(time.Now().UnixMicro())
	token := tb.granted("a:1")
	got, ok := parseToken(token)
	require.True(t, ok)
	assert.GreaterOrEqual(t, got, before, "the token is the time of the server in microseconds")
	assert.LessOrEqual(t, got, uint64(time.Now().UnixMicro()))
	assert.Equal(t, "a:1 "+token, tb.value())
	assert.Equal(t, token, tb.rdb.Get(t.Context(), tb.k.token).Val())
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	around(t, memMs*time.Millisecond, tb.pttl(tb.k.token))
	assert.Len(t, keysOf(t, tb.rdb, tb.pre), 2, "there is no other key")
}

func TestAcquireAgainRenewsTheGrant(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.lock, time.Second).Err())
	before := tb.dump()
	assert.Equal(t, token, tb.granted("a:1"), "the same grant")
	assert.Equal(t, before, tb.dump())
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "the full TTL, although the place is shorter")
}

func TestTryAcquireWritesNothing(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	before := tb.dump()
	v := tb.acquire("b:1", ttlMs, 0)
	require.Len(t, v, 4)
	assert.EqualValues(t, taken, v[0])
	assert.Equal(t, token, v[1], "the token of the holder")
	around(t, ttlMs*time.Millisecond, time.Duration(v[2].(int64))*time.Millisecond)
	assert.EqualValues(t, 0, v[3])
	assert.Equal(t, before, tb.dump())
}

func TestATombstoneRefusesItsOwner(t *testing.T) {
	tb := newTable(t)
	assert.EqualValues(t, 0, tb.release("a:1", tombMs), "the release comes before the acquire")
	x := tb.keysFor("a:1")[4]
	around(t, tombMs*time.Millisecond, tb.pttl(x))
	before := tb.dump()
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:1", ttlMs, 0))
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:1", ttlMs, placeMs))
	assert.Equal(t, before, tb.dump(), "the refused request wrote nothing")
	tb.granted("a:2") // another acquisition of the same client

	assert.EqualValues(t, 1, tb.release("a:2", tombMs), "the owner has the lock")
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:2", ttlMs, 0))
	tb.granted("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 2, tb.release("c:1", tombMs), "the owner has a place")
	assert.Equal(t, []any{int64(refused)}, tb.acquire("c:1", ttlMs, placeMs))
	assert.Empty(t, tb.queue())
}

func TestRenewScript(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.lock, time.Second).Err())
	gone := tb.pre + "{gone}"
	list := tb.pre + "{list}"
	spoil(t, tb.rdb, list)
	require.NoError(t, tb.rdb.Set(t.Context(), "spoiled:"+list, 1, time.Minute).Err())
	lost, err := tb.call(renewScript, []string{gone, tb.k.lock, tb.k.lock, list, tb.k.lock, tb.k.lock},
		ttlMs, "a:1 1", "a:1 "+token, "b:1 "+token, "a:1 1", "a:1 "+token+"0", "a:1 "+token)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1), int64(-3), int64(4), int64(-5)}, lost, "negative if another owner has it")
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	assert.Zero(t, tb.rdb.Exists(t.Context(), gone).Val(), "the script creates no key")
	assert.Equal(t, time.Duration(-1), tb.pttl(list), "the foreign value keeps its lack of an expiry")
}

func TestForce(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("a")
	first := tb.granted("a:1")
	tb.queued("b:1")
	before := tb.dump()
	other, _ := parseToken(first)
	assert.EqualValues(t, 0, tb.force(strconv.FormatUint(other-1, 10)))
	assert.Equal(t, before, tb.dump())
	assert.EqualValues(t, 1, tb.force(first))
	owner, second, _ := strings.Cut(tb.value(), " ")
	assert.Equal(t, "b:1", owner)
	rising(t, first, second)
	assert.Equal(t, []string{message("a:1", "0")}, signals(), "the old holder gets a signal")
	assert.EqualValues(t, 0, tb.force(first), "a duplicate does not affect the next holder")
	assert.EqualValues(t, 1, tb.force(second))
	assert.Empty(t, tb.value())
	assert.EqualValues(t, 0, tb.force(second), "there is no lock")
}

func TestInspectScript(t *testing.T) {
	tb := newTable(t)
	see := func() []any {
		v, err := tb.call(inspectScript, []string{tb.k.lock, tb.k.token, tb.k.queue, tb.k.lock + metadataEnd})
		require.NoError(t, err)
		return v.([]any)
	}
	assert.Equal(t, []any{nil, int64(-2), int64(0), []any{}, nil, nil}, see())
	token := tb.granted("a:1")
	for i := range 101 {
		tb.queued(fmt.Sprintf("o%d:1", i))
	}
	before := tb.dump()
	v := see()
	assert.Equal(t, before, tb.dump())
	assert.Equal(t, "a:1 "+token, v[0])
	assert.InDelta(t, ttlMs, v[1], 2000)
	assert.EqualValues(t, 101, v[2])
	assert.Len(t, v[3], 100)
	assert.Equal(t, "o0:1", v[3].([]any)[0])
	assert.Equal(t, token, v[4])
	assert.Nil(t, v[5])
}

func TestTheMetadataScript(t *testing.T) {
	tb := newTable(t)
	set := func(value, token, metadata string) any {
		v, err := tb.call(metadataScript, []string{tb.k.lock, tb.k.lock + metadataEnd}, value, token, metadata, 5000)
		require.NoError(t, err)
		return v
	}
	assert.EqualValues(t, 0, set("a:1 17", "17", "m"), "nobody holds it")
	assert.Empty(t, tb.dump())
	token := tb.granted("a:1")
	before := tb.dump()
	assert.EqualValues(t, 0, set("b:1 "+token, token, "m"), "another owner")
	assert.EqualValues(t, 0, set("a:1 17", "17", "m"), "another token")
	assert.Equal(t, before, tb.dump())
	assert.EqualValues(t, 1, set("a:1 "+token, token, "half \x00 done"))
	v, err := tb.call(inspectScript, []string{tb.k.lock, tb.k.token, tb.k.queue, tb.k.lock + metadataEnd})
	require.NoError(t, err)
	assert.Equal(t, token+" half \x00 done", v.([]any)[5])
	assert.Equal(t, "a:1 "+token, tb.value(), "the owner is the same")
}

func TestOwnersOfAnyForm(t *testing.T) {
	for _, owner := range []string{"plain", "with spaces 12", "a:b:c:1", "\x00\xff:1", "1", " 1", ":", "%d%.*[^x]$"} {
		tb := newTable(t)
		client := owner
		if i := strings.LastIndexByte(owner, ':'); i >= 0 {
			client = owner[:i]
		}
		signals := tb.signals(client)
		tb.granted("a:1")
		tb.queued(owner)
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		token := tb.granted(owner)
		assert.Equal(t, owner+" "+token, tb.value())
		assert.Equal(t, []string{message(owner, token)}, signals(), "%q", owner)
		assert.EqualValues(t, 1, tb.release(owner, tombMs))
		assert.Empty(t, tb.value())
	}
}
