package redisstore

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table is one lock on the shared server and the scripts, called directly: as a
// client calls them that queues.
type table struct {
	testing.TB
	rdb *redis.Client
	k   keys
	pre string
}

const (
	ttlMs   = 30_000
	placeMs = 10_000
	tombMs  = 60_000
	memMs   = 600_000
)

func newTable(t testing.TB) *table { return tableOn(t, shared.Server(t).Client(t)) }

func tableOn(t testing.TB, rdb *redis.Client) *table {
	prefix := rand.Text() + ":"
	return &table{TB: t, rdb: rdb, pre: prefix, k: *(&Store{prefix: prefix}).keys("n", "")}
}

func (tb *table) keysFor(owner string) []string {
	k := tb.k
	k.tombstone += owner
	return all(&k)
}

// call runs a script and then checks what holds after each: no key is without an
// end.
func (tb *table) call(s *script, keys []string, args ...any) (any, error) {
	tb.Helper()
	v, err := redis.NewScript(s.source).Run(tb.Context(), tb.rdb, keys, args...).Result()
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		if typ := tb.rdb.Type(tb.Context(), key).Val(); key != "" && tb.rdb.PTTL(tb.Context(), key).Val() < 0 && !tb.spoiled(key) {
			tb.Errorf("%s, a %s, has no end", key, typ)
		}
	}
	return v, err
}

// spoiled tells keys that the test itself has put there.
func (tb *table) spoiled(key string) bool {
	return tb.rdb.Exists(tb.Context(), "spoiled:"+key).Val() == 1
}

func (tb *table) acquire(owner string, ttl, place int) []any {
	tb.Helper()
	v, err := tb.call(acquireScript, tb.keysFor(owner), owner, ttl, place, memMs)
	require.NoError(tb, err)
	return v.([]any)
}

// granted acquires and returns the token.
func (tb *table) granted(owner string) string {
	tb.Helper()
	v := tb.acquire(owner, ttlMs, placeMs)
	require.Len(tb, v, 2)
	require.EqualValues(tb, granted, v[0])
	return v[1].(string)
}

// queued acquires and must wait; it returns the mark and whether it is the head.
func (tb *table) queued(owner string) (mark string, head bool) {
	tb.Helper()
	return tb.queuedFor(owner, placeMs)
}

func (tb *table) queuedFor(owner string, place int) (mark string, head bool) {
	tb.Helper()
	v := tb.acquire(owner, ttlMs, place)
	require.Len(tb, v, 4)
	require.EqualValues(tb, taken, v[0])
	assert.Positive(tb, v[2].(int64))
	return v[1].(string), v[3].(int64) == 1
}

func (tb *table) release(owner string, tomb int) int64 {
	tb.Helper()
	v, err := tb.call(releaseScript, tb.keysFor(owner), owner, tomb, memMs)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) force(token string) int64 {
	tb.Helper()
	v, err := tb.call(forceScript, all(&tb.k)[:4], token, memMs)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) value() string { return tb.rdb.Get(tb.Context(), tb.k.lock).Val() }
func (tb *table) queue() []string {
	return tb.rdb.LRange(tb.Context(), tb.k.queue, 0, -1).Val()
}

func (tb *table) places() []string {
	return tb.rdb.ZRange(tb.Context(), tb.k.places, 0, -1).Val()
}

func (tb *table) pttl(key string) time.Duration { return tb.rdb.PTTL(tb.Context(), key).Val() }

// kill ends the place of an owner that is queued.
func (tb *table) kill(owners ...string) {
	for _, o := range owners {
		require.NoError(tb, tb.rdb.ZAddXX(tb.Context(), tb.k.places, redis.Z{Score: 1, Member: o}).Err())
	}
}

// expire ends the lock as time would.
func (tb *table) expire() { require.NoError(tb, tb.rdb.Del(tb.Context(), tb.k.lock).Err()) }

// dump is all that the server has of the lock, to the bit.
func (tb *table) dump() map[string]string {
	all := map[string]string{}
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		all[key] = tb.rdb.Dump(tb.Context(), key).Val()
	}
	return all
}

// signals subscribes to the channel of an owner and returns what came until
// drained.
func (tb *table) signals(client string) func() []string {
	ps := tb.rdb.Subscribe(tb.Context(), tb.pre+client)
	tb.Cleanup(func() { ps.Close() })
	_, err := ps.Receive(tb.Context())
	require.NoError(tb, err)
	return func() (got []string) {
		require.NoError(tb, tb.rdb.Publish(tb.Context(), tb.pre+client, "end").Err())
		for {
			m, err := ps.ReceiveMessage(tb.Context())
			require.NoError(tb, err)
			if m.Payload == "end" {
				return got
			}
			got = append(got, m.Payload)
		}
	}
}

func rising(t testing.TB, tokens ...string) {
	t.Helper()
	var last uint64
	for _, text := range tokens {
		token, ok := parseToken(text)
		require.True(t, ok, "%q is a token", text)
		require.Greater(t, token, last)
		last = token
	}
}

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

func TestEnterTheQueueAndPoll(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	mark, head := tb.queued("b:1")
	assert.Equal(t, token, mark)
	assert.True(t, head)
	_, head = tb.queued("c:1")
	assert.False(t, head)
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue())
	ends := func(owner string) int64 { return int64(tb.rdb.ZScore(t.Context(), tb.k.places, owner).Val()) }
	assert.InDelta(t, time.Now().UnixMilli()+placeMs, ends("b:1"), 2000)
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}

	first := ends("b:1")
	time.Sleep(2 * time.Millisecond)
	_, head = tb.queued("b:1")
	assert.True(t, head)
	assert.Greater(t, ends("b:1"), first, "a poll renews the place")
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue(), "and keeps the turn")
}

