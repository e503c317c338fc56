package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestRenewAThousandOfWhichSomeAreGone(t *testing.T) {
	s, rdb := sharedStore(t)
	leases := acquireAll(t, s, "k", 1000)
	want := make([]renewal.Outcome, len(leases))
	for i := range want {
		want[i] = renewal.Renewed
	}
	for n, i := range rand.Perm(len(leases))[:137] {
		want[i] = renewal.Lost
		key := s.lockKey(leases[i].Key)
		require.NoError(t, rdb.Del(t.Context(), key).Err())
		if n%2 == 0 { // taken by another since
			acquire(t, s, request(leases[i].Key))
		}
	}
	assert.Equal(t, want, renew(t, s, leases...))
}

func TestRenewGivesEachItsOwnTTL(t *testing.T) {
	s, rdb := sharedStore(t)
	leases := make([]lock.Lease, 0, 200)
	for i := range cap(leases) {
		r := request(fmt.Sprint("k", i))
		r.TTL = time.Duration(1+i%7) * time.Minute
		leases = append(leases, acquire(t, s, r))
	}
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, l := range leases {
			p.PExpire(t.Context(), s.lockKey(l.Key), 30*time.Second)
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), s.lockKey(leases[3].Key)).Err())
	for i, outcome := range renew(t, s, leases...) {
		if i == 3 {
			assert.Equal(t, renewal.Lost, outcome)
			continue
		}
		assert.Equal(t, renewal.Renewed, outcome, i)
		around(t, leases[i].TTL, rdb.PTTL(t.Context(), s.lockKey(leases[i].Key)).Val())
	}
}

func TestRenewWhatRepeats(t *testing.T) {
	s, rdb := sharedStore(t)
	old := acquire(t, s, request("k"))
	require.NoError(t, rdb.Del(t.Context(), s.lockKey("k")).Err())
	r := request("k")
	r.TTL = time.Hour
	young := acquire(t, s, r)
	batch := make([]lock.Lease, 0, 100)
	want := make([]renewal.Outcome, 0, 100)
	for i := range cap(batch) {
		if i%3 == 0 {
			batch, want = append(batch, old), append(want, renewal.Lost)
		} else {
			batch, want = append(batch, young), append(want, renewal.Renewed)
		}
	}
	assert.Equal(t, want, renew(t, s, batch...))
	around(t, time.Hour, rdb.PTTL(t.Context(), s.lockKey("k")).Val())
}

func TestWhatIsNoLockDoesNotDisturbItsMates(t *testing.T) {
	s, rdb := sharedStore(t)
	leases := acquireAll(t, s, "k", 5)
	spoil(t, rdb, s.lockKey("k2"))
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed, renewal.Lost, renewal.Renewed, renewal.Renewed}, renew(t, s, leases...))
	assert.EqualValues(t, 1, rdb.LLen(t.Context(), s.lockKey("k2")).Val())

	batch := append([]lock.Lease{{}}, leases[0], lock.Lease{Request: lock.Request{Key: "k", Owner: "o"}}, leases[1])
	out := make([]renewal.Outcome, len(batch))
	err := s.Renew(t.Context(), batch, out)
	require.ErrorIs(t, err, lock.ErrBadKey, "of the first that is bad")
	require.ErrorContains(t, err, "2 of 4")
	assert.Equal(t, []renewal.Outcome{renewal.Unknown, renewal.Renewed, renewal.Unknown, renewal.Renewed}, out)
}

func TestABatchIsOneRoundTrip(t *testing.T) {
	s, _ := sharedStore(t)
	leases := acquireAll(t, s, "k", 200)
	renew(t, s, leases[0]) // the server may not know the script yet
	var trips counter
	s.one.rdb.AddHook(&trips)
	renew(t, s, leases...)
	assert.Equal(t, counter{pipelines: 1, commands: 8}, trips, "scripts of 25 leases")

	trips = counter{}
	for i := range leases[:50] {
		leases[i].TTL += time.Duration(i%2) * time.Minute
	}
	renew(t, s, leases[:50]...)
	assert.Equal(t, counter{pipelines: 1, commands: 2}, trips, "one for each TTL, in whatever order they come")
}

// counter counts what a client sends.
type counter struct{ pipelines, commands int }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines++
		c.commands += len(cmds)
		return next(ctx, cmds)
	}
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
