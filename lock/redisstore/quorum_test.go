package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// three starts servers that know nothing of each other.
func three(t *testing.T) (servers []*testredis.Server, clients []*redis.Client) {
	t.Helper()
	for range 3 {
		s := testredis.Start(t)
		servers = append(servers, s)
		clients = append(clients, s.Client(t))
	}
	return servers, clients
}

// quorumOf returns a quorum of stores of its own.
func quorumOf(t *testing.T, prefix string, clients []*redis.Client) lock.Store {
	t.Helper()
	var stores []lock.Store
	for _, rdb := range clients {
		s, err := New(rdb, &Options{Prefix: prefix})
		require.NoError(t, err)
		stores = append(stores, s)
	}
	q, err := lock.Quorum(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.(io.Closer).Close()) })
	return q
}

func TestQuorumContract(t *testing.T) {
	t.Parallel()
	_, clients := three(t)
	prefix := rand.Text() + ":"
	lockKey := func(key string) string { return prefix + "{" + key + "}" }
	locktest.TestStore(t, locktest.Config{
		New:       func(t *testing.T) lock.Store { return quorumOf(t, prefix, clients) },
		TTL:       6 * time.Second, // of which each server has a fifth to answer
		Tokenless: true,
		Modes:     locktest.AllModes,
		Inspects:  true,
		Delete: func(t *testing.T, _ lock.Store, key string) {
			for _, rdb := range clients {
				require.NoError(t, rdb.Del(t.Context(), lockKey(key)).Err())
			}
		},
		Spoil: func(t *testing.T, _ lock.Store, key string) {
			for _, rdb := range clients {
				spoil(t, rdb, lockKey(key))
			}
		},
		Spoiled: func(t *testing.T, _ lock.Store, key string) bool {
			for _, rdb := range clients {
				if rdb.Type(t.Context(), lockKey(key)).Val() != "list" {
					return false
				}
			}
			return true
		},
	})
}

// A server that stops answering, and one that is gone, are a minority each: the
// lock is taken, kept and given back. Both together are not.
func TestQuorumWithoutAServer(t *testing.T) {
	t.Parallel()
	servers, clients := three(t)
	client, err := lock.New(quorumOf(t, "q:", clients), &lock.Options{Terms: lock.Terms{TTL: 2 * time.Second}})
	require.NoError(t, err)
	defer func() { _ = client.Close(context.Background()) }()
	early, err := client.Mutex("early").Lock(t.Context())
	require.NoError(t, err)

	require.NoError(t, servers[0].Stop())
	h, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	time.Sleep(3 * time.Second)
	require.NoError(t, h.Err())
	require.NoError(t, early.Err())
	require.NoError(t, h.Unlock(t.Context()))
	h, err = client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)

	servers[1].Kill()
	<-h.Done()
	require.ErrorIs(t, h.Err(), lock.ErrLost)
	_, err = client.Mutex("other").Lock(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, servers[0].Cont())
}

func TestQuorumRefusesOneServerTwice(t *testing.T) {
	store := func(rdb redis.UniversalClient) lock.Store {
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		return newStore(t, rdb, nil)
	}
	at := func(addr string) lock.Store { return store(redis.NewClient(&redis.Options{Addr: addr})) }
	cluster := func(addrs ...string) lock.Store {
		return store(redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}))
	}
	sentinel := func(name string) lock.Store {
		return store(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{"h:1"}}))
	}
	for _, stores := range [][]lock.Store{
		{at("a:1"), at("b:1"), at("a:1")},
		{cluster("a:1", "b:1"), cluster("c:1", "b:1")},
		{at("a:1"), cluster("a:1")},
	} {
		_, err := lock.Quorum(stores...)
		require.ErrorContains(t, err, "asks the server at")
	}
	_, err := lock.Quorum(at("a:1"), at("a:2"), cluster("c:1"), sentinel("x"), sentinel("y"))
	require.NoError(t, err)
	assert.Equal(t, "[a:1]", fmt.Sprint(at("a:1").(*Store).Addresses()))
}
