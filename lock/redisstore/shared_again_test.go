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
