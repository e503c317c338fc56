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
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// moded asks for a key in a mode, by a new owner.
func moded(key string, mode lock.Mode, extra lock.Extra) lock.Request {
	r := request(key)
	r.Mode, r.Extra = mode, &extra
	return r
}

// allModes asks for a key of its own in each mode.
func allModes(key string) []lock.Request {
	return []lock.Request{
		request(key + "x"),
		moded(key+"r", lock.Read, lock.Extra{}),
		moded(key+"w", lock.Write, lock.Extra{}),
		moded(key+"p", lock.Permit, lock.Extra{Limit: 1}),
		moded(key+"m", lock.Members, lock.Extra{Members: []string{"a", "b"}}),
	}
}

func TestAStoreInAllModes(t *testing.T) {
	s, rdb := sharedStore(t)
	storeInAllModes(t, s)
	assert.Len(t, keysOf(t, rdb, s.prefix), 5, "nothing is left but the last tokens")
}

func storeInAllModes(t *testing.T, s *Store) {
	for _, r := range allModes("k") {
		if r.Mode != lock.Exclusive {
			r.Extra.Metadata = "of any bytes\n 17 "
		}
		l := acquire(t, s, r)
		assert.Equal(t, l, acquire(t, s, r), "%v", r.Mode)
		other := r
		other.Owner = rand.Text() + ":1"
		if r.Mode == lock.Read {
			other.Mode = lock.Write
		}
		_, err := s.Acquire(t.Context(), other)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held, "%v", r.Mode)
		around(t, ttl30, held.ExpiresIn)
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
		require.NoError(t, s.Release(t.Context(), l))
		require.ErrorIs(t, s.Release(t.Context(), l), lock.ErrNotHeld)
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
		next := acquire(t, s, other)
		assert.Greater(t, next.Token, l.Token)
		next.Unanswered = true
		require.NoError(t, s.Release(t.Context(), next))
		_, err = s.Acquire(t.Context(), other)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotErrorAs(t, err, &held, "it was given up")
		s.forget(t, next)
	}
}

// forget deletes the tombstone of an owner.
func (s *Store) forget(t *testing.T, l lock.Lease) {
	_, err := s.run(t.Context(), newScript("return redis.call('DEL', KEYS[1])"), l.Owner, nil, nil, 1, &s.keys(l.Key, l.Owner).tombstone)
	require.NoError(t, err)
}

func TestABatchOfAllModes(t *testing.T) {
	s, rdb := sharedStore(t)
	batchOfAllModes(t, s, rdb)
}

func batchOfAllModes(t *testing.T, s *Store, rdb redis.Cmdable) {
	var leases []lock.Lease
	var want []renewal.Outcome
	for i := range 3 * keysPerScript {
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
	members := make([]string, lock.MaxMembers)
	for i := range members {
		members[i] = fmt.Sprintf("member %05d", i)
	}
	r := moded("k", lock.Members, lock.Extra{Members: members})
	l := acquire(t, s, r)
	one := moded("k", lock.Members, lock.Extra{Members: members[9_999:]})
	_, err := s.Acquire(t.Context(), one)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	other := acquire(t, s, moded("k", lock.Members, lock.Extra{Members: []string{"other"}}))
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed}, renew(t, s, l, other))
	require.NoError(t, s.Release(t.Context(), l))
	assert.Equal(t, []string{"other"}, rdb.HKeys(t.Context(), s.sharedKeys("k", "").members).Val())
	acquire(t, s, one)
}

// What a lock.Batch may have, the store takes.
func TestMembersOfAMebibyte(t *testing.T) {
	s, _ := sharedStore(t)
	members := make([]string, lock.MaxMemberBytes/lock.MaxKeyLen)
	for i := range members {
		members[i] = fmt.Sprintf("%0*d", lock.MaxKeyLen, i)
	}
	r := moded("k", lock.Members, lock.Extra{Members: members})
	l := acquire(t, s, r)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
	require.NoError(t, s.Release(t.Context(), l))
}

func TestRequestsThatAreRefusedBeforeAnyIO(t *testing.T) {
	w := &wire{answer: func([]string) string { return "-ERR it was asked\r\n" }}
	s := newStore(t, w.client(t, redis.Options{}), nil)
	many := make([]string, lock.MaxMembers+1)
	for i := range many {
		many[i] = fmt.Sprintf("%05d", i)
	}
	for want, r := range map[string]lock.Request{
		"unsupported":              moded("k", lock.Members+1, lock.Extra{}),
		"limit":                    moded("k", lock.Permit, lock.Extra{Limit: 0}),
		"1 to 10000 members":       moded("k", lock.Members, lock.Extra{}),
		"10000 members, got 10001": moded("k", lock.Members, lock.Extra{Members: many}),
		"is empty":                 moded("k", lock.Members, lock.Extra{Members: []string{"", "a"}}),
		"1048577 bytes long":       moded("k", lock.Members, lock.Extra{Members: []string{strings.Repeat("x", lock.MaxMemberBytes+1)}}),
	} {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, want)
		assert.Equal(t, r.Mode == lock.Members, errors.Is(err, lock.ErrBadMembers), want)
		_, err = s.Wait(t.Context(), r)
		require.ErrorContains(t, err, want)
	}
	assert.Zero(t, w.evals.Load())
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
		r.Extra.Metadata = "of a test\n"
		l := acquire(t, s, r)
		info, seen, err := s.inspectShared(t.Context(), r.Key)
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		around(t, ttl30, info.Holders[0].ExpiresIn)
		info.Holders[0].ExpiresIn = 0
		want := lock.Holder{Mode: r.Mode, Token: l.Token, Metadata: "of a test\n", Members: len(r.Members())}
		assert.Equal(t, lock.Info{Holders: []lock.Holder{want}, Held: 1, Token: l.Token}, info)
		assert.Equal(t, l.Token, seen)

		require.NoError(t, rdb.Del(t.Context(), s.keys(r.Key, "").token).Err())
		if i%2 == 0 {
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		}
		require.NoError(t, s.ForceRelease(t.Context(), r.Key), "though the last token is forgotten")
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
		require.ErrorIs(t, s.ForceRelease(t.Context(), r.Key), lock.ErrNotHeld)
	}
}
