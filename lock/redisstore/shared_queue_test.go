package redisstore

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestReadersAreServedTogether(t *testing.T) {
	c := newSharedTable(t)
	signals := c.signals("r")
	tokens := []string{c.granted(writes("w:1"))}
	for i := range 20 {
		c.queued(reads(fmt.Sprintf("r:%02d", i)))
	}
	assert.EqualValues(t, 1, c.release("w:1", 0))
	var want []string
	for i := range 20 {
		owner := fmt.Sprintf("r:%02d", i)
		tokens = append(tokens, c.token(owner))
		want = append(want, message(owner, c.token(owner)))
		around(t, placeMs*time.Millisecond, c.end(owner), "the lease lasts for the rest of the place")
	}
	rising(t, tokens...)
	assert.Equal(t, want, signals(), "each reader gets a signal")
	assert.Len(t, c.holders(), 20)
	assert.Equal(t, tokens[20], c.rdb.Get(t.Context(), c.k.token).Val())
	around(t, memMs*time.Millisecond, c.pttl(c.k.token))
	assert.Zero(t, c.rdb.Exists(t.Context(), c.k.queue, c.k.places).Val())
}

// Only the first waiter notices that a lease has expired. When it leaves, the next waiter
// gets a signal, so that it polls.
func TestTheNextWaiterIsSignalledWhenTheFirstLeaves(t *testing.T) {
	for name, waits := range map[string]func(owner string) acquireArgs{
		"writer": writes,
		"permit": func(owner string) acquireArgs { return permits(owner, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newSharedTable(t)
			c.granted(waits("a:1"))
			for _, owner := range []string{"first:1", "second:1", "third:1"} {
				c.queued(waits(owner))
			}
			first, second, third := c.signals("first"), c.signals("second"), c.signals("third")
			assert.EqualValues(t, 2, c.release("first:1", 0))
			assert.EqualValues(t, 2, c.release("third:1", 0), "the third waiter is not the first")
			assert.Equal(t, []string{message("second:1", "0")}, second())
			assert.Empty(t, first())
			assert.Empty(t, third())
			_, _, head := c.queued(waits("second:1"))
			assert.True(t, head)
		})
	}
}

func TestPlacesOfASharedLockExpire(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		c.queued(second)
		last := writesLike(first)
		c.queued(last)
		c.queued(second)
		assert.Equal(t, []string{second.owner, last.owner}, c.queue(), "a poll keeps the position")
		sides := []string{c.k.queue, c.k.places, c.k.records}
		for _, key := range sides[:2] {
			around(t, 4*placeMs*time.Millisecond, c.pttl(key))
		}
		for i := range sides {
			for _, key := range sides {
				require.NoError(t, c.rdb.PExpire(t.Context(), key, 3*placeMs*time.Millisecond).Err())
			}
			c.queued(second)
			around(t, 3*placeMs*time.Millisecond, c.pttl(sides[i]), "most polls do not set the expiry")
			require.NoError(t, c.rdb.PExpire(t.Context(), sides[i], 2*placeMs*time.Millisecond-time.Second).Err())
			c.queued(second)
			for _, key := range sides {
				around(t, 4*placeMs*time.Millisecond, c.pttl(key), "the keys expire together")
			}
		}
	})
}

func TestExpiredPlacesOfASharedLockAreSkipped(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		var dead []string
		for i := range 20 {
			a := writesLike(first)
			a.owner = fmt.Sprintf("dead:%d", i)
			dead = append(dead, a.owner)
			c.queued(a)
		}
		c.kill(dead...)
		require.NoError(t, c.rdb.ZRem(t.Context(), c.k.places, dead[3]).Err(), "the owner is in the queue without a place")
		c.queued(second)
		assert.Contains(t, c.queue(), second.owner)
		assert.LessOrEqual(t, len(c.queue()), 5, "a script removes 16 expired places")
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestAWalkVisitsAtMost128Waiters(t *testing.T) {
	c := newSharedTable(t)
	c.granted(wants("a:1", "x"))
	const most = 128
	c.put(0, most+1, func(i int) acquireArgs {
		a := wants(fmt.Sprintf("w:%03d", i), "x")
		a.members = append(a.members, fmt.Sprint("own", i))
		return a
	})
	assert.Zero(t, c.refused(wants("b:1", "y")), "only the length of the queue blocks the request")
	assert.EqualValues(t, 2, c.release("w:064", 0))
	c.granted(wants("b:1", "y"))
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "w:000"}, c.holders())
	assert.Len(t, c.queue(), most-1)
}

func TestAWalkReadsAtMost20000Members(t *testing.T) {
	t.Parallel()
	c := newSharedTable(t)
	c.granted(wants("a:1", "x"))
	waiter := func(i int) acquireArgs {
		a := wants(fmt.Sprintf("w:%d", i), "x")
		for m := range 9_999 {
			a.members = append(a.members, fmt.Sprintf("%d of %d", m, i))
		}
		return a
	}
	c.put(0, 2, waiter)
	c.granted(wants("b:1", "y"))
	c.put(2, 1, waiter)
	assert.Zero(t, c.refused(wants("c:1", "z")), "the waiters have 30,000 names")
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "w:0"}, c.holders())
	assert.EqualValues(t, 1, c.release("w:0", 0))
	assert.Equal(t, []string{"b:1", "w:1"}, c.holders())
	c.granted(wants("c:1", "z"))
}

