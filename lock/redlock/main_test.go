package redlock

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// shared is the server of all tests that do not affect others. Each test has its own prefix.
var shared testredis.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(m))
}

// newStore returns a store with a prefix, which is closed when the test ends.
func newStore(t testing.TB, rdb redis.UniversalClient, prefix string) *Store {
	t.Helper()
	s, err := New(rdb, &Options{Prefix: prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// TestContract uses a server that wants literal keys.
func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, shared.Server(t).Client(t), &testredis.Hosted{Literal: true})
}

func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	contract(t, testredis.StartCluster(t, 3, false).Client(t), nil)
}

func contract(t *testing.T, rdb redis.UniversalClient, hosted *testredis.Hosted) {
	t.Helper()
	open := func(t *testing.T, prefix string) *Store {
		o := &Options{Prefix: prefix}
		if hosted != nil {
			o.Instrument = hosted.Attach
		}
		s, err := New(rdb, o)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	name := func(s driver.Store, key string) string { return s.(*Store).prefix + key }
	locktest.TestStore(t, locktest.Config{
		New:        func(t *testing.T) driver.Store { return open(t, rand.Text()+":") },
		Another:    func(t *testing.T, s driver.Store) driver.Store { return open(t, s.(*Store).prefix) },
		TTL:        3 * time.Second,
		Explains:   true,
		Tokenless:  true,
		NoMetadata: true,
		Delete: func(t *testing.T, s driver.Store, key string) {
			require.NoError(t, rdb.Del(t.Context(), name(s, key)).Err())
		},
		Spoil: func(t *testing.T, s driver.Store, key string) { spoil(t, rdb, name(s, key)) },
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return rdb.Type(t.Context(), name(s, key)).Val() == "list"
		},
	})
}

// spoil replaces a key by a list, in one transaction.
func spoil(t testing.TB, rdb redis.UniversalClient, key string) {
	t.Helper()
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		p.RPush(t.Context(), key, "not a lock")
		return nil
	})
	require.NoError(t, err)
}

// The hooks of the user see each request.
func TestAHookSeesEachRequest(t *testing.T) {
	t.Parallel()
	var calls testredis.Counter
	rdb := shared.Server(t).Client(t)
	s, err := New(rdb, &Options{Prefix: rand.Text(), Instrument: calls.Attach})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	l, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: rand.Text(), TTL: time.Minute})
	require.NoError(t, err)
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)))
	require.NoError(t, s.Release(t.Context(), l))
	for _, script := range []*redisnode.Script{acquireScript, renewScript, releaseScript} {
		assert.Positive(t, calls.Count(script.Digest()))
	}
}
