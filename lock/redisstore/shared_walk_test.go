package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWalkIsBounded(t *testing.T) {
	c := newCrowd(t)
	c.granted(wants("a:1", "x"))
	const most = 128
	for i := range most + 1 {
		a := wants(fmt.Sprintf("w:%03d", i), "x")
		a.members = append(a.members, fmt.Sprint("own", i))
		c.put(a, i)
	}
	assert.Zero(t, c.refused(wants("b:1", "y")), "nobody is in its way but the length of the queue")
	assert.EqualValues(t, 2, c.release("w:064", 0))
	c.granted(wants("b:1", "y"))
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "w:000"}, c.holders())
	assert.Len(t, c.queue(), most-1)
}

func TestAWalkReadsSoManyMembers(t *testing.T) {
	c := newCrowd(t)
	c.granted(wants("a:1", "x"))
	wait := func(i int) {
		a := wants(fmt.Sprintf("w:%d", i), "x")
		for m := range 9_999 {
			a.members = append(a.members, fmt.Sprintf("%d of %d", m, i))
		}
		c.put(a, i)
	}
	wait(0)
	wait(1)
	c.granted(wants("b:1", "y"))
	wait(2)
	assert.Zero(t, c.refused(wants("c:1", "z")), "30,000 names are waited for")
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "w:0"}, c.holders())
	assert.EqualValues(t, 1, c.release("w:0", 0))
	assert.Equal(t, []string{"b:1", "w:1"}, c.holders())
	c.granted(wants("c:1", "z"))
}

func TestAThousandReadersAreServedInTwoWalks(t *testing.T) {
	c := newCrowd(t)
	c.granted(writes("w:1"))
	for i := range 1002 {
		c.put(reads(fmt.Sprintf("r:%04d", i)), i)
	}
	assert.EqualValues(t, 1, c.release("w:1", 0))
	assert.Len(t, c.holders(), 1000)
	c.granted(reads("r:1001"))
	assert.Len(t, c.holders(), 1002)
}

// put gives an owner a place as the script does, but quickly.
func (c *crowd) put(a ask, ticket int) {
	c.Helper()
	end := float64(time.Now().UnixMilli() + placeMs)
	_, err := c.rdb.Pipelined(c.Context(), func(p redis.Pipeliner) error {
		p.ZAdd(c.Context(), c.k.queue, redis.Z{Member: a.owner, Score: float64(ticket)})
		p.ZAdd(c.Context(), c.k.places, redis.Z{Member: a.owner, Score: end})
		p.HSet(c.Context(), c.k.records, a.owner, fmt.Sprintf("%s 0 %d ", a.mode, len(a.members)))
		if a.mode == "m" {
			p.HSet(c.Context(), c.k.records, "{"+a.owner, packMembers(a.members))
		}
		for _, key := range []string{c.k.queue, c.k.places, c.k.records} {
			p.PExpire(c.Context(), key, 4*placeMs*time.Millisecond)
		}
		return nil
	})
	require.NoError(c, err)
}
