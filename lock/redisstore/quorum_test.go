package redisstore

import (
	"crypto/rand"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// three starts three independent servers.
func three(t *testing.T) (servers []*testredis.Server, clients []*redis.Client) {
	t.Helper()
	for range 3 {
		s := testredis.Start(t)
		servers = append(servers, s)
		clients = append(clients, s.Client(t))
	}
	return servers, clients
}

// quorumOf returns a quorum of new stores, one for each client.
func quorumOf(t *testing.T, prefix string, clients []*redis.Client) driver.Store {
	t.Helper()
	var stores []driver.Store
	for _, rdb := range clients {
		s, err := New(rdb, &Options{Prefix: prefix})
		require.NoError(t, err)
		stores = append(stores, s)
	}
	q, err := quorumstore.New(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// The addresses of one server are not always recognizable as equal: the quorum must ask the server.
func TestAQuorumOfOneServer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	at := func(addr string) driver.Store {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		s, err := New(rdb, nil)
		require.NoError(t, err)
		return s
	}
	var stores []driver.Store
	for range 3 { // each with another address
		_, port, err := net.SplitHostPort(testredis.StartProxy(t, srv).Client(t).Options().Addr)
		require.NoError(t, err)
		stores = append(stores, at("127.0.0.1:"+port))
	}
	q, err := quorumstore.New(stores...)
	require.NoError(t, err)
	client, err := lock.New(q, nil)
	require.NoError(t, err)
	for range 2 {
		_, err = client.Mutex("k").Lock(t.Context())
		require.ErrorContains(t, err, "must be independent servers")
	}
	require.NoError(t, client.Close(t.Context()))
	locks, err := srv.Client(t).Keys(t.Context(), "lw:*}").Result()
	require.NoError(t, err)
	assert.Empty(t, locks, "no lock is held")
}

func TestQuorumContract(t *testing.T) {
	t.Parallel()
	_, clients := three(t)
	prefix := rand.Text() + ":"
	lockKey := func(key string) string { return prefix + "{" + key + "}" }
	locktest.TestStore(t, locktest.Config{
		New:       func(t *testing.T) driver.Store { return quorumOf(t, prefix, clients) },
		TTL:       6 * time.Second, // each server has a fifth of it to answer
		Explains:  true,
		Tokenless: true,
		Modes:     locktest.AllModes,
		Delete: func(t *testing.T, _ driver.Store, key string) {
			for _, rdb := range clients {
				require.NoError(t, rdb.Del(t.Context(), lockKey(key)).Err())
			}
		},
		Spoil: func(t *testing.T, _ driver.Store, key string) {
			for _, rdb := range clients {
				spoil(t, rdb, lockKey(key))
			}
		},
		Spoiled: func(t *testing.T, _ driver.Store, key string) bool {
			for _, rdb := range clients {
				if rdb.Type(t.Context(), lockKey(key)).Val() != "list" {
					return false
				}
			}
			return true
		},
	})
}

func TestQuorumRefusesOneServerTwice(t *testing.T) {
	store := func(rdb redis.UniversalClient) driver.Store {
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		return newStore(t, rdb, nil)
	}
	at := func(addr string) driver.Store { return store(redis.NewClient(&redis.Options{Addr: addr})) }
	cluster := func(addrs ...string) driver.Store {
		return store(redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}))
	}
	sentinel := func(name string) driver.Store {
		return store(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{"h:1"}}))
	}
	for _, stores := range [][]driver.Store{
		{at("a:1"), at("b:1"), at("a:1")},
		{cluster("a:1", "b:1"), cluster("c:1", "b:1")},
		{at("a:1"), cluster("a:1")},
	} {
		_, err := quorumstore.New(stores...)
		require.ErrorContains(t, err, "share the server at")
	}
	q, err := quorumstore.New(at("a:1"), at("a:2"), cluster("c:1", "d:1"), sentinel("x"), sentinel("y"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "a:2", "c:1", "d:1"}, q.Describe().Addresses)
	assert.Zero(t, testing.AllocsPerRun(100, func() { q.Describe() }))
}
