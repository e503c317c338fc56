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
	assert.GreaterOrEqual(t, got, before, "the clock of the server, in microseconds")
	assert.LessOrEqual(t, got, uint64(time.Now().UnixMicro()))
	assert.Equal(t, "a:1 "+token, tb.value())
	assert.Equal(t, token, tb.rdb.Get(t.Context(), tb.k.token).Val())
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	around(t, memMs*time.Millisecond, tb.pttl(tb.k.token))
	assert.Len(t, keysOf(t, tb.rdb, tb.pre), 2, "and no other key")
}

func TestAcquireAgain(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.lock, time.Second).Err())
	before := tb.dump()
	assert.Equal(t, token, tb.granted("a:1"), "the same grant")
	assert.Equal(t, before, tb.dump())
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "for the whole TTL again, though it waits with a shorter place")
}

func TestATryWritesNothing(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	before := tb.dump()
	v := tb.acquire("b:1", ttlMs, 0)
	require.Len(t, v, 4)
	assert.EqualValues(t, taken, v[0])
	assert.Equal(t, token, v[1], "the mark: the token of the holder")
	around(t, ttlMs*time.Millisecond, time.Duration(v[2].(int64))*time.Millisecond)
	assert.EqualValues(t, 0, v[3])
	assert.Equal(t, before, tb.dump())
}

func TestReleaseTwice(t *testing.T) {
	tb := newTable(t)
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	before := tb.dump()
	assert.EqualValues(t, 0, tb.release("a:1", 0))
	assert.Equal(t, before, tb.dump(), "the second hands nothing over")
	_, second, _ := strings.Cut(tb.value(), " ")
	rising(t, first, second)
}

func TestATombstone(t *testing.T) {
	tb := newTable(t)
	assert.EqualValues(t, 0, tb.release("a:1", tombMs), "it came before the acquire")
	x := tb.keysFor("a:1")[4]
	around(t, tombMs*time.Millisecond, tb.pttl(x))
	before := tb.dump()
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:1", ttlMs, 0))
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:1", ttlMs, placeMs))
	assert.Equal(t, before, tb.dump(), "refused before anything was written")
	tb.granted("a:2") // another acquisition of the same client

	assert.EqualValues(t, 1, tb.release("a:2", tombMs), "with the lock")
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:2", ttlMs, 0))
	tb.granted("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 2, tb.release("c:1", tombMs), "with a place")
	assert.Equal(t, []any{int64(refused)}, tb.acquire("c:1", ttlMs, placeMs))
	assert.Empty(t, tb.queue())
}

func TestARequestThatIsExecutedLate(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.granted("a:1") // twice
	assert.EqualValues(t, 1, tb.release("a:1", tombMs))
	assert.Equal(t, []any{int64(refused)}, tb.acquire("a:1", ttlMs, 0), "after the release")
	assert.Empty(t, tb.value())
}

func TestTheRenewScript(t *testing.T) {
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
	assert.Equal(t, []any{int64(1), int64(3), int64(4), int64(5)}, lost)
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	assert.Zero(t, tb.rdb.Exists(t.Context(), gone).Val(), "it creates nothing")
	assert.Equal(t, time.Duration(-1), tb.pttl(list), "and touches nothing else")
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
	assert.Equal(t, []string{"a:1 0"}, signals(), "the old holder is told")
	assert.EqualValues(t, 0, tb.force(first), "a duplicate does not hit the next holder")
	assert.EqualValues(t, 1, tb.force(second))
	assert.Empty(t, tb.value())
	assert.EqualValues(t, 0, tb.force(second), "there is none")
}

func TestTheInspectScript(t *testing.T) {
	tb := newTable(t)
	see := func() []any {
		v, err := tb.call(inspectScript, []string{tb.k.lock, tb.k.token, tb.k.queue})
		require.NoError(t, err)
		return v.([]any)
	}
	assert.Equal(t, []any{nil, int64(-2), int64(0), []any{}, nil}, see())
	token := tb.granted("a:1")
	for i := range 20 {
		tb.queued(fmt.Sprintf("o%d:1", i))
	}
	before := tb.dump()
	v := see()
	assert.Equal(t, before, tb.dump())
	assert.Equal(t, "a:1 "+token, v[0])
	assert.InDelta(t, ttlMs, v[1], 2000)
	assert.EqualValues(t, 20, v[2])
	assert.Len(t, v[3], 16)
	assert.Equal(t, "o0:1", v[3].([]any)[0])
	assert.Equal(t, token, v[4])
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
		assert.Equal(t, []string{owner + " " + token}, signals(), "%q", owner)
		assert.EqualValues(t, 1, tb.release(owner, tombMs))
		assert.Empty(t, tb.value())
	}
}
