package redisnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		require.NoError(t, c.send(t.Context(), &b))
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
