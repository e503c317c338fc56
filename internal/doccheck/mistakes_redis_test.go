package doccheck_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// redisError returns the error of Do on a Redis client, with what is logged before it.
func redisError(t *testing.T, rdb redis.UniversalClient) string {
	defer rdb.Close()
	logged := captureLog(t)
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return err.Error()
	}
	client, err := lock.New(store, nil)
	require.NoError(t, err)
	defer client.Close(context.Background())
	err = lock.Do(t.Context(), client.Mutex("a"), work)
	require.Error(t, err)
	return err.Error() + "\n" + logged.String()
}

// redisMistakes are mistakes with a server.
var redisMistakes = map[string]func(t *testing.T) string{
	"name an address at which no server listens": func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return redisError(t, redis.NewClient(&redis.Options{Addr: l.Addr().String()}))
	},
	"forget the password of the server": func(t *testing.T) string {
		server := testredis.Start(t, "--requirepass", "secret")
		return redisError(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	},
	"name the port of something else": func(t *testing.T) string {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		return redisError(t, redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(server.URL, "http://")}))
	},
	"pass a cluster client for a single server": func(t *testing.T) string {
		server := testredis.Start(t)
		return redisError(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}}))
	},
	"pass a `redis.Ring`": func(t *testing.T) string {
		return redisError(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "localhost:6379"}}))
	},
}