func TestTheQueueEndsSoonAfterItsLastWaiter(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queuedFor("c:1", 1000)
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key), "a client that polls more often does not shorten it")
		require.NoError(t, tb.rdb.PExpire(t.Context(), key, 2*placeMs*time.Millisecond+time.Minute).Err())
	}
	tb.queued("b:1")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		assert.Greater(t, tb.pttl(key), time.Minute, "most polls do not write it")
		require.NoError(t, tb.rdb.PExpire(t.Context(), key, 2*placeMs*time.Millisecond-time.Second).Err())
	}
	tb.queued("b:1")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}
}

func TestReleaseHandsOver(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("b")
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	owner, second, _ := strings.Cut(tb.value(), " ")
	assert.Equal(t, "b:1", owner)
	rising(t, first, second)
	around(t, placeMs*time.Millisecond, tb.pttl(tb.k.lock), "the grant inherits what is left of the place")
	assert.Equal(t, second, tb.rdb.Get(t.Context(), tb.k.token).Val())
	assert.Equal(t, []string{"c:1"}, tb.queue())
	assert.Equal(t, []string{"c:1"}, tb.places(), "a holder has no place")
	assert.Equal(t, []string{"b:1 " + second}, signals())

	assert.Equal(t, second, tb.granted("b:1"), "asking again confirms the grant")
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	mark, head := tb.queued("c:1")
	assert.Equal(t, second, mark)
	assert.True(t, head)
}

func TestTheQueueIsFirstInFirstOut(t *testing.T) {
	tb := newTable(t)
	tokens := []string{tb.granted("o0:1")}
	const waiters = 20
	for i := 1; i <= waiters; i++ {
		tb.queued(fmt.Sprintf("o%d:1", i))
	}
	for i := range waiters {
		tb.queued(fmt.Sprintf("o%d:1", waiters-i)) // polls change no turns
	}
	for i := range waiters {
		assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", i), 0))
		owner, token, _ := strings.Cut(tb.value(), " ")
		assert.Equal(t, fmt.Sprintf("o%d:1", i+1), owner)
		tokens = append(tokens, token)
	}
	rising(t, tokens...)
	assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", waiters), 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "nothing is left but the last token")
}

func TestTheDeadAreSkipped(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	for _, o := range []string{"b:1", "c:1", "d:1", "e:1"} {
		tb.queued(o)
	}
	tb.kill("b:1", "d:1")
	require.NoError(t, tb.rdb.ZRem(t.Context(), tb.k.places, "c:1").Err(), "in the queue but without a place")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "e:1 ")
	assert.Empty(t, tb.queue())
	assert.Empty(t, tb.places())

	tb.queued("f:1")
	tb.queued("g:1")
	tb.kill("f:1", "g:1")
	assert.EqualValues(t, 1, tb.release("e:1", 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "if all are dead the lock is free")
}

func TestAnExpiredLockGoesToTheHead(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("b")
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	tb.expire()
	v := tb.acquire("d:1", ttlMs, 0) // any request moves the queue on, a try too
	require.Len(t, v, 4)
	assert.EqualValues(t, taken, v[0], "and does not overtake it")
	second := v[1].(string)
	rising(t, first, second)
	assert.Equal(t, "b:1 "+second, tb.value())
	assert.LessOrEqual(t, v[2].(int64), int64(placeMs))
	assert.Equal(t, []string{"b:1 " + second}, signals())
	assert.Equal(t, []string{"c:1"}, tb.queue())

	tb.expire()
	third := tb.granted("c:1")
	rising(t, second, third)
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "the head that asks itself gets the whole TTL")
	assert.Empty(t, tb.queue())
	assert.Empty(t, tb.places())

	tb.queued("d:1")
	tb.expire()
	v = tb.acquire("e:1", ttlMs, placeMs)
	assert.EqualValues(t, taken, v[0])
	assert.EqualValues(t, 1, v[3], "who finds it for another is queued behind")
	assert.Contains(t, tb.value(), "d:1 ")
	assert.Equal(t, []string{"e:1"}, tb.queue())
}

func TestEachEntryClearsAwayTwoOfTheDead(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	for i := range 5 {
		tb.queued(fmt.Sprintf("dead%d:1", i))
	}
	tb.kill("dead0:1", "dead1:1", "dead2:1", "dead3:1", "dead4:1")
	tb.queued("b:1")
	assert.Len(t, tb.queue(), 4)
	assert.Len(t, tb.places(), 4)
	tb.queued("b:1")
	assert.Len(t, tb.queue(), 4, "a poll clears nothing away")
	tb.queued("c:1")
	tb.queued("d:1")
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.queue())
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.places())
}

func TestAPlaceThatEndedIsRevivedWhereItStood(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	tb.kill("b:1")
	_, head := tb.queued("b:1")
	assert.True(t, head)
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue())
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "b:1 ")
}

func TestReleaseLeavesTheQueue(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 2, tb.release("b:1", 0))
	assert.Equal(t, []string{"c:1"}, tb.queue())
	assert.Equal(t, []string{"c:1"}, tb.places())
	assert.EqualValues(t, 0, tb.release("b:1", 0), "once")
	assert.Contains(t, tb.value(), "a:1 ")
	tb.queued("b:1")
	assert.Equal(t, []string{"c:1", "b:1"}, tb.queue())
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
