package shared

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// The server does nothing else while a script runs. So each run has a bounded number of
// commands, and the next run continues the work. These tests count commands on a real
// server, on locks with many entries.

const (
	hugeCount = 100_000

	// maxCommands is far more than a run needs to serve 500 waiters or to revoke 400
	// leases. It is far less than one command per entry.
	maxCommands = 10_000
)

// boundsTest counts the commands of the scripts on a real server.
type boundsTest struct {
	*testing.T
	*server
	rdb     *redis.Client
	now     int64 // ms, the server's clock at the start of the test
	maxSeen int
}

func newBoundsTest(t *testing.T) *boundsTest {
	sources, err := readScripts()
	require.NoError(t, err)
	rdb := testredis.Start(t).Client(t)
	now, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	srv, err := serverOn(rdb, sources)
	require.NoError(t, err)
	b := &boundsTest{T: t, server: srv, rdb: rdb, now: now.UnixMilli()}
	t.Cleanup(func() { report.Add("%s: at most %d commands in one run", t.Name(), b.maxSeen) })
	return b
}

// addEntries sends n commands in pipelines, and sets the expiry of the key.
func (b *boundsTest) addEntries(key string, n int, args func(i int) []any) {
	b.Helper()
	for from := 0; from < n; from += 1000 {
		_, err := b.rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, n); i++ {
				p.Do(b.Context(), args(i)...)
			}
			p.PExpire(b.Context(), key, time.Hour)
			return nil
		})
		require.NoError(b, err)
	}
}

// holders adds n leases that end ms after the start of the test. In mode m each has one
// member.
func (b *boundsTest) holders(mode byte, n int, ms int64) {
	b.Helper()
	b.rdb.HSet(b.Context(), keys[4], "{mode}", string(mode))
	b.addEntries(keys[0], n, func(i int) []any { return []any{"zadd", keys[0], b.now + ms, owner(i)} })
	b.addEntries(keys[4], n, func(i int) []any {
		return []any{"hset", keys[4], owner(i), fmt.Sprintf("%c %d 1 ", mode, i+1)}
	})
	if mode == members {
		b.addEntries(keys[4], n, func(i int) []any { return []any{"hset", keys[4], "{" + owner(i), "m" + strconv.Itoa(i)} })
		b.addEntries(keys[5], n, func(i int) []any { return []any{"hset", keys[5], "m" + strconv.Itoa(i), owner(i)} })
	}
}

// waiters adds n places that end ms after the start of the test.
func (b *boundsTest) waiters(mode byte, n int, ms int64) {
	b.Helper()
	b.rdb.HSet(b.Context(), keys[4], "{mode}", string(mode))
	wait := func(i int) string { return "waits-" + owner(i) }
	b.addEntries(keys[2], n, func(i int) []any { return []any{"zadd", keys[2], i, wait(i)} })
	b.addEntries(keys[3], n, func(i int) []any { return []any{"zadd", keys[3], b.now + ms, wait(i)} })
	b.addEntries(keys[4], n, func(i int) []any { return []any{"hset", keys[4], wait(i), fmt.Sprintf("%c 0 1 ", mode)} })
	if mode == members {
		b.addEntries(keys[4], n, func(i int) []any { return []any{"hset", keys[4], "{" + wait(i), "m" + strconv.Itoa(i)} })
		b.addEntries(keys[4], n, func(i int) []any { return []any{"hset", keys[4], "}" + wait(i), ""} })
	}
}

func owner(i int) string { return "dead:" + strconv.Itoa(i) }

// countCommands runs a script once and checks its number of commands.
func (b *boundsTest) countCommands(what string, run func() error) int {
	b.Helper()
	require.NoError(b, b.rdb.ConfigResetStat(b.Context()).Err())
	require.NoError(b, run())
	stats, err := b.rdb.Info(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	n := 0
	for _, found := range regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls, _ := strconv.Atoi(found[2])
		n += calls
		assert.NotContains(b, []string{"hkeys", "hgetall", "hvals", "keys"}, found[1], "%s reads a whole key", what)
	}
	b.maxSeen = max(b.maxSeen, n)
	assert.LessOrEqual(b, n, maxCommands, what)
	return n
}

// runAcquire runs the acquire script once.
func (b *boundsTest) runAcquire(a request) (got reply) {
	b.Helper()
	b.countCommands(fmt.Sprintf("an acquire of %s", a.owner), func() (err error) {
		got, err = b.acquire(a, false)
		return err
	})
	return got
}

func (b *boundsTest) runRelease(owner string) (got int) {
	b.Helper()
	b.countCommands("a release by "+owner, func() (err error) {
		got, err = b.release(owner, 0, 0)
		return err
	})
	return got
}

func newRequest(mode byte, owner string) request {
	a := request{owner: owner, mode: mode, limit: 1, ttl: 600_000}
	if mode == members {
		a.members = "x"
	}
	return a
}

