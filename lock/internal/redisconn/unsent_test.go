package redisconn

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestACallWithoutAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	refused := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer refused.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	password := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Username: "nobody", Password: "wrong"})
	defer password.Close()
	for name, rdb := range map[string]redis.UniversalClient{"refused": refused, "cluster": cluster, "wrong password": password} {
		c := newClient(t, rdb, Options{})
		for range 20 { // on direct connections and in pipelines
			require.ErrorIs(t, runEcho(t.Context(), c, "k"), ErrNotSent, name)
		}
	}
}

// A cluster whose servers hang does not tell which node to send to.
func TestACallWithoutANodeIsNotSent(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Dialer: hangs})
	defer rdb.Close()
	c := newClient(t, rdb, Options{Timeout: 10 * time.Millisecond})
	require.ErrorIs(t, runEcho(t.Context(), c, "k"), ErrNotSent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, runEcho(ctx, c, "k"), context.Canceled)
}

func TestACallThatMayBeExecutedIsSent(t *testing.T) {
	t.Parallel()
	w := &testredis.Wire{Answer: func(command []string) string {
		if strings.HasPrefix(strings.ToLower(command[0]), "eval") {
			return "" // closes the connection
		}
		return "+OK\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	err := runEcho(t.Context(), c, "k")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotSent)
}
