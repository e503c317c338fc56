package redisson

import (
	"crypto/rand"
	"errors"
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

func TestContract(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{KindLock, KindFencedLock, KindFairLock} {
		t.Run(kind.String(), func(t *testing.T) { t.Parallel(); contract(t, shared.Server(t).Client(t), kind) })
	}
}

// contract runs the contract on stores of one kind.
func contract(t *testing.T, rdb redis.UniversalClient, kind Kind) {
	t.Helper()
	_, cluster := rdb.(*redis.ClusterClient)
	open := func(t *testing.T, prefix string) driver.Store {
		o := &Options{Kind: kind, Prefix: prefix, WatchdogTTL: driver.MaxTTL}
		if !cluster { // a script touches no key outside KEYS, except keys that no client can name in advance
			o.Instrument = (&testredis.Hosted{Except: []string{":rwlock_timeout:%d+$", "^leasewheel_metadata:"}}).Attach
		}
		return newStore(t, rdb, o)
	}
	name := func(s driver.Store, key string) string { return s.(*Store).options.Prefix + key }
	c := locktest.Config{
		New:       func(t *testing.T) driver.Store { return open(t, rand.Text()+":") },
		Another:   func(t *testing.T, s driver.Store) driver.Store { return open(t, s.(*Store).options.Prefix) },
		TTL:       3 * time.Second,
		Tokenless: kind != KindFencedLock,
		Delete: func(t *testing.T, s driver.Store, key string) {
			require.NoError(t, rdb.Del(t.Context(), name(s, key)).Err())
		},
		Spoil: func(t *testing.T, s driver.Store, key string) {
			_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Del(t.Context(), name(s, key))
				p.RPush(t.Context(), name(s, key), "not a lock")
				return nil
			})
			require.NoError(t, err)
		},
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return rdb.Type(t.Context(), name(s, key)).Val() == "list"
		},
		Waiting: func(t *testing.T, s driver.Store, key string) int {
			w := s.(*Store).wakeups
			return w.count(lockChannel(name(s, key))) + w.count(rwChannel(name(s, key)))
		},
	}
	if kind == KindLock {
		c.Modes = []driver.Mode{driver.Read, driver.Write}
	}
	c.NoBraces = cluster
	if kind == KindFairLock {
		c.Waiting = func(t *testing.T, s driver.Store, key string) int {
			info, err := s.(*Store).Inspect(t.Context(), key)
			require.NoError(t, err)
			return info.Waiting
		}
	}
	locktest.TestStore(t, c)
}

// newStore returns a store that is closed when the test ends.
func newStore(t testing.TB, rdb redis.UniversalClient, o *Options) *Store {
	t.Helper()
	s, err := New(rdb, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// A server that wants literal keys refuses the scripts, and the error names the remedy.
func TestAServerThatWantsLiteralKeys(t *testing.T) {
	t.Parallel()
	s, _ := own(t, Options{Instrument: (&testredis.Hosted{Literal: true}).Attach})
	_, err := s.Acquire(t.Context(), request(ann, "k", driver.Exclusive))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "set its parameter script_check_enable to 0")
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
	l.Unanswered = true // so that a script releases it
	require.NoError(t, s.Release(t.Context(), l))
	for _, script := range []*redisnode.Script{acquireScript, renewScript, releaseScript} {
		assert.Positive(t, calls.Count(script.Digest()))
	}
}