// TestExpiredHolders: expired holders block no request, and each script removes some.
func TestExpiredHolders(t *testing.T) {
	for _, mode := range []byte{permit, members} {
		b := newBoundsTest(t)
		b.holders(mode, hugeCount, -1)
		require.NoError(t, b.rdb.PExpire(t.Context(), keys[0], time.Hour).Err())
		for i := range 5 {
			a := newRequest(mode, fmt.Sprint("new:", i))
			require.Equal(t, 1, b.runAcquire(a).code, "expired leases block nobody")
			assert.Equal(t, 1, b.runRelease(a.owner))
		}
		assert.Less(t, b.rdb.ZCard(t.Context(), keys[0]).Val(), int64(hugeCount))
	}
}

// TestExpiredPermits: the permits of hundreds of expired leases block no request, although they
// are counted together with those of a live lease.
func TestExpiredPermits(t *testing.T) {
	b := newBoundsTest(t)
	const n = 400
	b.holders(permit, n, -1)
	b.addEntries(keys[4], n, func(i int) []any { return []any{"hset", keys[4], owner(i), fmt.Sprintf("p %d 5000/3 ", i+1)} })
	require.NoError(t, b.rdb.HSet(t.Context(), keys[4], "{extra}", 2*n).Err())
	require.NoError(t, b.rdb.PExpire(t.Context(), keys[0], time.Hour).Err())
	live, many := newRequest(permit, "live:1"), newRequest(permit, "new:1")
	live.limit, many.limit, many.permits = 5, 5, 4
	require.Equal(t, 1, b.runAcquire(live).code)
	require.Equal(t, 1, b.runAcquire(many).code)
	assert.Equal(t, "3", b.rdb.HGet(t.Context(), keys[4], "{extra}").Val())
	require.Equal(t, 0, b.runAcquire(newRequest(permit, "new:2")).code)
}

// TestOrphanedRecords: the set of leases has expired and left the records behind.
func TestOrphanedRecords(t *testing.T) {
	for _, mode := range []byte{permit, members} {
		b := newBoundsTest(t)
		b.holders(mode, hugeCount, 1)
		require.NoError(t, b.rdb.Del(t.Context(), keys[0]).Err())
		held, waits := newRequest(mode, "holds:1"), newRequest(mode, "waits:1")
		waits.place = 600_000
		require.Equal(t, 1, b.runAcquire(held).code)
		assert.Equal(t, int64(1), b.rdb.ZCard(t.Context(), keys[0]).Val())
		require.Equal(t, 0, b.runAcquire(waits).code)
		assert.LessOrEqual(t, b.rdb.HLen(t.Context(), keys[4]).Val(), int64(10), "without holders and waiters all records are removed at once")
	}
}

// TestOrphanedRecordsBesideALease is the same beside a lease that is held throughout.
func TestOrphanedRecordsBesideALease(t *testing.T) {
	for _, mode := range []byte{permit, members} {
		b := newBoundsTest(t)
		held, waits := newRequest(mode, "holds:1"), newRequest(mode, "waits:1")
		waits.place = 600_000
		require.Equal(t, 1, b.runAcquire(held).code)
		const n = 5_000
		b.holders(mode, n, 1)
		for i := range n {
			b.rdb.ZRem(t.Context(), keys[0], owner(i))
		}
		for range n {
			require.Equal(t, 0, b.runAcquire(waits).code)
			if b.rdb.HLen(t.Context(), keys[4]).Val() < 10 {
				break
			}
		}
		known := b.rdb.HKeys(t.Context(), keys[4]).Val()
		for _, field := range known {
			assert.Contains(t, []string{held.owner, waits.owner, "mode"}, strings.Trim(field, "{}"))
		}
		assert.Equal(t, 1, b.runRelease(held.owner))
		assert.Equal(t, 1, b.runAcquire(waits).code)
	}
}

// TestExpiredWaiters: expired places at the front of the queue delay no later request
// for long, and no script removes all of them at once.
func TestExpiredWaiters(t *testing.T) {
	for _, mode := range []byte{read, permit, members} {
		b := newBoundsTest(t)
		held := newRequest(mode, "holds:1")
		if mode == read {
			held.mode = write
		}
		require.Equal(t, 1, b.runAcquire(held).code)
		b.waiters(mode, 20_000, -1)
		assert.Equal(t, 1, b.runRelease(held.owner))
		got := reply{}
		for range 100 {
			if got = b.runAcquire(newRequest(mode, "new:1")); got.code == 1 {
				break
			}
			assert.Equal(t, 0, got.code)
		}
		assert.Equal(t, 1, got.code)
	}
}

// TestLongQueue: one script serves only some of the waiters.
func TestLongQueue(t *testing.T) {
	b := newBoundsTest(t)
	held := newRequest(write, "holds:1")
	require.Equal(t, 1, b.runAcquire(held).code)
	b.waiters(read, 20_000, 600_000)
	assert.Equal(t, 1, b.runRelease(held.owner))
	assert.Positive(t, b.rdb.ZCard(t.Context(), keys[0]).Val())
}

