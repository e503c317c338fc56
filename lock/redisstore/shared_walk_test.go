package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
