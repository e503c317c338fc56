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

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// shared is the server of all tests that do nothing to it that others would see.
// Each has a prefix of its own.
var shared testredis.Shared

// instead is what this process does in place of the tests, if it was started by one.
var instead func()

func TestMain(m *testing.M) {
	if instead != nil {
		instead()
		return
	}
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(m))
}

// TestContract is done as a user with the rights that the package comment names.
func TestContract(t *testing.T) {
	t.Parallel()
	admin := shared.Server(t).Client(t)
	contract(t, admin, limited(t, admin))
}

// contract runs the contract on a store of the user. The admin does what no store does.
func contract(t *testing.T, rdb, user redis.UniversalClient) {
	t.Helper()
	locktest.TestStore(t, locktest.Config{
		New:      func(t *testing.T) lock.Store { return newStore(t, user, &Options{Prefix: "lw:" + rand.Text() + ":"}) },
		TTL:      3 * time.Second,
		Modes:    locktest.AllModes,
		Inspects: true,
		Delete: func(t *testing.T, s lock.Store, key string) {
			require.NoError(t, rdb.Del(t.Context(), s.(*Store).lockKey(key)).Err())
		},
		Waiting: func(t *testing.T, s lock.Store, key string) int {
			info, err := s.(*Store).Inspect(t.Context(), key)
			require.NoError(t, err)
			return info.Waiting
		},
		Die: func(t *testing.T, s lock.Store, r lock.Request) {
			_, err := s.(*Store).ask(t.Context(), r, s.(*Store).place(r.TTL))
			require.NoError(t, err)
		},
		Another: func(t *testing.T, s lock.Store) lock.Store {
			return newStore(t, user, &Options{Prefix: s.(*Store).prefix})
		},
		Spoil: func(t *testing.T, s lock.Store, key string) {
			spoil(t, rdb, s.(*Store).lockKey(key))
		},
		Spoiled: func(t *testing.T, s lock.Store, key string) bool {
			return rdb.Type(t.Context(), s.(*Store).lockKey(key)).Val() == "list"
		},
	})
}

// spoil puts a list at a key, in one transaction: the acquire of a quorum has its
// majority and may still be on its way to the other servers.
func spoil(t testing.TB, rdb redis.UniversalClient, key string) {
	t.Helper()
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		p.RPush(t.Context(), key, "not a lock")
		return nil
	})
	require.NoError(t, err)
}

// newStore returns a store with a prefix of its own, unless o says otherwise. It is
// closed at the end of the test.
func newStore(t testing.TB, rdb redis.UniversalClient, o *Options) *Store {
	t.Helper()
	if o == nil {
		o = &Options{Prefix: rand.Text() + ":"}
	}
	s, err := New(rdb, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// sharedStore returns a store on the shared server, and a client to look at that.
func sharedStore(t testing.TB) (*Store, *redis.Client) {
	t.Helper()
	rdb := shared.Server(t).Client(t)
	return newStore(t, rdb, nil), rdb
}

const ttl30 = 30 * time.Second

// request asks for a key, by a new owner.
func request(key string) lock.Request {
	return lock.Request{Key: key, Owner: rand.Text() + ":1", TTL: ttl30}
}

func acquire(t testing.TB, s *Store, r lock.Request) lock.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, r, l.Request)
	return l
}

// acquireAll acquires prefix0 to prefix(n-1), quickly.
func acquireAll(t testing.TB, s *Store, prefix string, n int) []lock.Lease {
	t.Helper()
	leases := make([]lock.Lease, n)
	for i := range leases {
		leases[i] = acquire(t, s, request(fmt.Sprint(prefix, i)))
	}
	return leases
}

// enqueue does what a client does that waits in the queue.
func enqueue(t testing.TB, s *Store, rdb *redis.Client, r lock.Request) {
	t.Helper()
	err := redis.NewScript(acquireScript.source).Run(t.Context(), rdb, all(s.keys(r.Key, r.Owner)), r.Owner, ttlMs, placeMs, memMs).Err()
	require.NoError(t, err)
}

// all returns the keys in the order of the scripts.
func all(k *keys) []string { return []string{k.lock, k.token, k.queue, k.places, k.tombstone} }

func renew(t testing.TB, s *Store, leases ...lock.Lease) []renewal.Outcome {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(t, s.Renew(t.Context(), leases, out))
	return out
}

// unknown renews leases, of which none may get an answer, and returns the error.
func unknown(ctx context.Context, t testing.TB, s *Store, leases ...lock.Lease) error {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	err := s.Renew(ctx, leases, out)
	assert.Equal(t, make([]renewal.Outcome, len(leases)), out, "unknown is not lost")
	require.Error(t, err)
	return err
}

// secretless checks that an error shows neither of the secrets, however it is
// printed.
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

// around checks that a duration is the wanted one, less what the test itself has
// taken.
func around(t testing.TB, want, got time.Duration, msg ...any) {
	t.Helper()
	assert.LessOrEqual(t, got, want, msg...)
	assert.Greater(t, got, want-2*time.Second, msg...)
}
