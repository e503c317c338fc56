package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// shared is the server of all tests that do not affect others. Each test has its own prefix.
var shared testredis.Shared

// instead runs instead of the tests, if a test has started this process.
var instead func()

func TestMain(m *testing.M) {
	if instead != nil {
		instead()
		return
	}
	testproxy.ServeNames()
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(m))
}

// TestContract uses a Redis user who has only the rights that the package comment names, and a server that refuses what
// hosted ones refuse.
func TestContract(t *testing.T) {
	t.Parallel()
	admin := shared.Server(t).Client(t)
	contract(t, admin, limited(t, admin), new(testredis.Hosted), locktest.AllModes)
}

// A server that wants literal keys gets such scripts after it has refused others.
func TestContractOnAServerThatWantsLiteralKeys(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	contract(t, rdb, rdb, &testredis.Hosted{Literal: true}, locktest.AllModes)
}

// contract runs the contract on stores with the connections of user. rdb does what no store
// does. hosted may be nil.
func contract(t *testing.T, rdb, user redis.UniversalClient, hosted *testredis.Hosted, modes []driver.Mode) {
	t.Helper()
	open := func(t *testing.T, prefix string) *Store {
		o := &Options{Prefix: prefix}
		if hosted != nil {
			o.Instrument = hosted.Attach
		}
		return newStore(t, user, o)
	}
	locktest.TestStore(t, locktest.Config{
		New:      func(t *testing.T) driver.Store { return open(t, "lw:"+rand.Text()+":") },
		TTL:      3 * time.Second,
		Explains: true,
		Modes:    modes,
		Delete: func(t *testing.T, s driver.Store, key string) {
			require.NoError(t, rdb.Del(t.Context(), s.(*Store).lockKey(key)).Err())
		},
		Waiting: func(t *testing.T, s driver.Store, key string) int {
			info, err := s.(*Store).Inspect(t.Context(), key)
			require.NoError(t, err)
			return info.Waiting
		},
		Die: func(t *testing.T, s driver.Store, r driver.Request) {
			_, err := s.(*Store).sendAcquire(t.Context(), r, s.(*Store).place(r.TTL))
			require.NoError(t, err)
		},
		Another: func(t *testing.T, s driver.Store) driver.Store {
			return open(t, s.(*Store).prefix)
		},
		Spoil: func(t *testing.T, s driver.Store, key string) {
			spoil(t, rdb, s.(*Store).lockKey(key))
		},
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return rdb.Type(t.Context(), s.(*Store).lockKey(key)).Val() == "list"
		},
	})
}

// spoil replaces a key by a list, in one transaction, because the acquire of a quorum may
// still reach this server after it has a majority.
func spoil(t testing.TB, rdb redis.UniversalClient, key string) {
	t.Helper()
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		p.RPush(t.Context(), key, "not a lock")
		return nil
	})
	require.NoError(t, err)
}

// newStore returns a store with the options o, or with its own prefix if o is nil. It is
// closed when the test ends.
func newStore(t testing.TB, rdb redis.UniversalClient, o *Options) *Store {
	t.Helper()
	if o == nil {
		o = &Options{Prefix: rand.Text() + ":", Timeout: long}
	}
	s, err := New(rdb, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// sharedStore returns a store on the shared server, and a client of that server.
func sharedStore(t testing.TB) (*Store, *redis.Client) {
	t.Helper()
	rdb := shared.Server(t).Client(t)
	return newStore(t, rdb, nil), rdb
}

const ttl30 = 30 * time.Second

// request returns a request for a key by a new owner.
func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: rand.Text() + ":1", TTL: ttl30}
}

func acquire(t testing.TB, s *Store, r driver.Request) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, r, l.Request)
	return l
}

// acquireAll acquires prefix0 to prefix(n-1).
func acquireAll(t testing.TB, s *Store, prefix string, n int) []driver.Lease {
	t.Helper()
	leases := make([]driver.Lease, n)
	for i := range leases {
		leases[i] = acquire(t, s, request(fmt.Sprint(prefix, i)))
	}
	return leases
}

// enqueue puts a waiter into the queue.
func enqueue(t testing.TB, s *Store, rdb *redis.Client, r driver.Request) {
	t.Helper()
	err := redis.NewScript(acquireScript.Source()).Run(t.Context(), rdb, all(s.keys(r.Key, r.Owner)), r.Owner, ttlMs, placeMs).Err()
	require.NoError(t, err)
}

// all returns the keys in the order of the scripts.
func all(k *keys) []string { return []string{k.lock, k.token, k.queue, k.places, k.tombstone} }

func renew(t testing.TB, s *Store, leases ...driver.Lease) []renewal.Outcome {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(t, s.Renew(t.Context(), leases, out))
	return lostAlone(out)
}

// lostAlone returns outcomes without the reasons of losses.
func lostAlone(out []renewal.Outcome) []renewal.Outcome {
	for i := range out {
		if out[i].IsLost() {
			out[i] = renewal.Lost
		}
	}
	return out
}

// unknown renews leases, checks that all outcomes are Unknown, and returns the error.
func unknown(ctx context.Context, t testing.TB, s *Store, leases ...driver.Lease) error {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	err := s.Renew(ctx, leases, out)
	assert.Equal(t, make([]renewal.Outcome, len(leases)), out, "no outcome is known")
	require.Error(t, err)
	return err
}

// secretless checks that an error does not contain the secrets, in any format and in any
// error that it wraps.
func secretless(t testing.TB, err error, secrets ...string) {
	t.Helper()
	require.Error(t, err)
	for e := err; e != nil; {
		for _, secret := range secrets {
			for _, format := range []string{"%v", "%+v", "%#v"} {
				assert.NotContains(t, fmt.Sprintf(format, e), secret)
			}
		}
		wrapper, ok := e.(interface{ Unwrap() error })
		if !ok {
			return
		}
		e = wrapper.Unwrap()
	}
}

// keysOf returns all keys of the server under a prefix.
func keysOf(t testing.TB, rdb *redis.Client, prefix string) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(prefix)+"*").Result()
	require.NoError(t, err)
	return keys
}

// around checks that a duration is want, or up to two seconds less because of the time that
// the test has taken.
func around(t testing.TB, want, got time.Duration, msg ...any) {
	t.Helper()
	assert.LessOrEqual(t, got, want, msg...)
	assert.Greater(t, got, want-2*time.Second, msg...)
}