// TestNextExpiryOfManyHolders: the script finds the blocking lease without a scan of
// all holders.
func TestNextExpiryOfManyHolders(t *testing.T) {
	b := newBoundsTest(t)
	b.holders(permit, hugeCount, 600_000)
	require.NoError(t, b.rdb.ZAdd(t.Context(), keys[0], redis.Z{Member: owner(7), Score: float64(b.now + 900_000)}).Err())
	assert.InDelta(t, 900_000, b.runAcquire(newRequest(permit, "new:1")).ms, 60_000)
	a := newRequest(permit, "new:2")
	a.limit = 2
	assert.InDelta(t, 600_000, b.runAcquire(a).ms, 60_000)
}

// TestForceManyHolders revokes all leases in batches. Leases that are granted meanwhile
// stay.
func TestForceManyHolders(t *testing.T) {
	for _, mode := range []byte{permit, members} {
		b := newBoundsTest(t)
		b.holders(mode, hugeCount, 600_000)
		late := newRequest(mode, "late:1")
		late.limit = hugeCount + 1
		require.Equal(t, 1, b.runAcquire(late).code)
		total, runs := 0, 0
		for cursor := "0"; cursor != ""; runs++ {
			b.countCommands("a force", func() error {
				v, err := b.forceScript.Run(context.Background(), b.rdb, keys[:6], hugeCount, memory, cursor).Slice()
				if err != nil {
					return err
				}
				total += int(v[0].(int64))
				cursor = v[1].(string)
				return nil
			})
		}
		assert.Equal(t, hugeCount, total)
		assert.Equal(t, []string{late.owner}, b.rdb.ZRange(t.Context(), keys[0], 0, -1).Val())
		t.Logf("%c: %d runs", mode, runs)
	}
}

// TestForceLargeBatches: a batch has fewer holders if they hold many members.
func TestForceLargeBatches(t *testing.T) {
	b := newBoundsTest(t)
	const holders, each = 20, 10_000
	for i := range holders {
		names := make([]string, each)
		for j := range names {
			names[j] = fmt.Sprintf("%d of %d", j, i)
		}
		v, err := b.acquireScript.Run(t.Context(), b.rdb, keysFor(owner(i)),
			owner(i), 600_000, 0, memory, "m", each, "", strings.Join(names, "\n")).Slice()
		require.NoError(t, err)
		require.EqualValues(t, 1, v[0])
	}
	total, runs := 0, 0
	for cursor := "0"; cursor != ""; runs++ {
		v, err := b.forceScript.Run(t.Context(), b.rdb, keys[:6], int64(1)<<52, memory, cursor).Slice()
		require.NoError(t, err)
		total += int(v[0].(int64))
		cursor = v[1].(string)
		assert.LessOrEqual(t, v[0].(int64), int64(4))
	}
	assert.Equal(t, holders, total)
	assert.Zero(t, b.rdb.Exists(t.Context(), keys[0], keys[4], keys[5]).Val())
}

// TestUnchangedPollIsCheap: a poll without a change neither sends nor reads the
// members.
func TestUnchangedPollIsCheap(t *testing.T) {
	b := newBoundsTest(t)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("member %08d", i)
	}
	send := func(owner, packed string, place int) []any {
		v, err := b.acquireScript.Run(t.Context(), b.rdb, keysFor(owner),
			owner, 600_000, place, memory, "m", len(names), "", packed).Slice()
		require.NoError(t, err)
		return v
	}
	all := strings.Join(names, "\n")
	require.EqualValues(t, 1, send("a:1", all, 0)[0])
	for _, waiter := range []string{"b:1", "c:1"} {
		require.EqualValues(t, 0, send(waiter, all, 600_000)[0])
	}
	poll := func(waiter string) (v []any) {
		n := b.countCommands("a poll", func() error {
			v = send(waiter, "", 600_000)
			return nil
		})
		assert.Less(t, n, 50)
		stats, err := b.rdb.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		assert.NotContains(t, stats, "cmdstat_hmget:", "no member is read")
		return v
	}
	for _, waiter := range []string{"b:1", "c:1", "b:1", "c:1"} {
		v := poll(waiter)
		assert.InDelta(t, 600_000, v[2], 60_000)
		assert.EqualValues(t, 1, v[3])
	}
	assert.Equal(t, 1, b.runRelease("a:1"))
	assert.Equal(t, []string{"b:1"}, b.rdb.ZRange(t.Context(), keys[0], 0, -1).Val())
	assert.EqualValues(t, 0, send("c:1", "", 600_000)[0])
	stats, err := b.rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	assert.Contains(t, stats, "cmdstat_hmget:", "the blocking lease has gone")
	assert.InDelta(t, 600_000, poll("c:1")[2], 60_000)
	assert.Equal(t, 1, b.runRelease("b:1"))
	assert.Equal(t, []string{"c:1"}, b.rdb.ZRange(t.Context(), keys[0], 0, -1).Val())
}
