package redisstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

// moded returns a request for a key in a mode, by a new owner.
func moded(key string, mode driver.Mode, extra driver.Attrs) driver.Request {
	r := request(key)
	r.Mode, r.Attrs = mode, &extra
	return r
}

// allModes returns a request for a separate key in each mode.
func allModes(key string) []driver.Request {
	return []driver.Request{
		request(key + "x"),
		moded(key+"r", driver.Read, driver.Attrs{}),
		moded(key+"w", driver.Write, driver.Attrs{}),
		moded(key+"p", driver.Permit, driver.Attrs{Limit: 1}),
		moded(key+"m", driver.Members, driver.Attrs{Members: []string{"a", "b"}}),
	}
}

func TestStoreInAllModes(t *testing.T) {
	s, rdb := sharedStore(t)
	storeInAllModes(t, s)
	assert.Len(t, keysOf(t, rdb, s.prefix), 5, "only the last tokens remain")
}

func storeInAllModes(t *testing.T, s *Store) {
	for _, r := range allModes("k") {
		if r.Mode != driver.Exclusive {
			r.Attrs.Metadata = "of any bytes\n 17 "
		}
		l := acquire(t, s, r)
		again := acquire(t, s, r)
		assert.Equal(t, l.Token, again.Token, "%v", r.Mode)
		assert.True(t, again.Sent.After(l.Sent), "%v", r.Mode)
		other := r
		other.Owner = rand.Text() + ":1"
		if r.Mode == driver.Read {
			other.Mode = driver.Write
		}
		_, err := s.Acquire(t.Context(), other)
		var held *driver.HeldError
		require.ErrorAs(t, err, &held, "%v", r.Mode)
		around(t, ttl30, held.ExpiresIn)
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
		require.NoError(t, s.Release(t.Context(), l))
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
		next := acquire(t, s, other)
		assert.Greater(t, next.Token, l.Token)
		next.Unanswered = true
		require.NoError(t, s.Release(t.Context(), next))
		_, err = s.Acquire(t.Context(), other)
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		require.NotErrorAs(t, err, &held, "the owner has a tombstone")
		s.forget(t, next)
	}
}

// forget deletes the tombstone of an owner.
func (s *Store) forget(t *testing.T, l driver.Lease) {
	_, err := s.redis.Run(t.Context(), redisnode.NewScript("return redis.call('DEL', KEYS[1])"), l.Owner, []any{nil, nil, 1, &s.keys(l.Key, l.Owner).tombstone})
	require.NoError(t, err)
}

func TestRenewABatchOfAllModes(t *testing.T) {
	s, rdb := sharedStore(t)
	batchOfAllModes(t, s, rdb)
}

func batchOfAllModes(t *testing.T, s *Store, rdb redis.Cmdable) {
	var leases []driver.Lease
	var want []renewal.Outcome
	for i := range 3 * rediskit.LeasesPerScript {
		for _, r := range allModes(fmt.Sprint("k", i)) {
			l := acquire(t, s, r)
			outcome := renewal.Renewed
			switch len(leases) % 7 {
			case 2:
				require.NoError(t, rdb.Del(t.Context(), s.lockKey(r.Key)).Err())
				outcome = renewal.Lost
			case 4:
				l.State = nil
			case 5:
				l.TTL *= 2
			}
			leases, want = append(leases, l), append(want, outcome)
		}
	}
	assert.Equal(t, want, renew(t, s, leases...))
	slices.Reverse(leases)
	slices.Reverse(want)
	assert.Equal(t, want, renew(t, s, leases...))
}

