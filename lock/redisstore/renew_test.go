package redisstore

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestInvalidLeasesDoNotDisturbTheirBatch(t *testing.T) {
	s, _ := sharedStore(t)
	leases := acquireAll(t, s, "k", 2)
	batch := []driver.Lease{{}, leases[0], {Request: driver.Request{Key: "k", Owner: "o"}}, leases[1]}
	out := make([]renewal.Outcome, len(batch))
	err := s.Renew(t.Context(), batch, out)
	require.ErrorIs(t, err, driver.ErrBadKey, "the error is that of the first invalid lease")
	require.ErrorContains(t, err, "2 of 4")
	assert.Equal(t, []renewal.Outcome{renewal.Unknown, renewal.Renewed, renewal.Unknown, renewal.Renewed}, out)
}

// A server may refuse scripts of several leases after their number was chosen. The script of one lease would renew only
// the first.
func TestAScriptOfOneLeaseIsNotSentForSeveral(t *testing.T) {
	s, rdb := sharedStore(t)
	leases := acquireAll(t, s, "k", 2)
	require.NoError(t, rdb.Del(t.Context(), s.lockKey("k1")).Err())
	items := make([]item, len(leases))
	for i := range leases {
		require.NoError(t, s.loadRenewal(&leases[i], &items[i]))
	}
	require.True(t, s.redis.RefusesSeveral(rdb.Eval(t.Context(), "return redis.error_reply('CROSSSLOT no')", nil).Err()))
	var b redisconn.Batch
	addRenewal(&b, items)
	n, err := s.redis.Master(t.Context(), items[0].Slot)
	require.NoError(t, err)
	require.NoError(t, s.redis.Send(t.Context(), n, &b))
	lost, err := b.Reply(0)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(2)}, lost)
}

func TestABatchIsOneRoundTrip(t *testing.T) {
	var sent counter
	rdb := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Dialer: sent.dial})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	leases := acquireAll(t, s, "k", 200)
	renew(t, s, leases[0]) // the server may not know the script yet
	writes, scripts := sent.writes.Load(), sent.scripts.Load()
	renew(t, s, leases...)
	assert.EqualValues(t, 1, sent.writes.Load()-writes)
	assert.EqualValues(t, 8, sent.scripts.Load()-scripts, "each script renews 25 leases")

	writes, scripts = sent.writes.Load(), sent.scripts.Load()
	for i := range leases[:50] {
		leases[i].TTL += time.Duration(i%2) * time.Minute
	}
	renew(t, s, leases[:50]...)
	assert.EqualValues(t, 1, sent.writes.Load()-writes)
	assert.EqualValues(t, 2, sent.scripts.Load()-scripts, "one script for each TTL, in any order of the leases")
	for _, l := range leases[:4] {
		around(t, l.TTL, rdb.PTTL(t.Context(), s.lockKey(l.Key)).Val(), "each lease gets its own TTL")
	}
}

// counter counts the writes to its connections, and the scripts in them.
type counter struct{ writes, scripts atomic.Int64 }

func (c *counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return countedConn{conn, c}, err
}

type countedConn struct {
	net.Conn
	counter *counter
}

func (c countedConn) Write(p []byte) (int, error) {
	c.counter.writes.Add(1)
	c.counter.scripts.Add(int64(bytes.Count(p, []byte("evalsha"))))
	return c.Conn.Write(p)
}

func TestRenewAllocatesLittle(t *testing.T) {
	s, _ := sharedStore(t)
	leases := acquireAll(t, s, "k", 200)
	out := make([]renewal.Outcome, len(leases))
	perLease := testing.AllocsPerRun(20, func() {
		clear(out)
		if err := s.Renew(t.Context(), leases, out); err != nil {
			t.Error(err)
		}
	}) / float64(len(leases))
	assert.Less(t, perLease, 0.5, "allocations per lease")
}
