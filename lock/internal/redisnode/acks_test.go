package redisnode

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// WAIT answers for the last write of its connection. Without a write in this pipeline its
// answer means nothing.
func TestWithoutAWriteNothingIsConfirmed(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	c := newClient(t, rdb, Options{Acks: true})
	here, gone := t.Name()+"{here}", t.Name()+"{gone}"
	require.NoError(t, rdb.Set(t.Context(), here, "1", time.Minute).Err())
	t.Cleanup(func() { rdb.Del(t.Context(), here) })
	confirmed := func(keys ...*string) (int, error) {
		var b Batch
		args := b.Add(echo, 4)
		args[2], args[3] = 1, &here
		b.Acknowledge(keys, 0, 0)
		require.NoError(t, c.send(t.Context(), &b, MaxBatchTime))
		return b.Replicas(func(err error) error { return err })
	}
	_, err := confirmed(&gone)
	require.ErrorIs(t, err, errNotTouched)
	for _, keys := range [][]*string{{&here}, {&gone, &here}} {
		n, err := confirmed(keys...)
		require.NoError(t, err)
		assert.Zero(t, n)
	}
	assert.Equal(t, "1", rdb.Get(t.Context(), here).Val(), "the write changes nothing")
	assert.InDelta(t, time.Minute, rdb.PTTL(t.Context(), here).Val(), float64(50*time.Second))
	_, err = new(Batch).Replicas(func(err error) error { return err })
	require.ErrorIs(t, err, errNoWait)
}

// A server that waits for replicas says nothing meanwhile, for less than the time after which its connection
// counts as dead.
func TestReplicasAreNotWaitedForUntilTheConnectionSeemsDead(t *testing.T) {
	t.Parallel()
	var waited atomic.Value
	w := &testredis.Wire{Answer: func(args []string) string {
		if strings.EqualFold(args[0], "wait") {
			waited.Store(args[2])
		}
		return ":1\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{Acks: true})
	key := "k"
	var b Batch
	args := b.Add(echo, 4)
	args[2], args[3] = 1, &key
	b.Acknowledge([]*string{&key}, 1, time.Minute)
	require.NoError(t, c.send(t.Context(), &b, 20*time.Second))
	assert.Equal(t, "5000", waited.Load(), "a quarter of the time for the batch")
}