func TestTenThousandMembers(t *testing.T) {
	s, rdb := sharedStore(t)
	members := make([]string, driver.MaxMembers)
	for i := range members {
		members[i] = fmt.Sprintf("member %05d", i)
	}
	r := moded("k", driver.Members, driver.Attrs{Members: members})
	l := acquire(t, s, r)
	one := moded("k", driver.Members, driver.Attrs{Members: members[9_999:]})
	_, err := s.Acquire(t.Context(), one)
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	other := acquire(t, s, moded("k", driver.Members, driver.Attrs{Members: []string{"other"}}))
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed}, renew(t, s, l, other))
	require.NoError(t, s.Release(t.Context(), l))
	assert.Equal(t, []string{"other"}, rdb.HKeys(t.Context(), s.sharedKeys("k", "").members).Val())
	acquire(t, s, one)
}

// The store accepts the largest lock.Batch.
func TestMembersOfAMebibyte(t *testing.T) {
	s, _ := sharedStore(t)
	members := make([]string, driver.MaxMemberBytes/driver.MaxKeyLen)
	for i := range members {
		members[i] = fmt.Sprintf("%0*d", driver.MaxKeyLen, i)
	}
	r := moded("k", driver.Members, driver.Attrs{Members: members})
	l := acquire(t, s, r)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
	require.NoError(t, s.Release(t.Context(), l))
}

func TestSharedRequestsAreRefusedWithoutIO(t *testing.T) {
	w := &testredis.Wire{Answer: func([]string) string { return "-ERR it was asked\r\n" }}
	s := newStore(t, w.Client(t, redis.Options{}), nil)
	many := make([]string, driver.MaxMembers+1)
	for i := range many {
		many[i] = fmt.Sprintf("%05d", i)
	}
	for want, r := range map[string]driver.Request{
		"unsupported":              moded("k", driver.Members+1, driver.Attrs{}),
		"limit":                    moded("k", driver.Permit, driver.Attrs{Limit: 0}),
		"1 to 10000 members":       moded("k", driver.Members, driver.Attrs{}),
		"10000 members, got 10001": moded("k", driver.Members, driver.Attrs{Members: many}),
		"is empty":                 moded("k", driver.Members, driver.Attrs{Members: []string{"", "a"}}),
		"1048577 bytes in all":     moded("k", driver.Members, driver.Attrs{Members: []string{strings.Repeat("x", driver.MaxMemberBytes+1)}}),
	} {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, want)
		assert.Equal(t, r.Mode == driver.Members, errors.Is(err, driver.ErrBadMembers), want)
		_, err = s.Wait(t.Context(), r, func() {})
		require.ErrorContains(t, err, want)
	}
	assert.Zero(t, w.Evals.Load())
}

func TestSharedLocksOnACluster(t *testing.T) {
	t.Parallel()
	rdb := testredis.StartCluster(t, 3, false).Client(t)
	s := newStore(t, rdb, nil)
	storeInAllModes(t, s)
	batchOfAllModes(t, s, rdb)
}

func TestInspectAndForceSharedLocks(t *testing.T) {
	s, rdb := sharedStore(t)
	for i, r := range allModes("k")[1:] {
		r.Attrs.Metadata = "of a test\n"
		l := acquire(t, s, r)
		info, seen, err := s.inspectShared(t.Context(), r.Key)
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		around(t, ttl30, info.Holders[0].ExpiresIn)
		info.Holders[0].ExpiresIn = 0
		want := driver.Holder{Mode: r.Mode, Token: l.Token, Metadata: "of a test\n", Client: driver.ClientName(l.Owner), Members: len(r.Members())}
		if r.Mode == driver.Permit {
			want.Permits = 1
		}
		assert.Equal(t, driver.Info{Holders: []driver.Holder{want}, Held: 1, Token: l.Token}, info)
		assert.Equal(t, l.Token, seen)

		require.NoError(t, rdb.Del(t.Context(), s.keys(r.Key, "").token).Err())
		if i%2 == 0 {
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		}
		require.NoError(t, s.ForceRelease(t.Context(), r.Key), "the server has lost the last token")
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
		require.ErrorIs(t, s.ForceRelease(t.Context(), r.Key), driver.ErrNotHeld)
	}
}
