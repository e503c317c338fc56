package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// A queued waiter whose polls the server refuses tells why.
func TestAWaiterTellsWhyTheServerRefusesIt(t *testing.T) {
	t.Parallel()
	for reason, refuse := range map[string][]any{
		"NOPERM":     {"acl", "setuser", "default", "-evalsha", "-eval"},
		"NOREPLICAS": {"config", "set", "min-replicas-to-write", "1"},
		"READONLY":   {"replicaof", "127.0.0.1", "1"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			rdb := testredis.Start(t).Client(t)
			s := newStore(t, rdb, &Options{Place: 300 * time.Millisecond, Timeout: soon})
			r := driver.Request{Key: "k", Owner: "c:1", TTL: 3 * time.Second}
			_, err := s.Acquire(t.Context(), r)
			require.NoError(t, err)
			r.Owner = "c:2"
			done := make(chan error, 1)
			go func() {
				_, err := s.Wait(t.Context(), r, func() {})
				done <- err
			}()
			require.Eventually(t, func() bool {
				info, err := s.Inspect(t.Context(), "k")
				return err == nil && info.Waiting == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, rdb.Do(t.Context(), refuse...).Err())
			assert.ErrorContains(t, <-done, reason)
		})
	}
}

// A dead waiter delays others for 10 s at most, whatever the TTL. So its place is too short for
// the margin of a holder with a long TTL, and a lock that is handed over gets its full TTL first.
func TestL2AHandedOverLockWithALongTTL(t *testing.T) {
	s, rdb := sharedStore(t)
	r := driver.Request{Key: "k", Owner: "c:1", TTL: 10 * time.Minute}
	assert.LessOrEqual(t, s.place(r.TTL), 10*time.Second)
	holder, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	r.Owner = "c:2"
	done := make(chan driver.Lease, 1)
	go func() {
		l, err := s.Wait(t.Context(), r, func() {})
		assert.NoError(t, err)
		done <- l
	}()
	require.Eventually(t, func() bool {
		info, err := s.Inspect(t.Context(), "k")
		return err == nil && info.Waiting == 1
	}, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, s.Release(t.Context(), holder))
	l := <-done
	assert.Greater(t, time.Until(l.Sent.Add(r.TTL)), r.TTL/2)
	assert.Greater(t, rdb.PTTL(t.Context(), s.lockKey("k")).Val(), r.TTL/2)
}