func TestReadersAreServedInSeveralWalks(t *testing.T) {
	t.Parallel()
	c := newSharedTable(t)
	c.granted(writes("w:1"))
	c.put(0, 502, func(i int) acquireArgs { return reads(fmt.Sprintf("r:%04d", i)) })
	assert.EqualValues(t, 1, c.release("w:1", 0))
	assert.Len(t, c.holders(), 500)
	c.granted(reads("r:0501"))
	assert.Len(t, c.holders(), 502)
}

// put writes the places of n owners, from a ticket on, directly and in one pipeline, which is faster than
// the script: all must be there before the first place ends.
func (c *sharedTable) put(from, n int, of func(ticket int) acquireArgs) {
	c.Helper()
	end := float64(time.Now().UnixMilli() + 3*placeMs)
	_, err := c.rdb.Pipelined(c.Context(), func(p redis.Pipeliner) error {
		for ticket := from; ticket < from+n; ticket++ {
			a := of(ticket)
			p.ZAdd(c.Context(), c.k.queue, redis.Z{Member: a.owner, Score: float64(ticket)})
			p.ZAdd(c.Context(), c.k.places, redis.Z{Member: a.owner, Score: end})
			p.HSet(c.Context(), c.k.records, a.owner, fmt.Sprintf("%s 0 %d ", a.mode, len(a.members)))
			if a.mode == "m" {
				p.HSet(c.Context(), c.k.records, "{"+a.owner, packMembers(a.members))
			}
		}
		for _, key := range []string{c.k.queue, c.k.places, c.k.records} {
			p.PExpire(c.Context(), key, 4*placeMs*time.Millisecond)
		}
		return nil
	})
	require.NoError(c, err)
}

// 10,000 members are sent and read once when the waiter enters the queue, and not with each
// of the three polls of a place.
func TestAPollDoesNotSendTheMembersAgain(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, &Options{Place: time.Second})
	names := make([]string, driver.MaxMembers)
	for i := range names {
		names[i] = fmt.Sprintf("member %08d", i)
	}
	r := moded("g", driver.Members, driver.Attrs{Members: names})
	r.TTL = 10 * time.Second // a place is at least a tenth of it
	holder := acquire(t, s, r)
	r.Owner = rand.Text() + ":2"
	done := startWait(t.Context(), t, s, r)

	stat := func(section, pattern string) int {
		info, err := rdb.Info(t.Context(), section).Result()
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindStringSubmatch(info)
		if found == nil {
			return 0
		}
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return n
	}
	scripts := func() int { return stat("commandstats", `cmdstat_evalsha:calls=(\d+)`) }
	before, reads := scripts(), stat("commandstats", `cmdstat_hmget:calls=(\d+)`)
	require.Eventually(t, func() bool { return scripts() >= before+3 }, long, 10*time.Millisecond, "the waiter polls")
	assert.Equal(t, reads, stat("commandstats", `cmdstat_hmget:calls=(\d+)`), "the polls read no member")
	input := stat("stats", `total_net_input_bytes:(\d+)`)
	before = scripts()
	require.Eventually(t, func() bool { return scripts() >= before+3 }, long, 10*time.Millisecond)
	assert.Less(t, stat("stats", `total_net_input_bytes:(\d+)`)-input, 50_000, "the polls send no members")
	lease, _ := handed(t, s, holder, done)
	require.NoError(t, s.Release(t.Context(), lease))
}

func TestAWaitingBatchThatLostItsPlaceSendsItsMembersAgain(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	s.placeFor = 3 * time.Second
	r := moded("g", driver.Members, driver.Attrs{Members: []string{"a", "b"}})
	holder := acquire(t, s, r)
	r.Owner = rand.Text() + ":2"
	done := startWait(t.Context(), t, s, r)
	k := s.sharedKeys(r.Key, r.Owner)
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.ZRem(t.Context(), k.queue, r.Owner)
		p.ZRem(t.Context(), k.places, r.Owner)
		p.HDel(t.Context(), k.records, r.Owner, "{"+r.Owner, "}"+r.Owner)
		return nil
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return rdb.ZScore(t.Context(), k.queue, r.Owner).Err() == nil }, long, 10*time.Millisecond)
	assert.Equal(t, "a\nb\n", rdb.HGet(t.Context(), k.records, "{"+r.Owner).Val())
	lease, took := handed(t, s, holder, done)
	assert.Less(t, took, soon)
	assert.Equal(t, map[string]string{"a": r.Owner, "b": r.Owner}, rdb.HGetAll(t.Context(), k.members).Val())
	require.NoError(t, s.Release(t.Context(), lease))
}

// The release needs more than one script.
func TestForceReleaseOfManyHolders(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	const n = 3000
	first := moded("s", driver.Permit, driver.Attrs{Limit: n + 1})
	acquire(t, s, first)
	k := s.sharedKeys(first.Key, "")
	end := rdb.ZRangeWithScores(t.Context(), k.lock, 0, 0).Val()[0].Score
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			owner := fmt.Sprint("other:", i)
			p.ZAdd(t.Context(), k.lock, redis.Z{Member: owner, Score: end})
			p.HSet(t.Context(), k.records, owner, fmt.Sprintf("p %d 9999 ", i+1))
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, s.ForceRelease(t.Context(), first.Key))
	assert.Zero(t, rdb.Exists(t.Context(), k.lock, k.records).Val())
	require.ErrorIs(t, s.ForceRelease(t.Context(), first.Key), driver.ErrNotHeld)
}
