package redisconn

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestACallWithoutAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	refused := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer refused.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	password := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Username: "nobody", Password: "wrong"})
	defer password.Close()
	for rdb, want := range map[redis.UniversalClient]driver.Verdict{refused: driver.NotSent, cluster: driver.NotSent, password: driver.NotExecuted} {
		c := newClient(t, rdb, Options{})
		for range 20 { // on direct connections and in pipelines
			err := runEcho(t.Context(), c, "k")
			require.Equal(t, want, driver.VerdictOf(err), "%v", err)
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
	require.ErrorIs(t, runEcho(t.Context(), c, "k"), driver.ErrNotSent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, runEcho(ctx, c, "k"), context.Canceled)
}

// Within a script a server refuses the first write, and never a later one, for some reasons.
func TestTheVerdictOfAnAnswer(t *testing.T) {
	t.Parallel()
	var answer atomic.Value
	w := &testredis.Wire{Answer: func(command []string) string {
		if strings.HasPrefix(strings.ToLower(command[0]), "eval") {
			return answer.Load().(string)
		}
		return "+OK\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	for text, want := range map[string]driver.Verdict{
		"": driver.Unanswered, // the connection is closed
		"-LOADING Redis is loading the dataset in memory":                                                         driver.NotExecuted,
		"-NOAUTH Authentication required.":                                                                        driver.NotExecuted,
		"-NOPERM this user has no permissions to run the 'evalsha' command":                                       driver.NotExecuted,
		"-NOPERM this user has no permissions to run the 'publish' command script: 1, on @user_script:1.":         driver.Unanswered,
		"-ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1.":   driver.Unanswered,
		"-OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1.":                  driver.NotExecuted,
		"-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed when": driver.NotExecuted,
		"-READONLY You can't write against a read only replica. script: 1, on @user_script:1.":                    driver.NotExecuted,
		"-ERR max number of clients reached":                                                                      driver.NotExecuted,
		"-ERR something else":                                                                                     driver.Unanswered,
		"-WRONGTYPE Operation against a key holding the wrong kind of value":                                      driver.WrongType,
		"$-1": driver.Unanswered,
	} {
		if text != "" {
			text += "\r\n"
		}
		answer.Store(text)
		err := runEcho(t.Context(), c, "k")
		require.Error(t, err)
		assert.Equal(t, want, driver.VerdictOf(err), text)
	}
}
