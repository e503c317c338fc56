package goredis_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	pools "github.com/leasewheel/leasewheel/contrib/compat/redsync/redis/goredis/v9"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

var shared testredis.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

func TestTheCommandsOfAConnection(t *testing.T) {
	client := shared.Server(t).Client(t)
	conn, err := pools.NewPool(client).Get(t.Context())
	require.NoError(t, err)

	got, err := conn.Get("k")
	require.NoError(t, err)
	assert.Empty(t, got)
	ttl, err := conn.PTTL("k")
	require.NoError(t, err)
	assert.EqualValues(t, -2, ttl)

	ok, err := conn.SetNX("k", "v", time.Hour)
	require.NoError(t, err)
	assert.True(t, ok)
	ok, err = conn.SetNX("k", "w", time.Hour)
	require.NoError(t, err)
	assert.False(t, ok)
	ttl, err = conn.PTTL("k")
	require.NoError(t, err)
	assert.InDelta(t, time.Hour, ttl, float64(time.Minute))

	ok, err = conn.Set("k", "w")
	require.NoError(t, err)
	assert.True(t, ok)
	got, err = conn.Get("k")
	require.NoError(t, err)
	assert.Equal(t, "w", got)
	ttl, err = conn.PTTL("k")
	require.NoError(t, err)
	assert.EqualValues(t, -1, ttl)

	require.NoError(t, client.LPush(t.Context(), "list", "x").Err())
	_, err = conn.Get("list")
	assert.ErrorContains(t, err, "WRONGTYPE")
	require.NoError(t, conn.Close())
}

func TestScripts(t *testing.T) {
	conn, err := pools.NewPool(shared.Server(t).Client(t)).Get(nil) //nolint:staticcheck // a nil context does not end
	require.NoError(t, err)
	script := redis.NewScript(2, "return {KEYS[1], KEYS[2], ARGV[1]}", "0123456789012345678901234567890123456789")
	answer, err := conn.Eval(script, "a", "b", 7)
	require.NoError(t, err)
	assert.Equal(t, []any{"a", "b", "7"}, answer)

	require.NoError(t, conn.ScriptLoad(script))
	assert.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(script.Src))), script.Hash)
	_, err = conn.Eval(script, "a", "b", 7)
	require.NoError(t, err)

	answer, err = conn.Eval(redis.NewScript(0, "return false", ""))
	require.NoError(t, err)
	assert.Nil(t, answer)
	_, err = conn.Eval(redis.NewScript(0, "return redis.error_reply('OOPS')", ""))
	assert.ErrorContains(t, err, "OOPS")
	_, err = conn.Eval(script, "a")
	assert.EqualError(t, err, "goredis: 1 values for a script with 2 keys")
	_, err = conn.Eval(script, "a", 2)
	assert.EqualError(t, err, "goredis: key 1 of a script is a int, not a string")
	assert.Error(t, conn.ScriptLoad(redis.NewScript(0, "no Lua", "")))
}

func TestANilClient(t *testing.T) {
	for _, client := range []goredis.UniversalClient{nil, (*goredis.Client)(nil)} {
		_, err := pools.NewPool(client).Get(t.Context())
		assert.EqualError(t, err, "goredis: the client of the pool is nil")
	}
}

// counter is a hook that counts commands by their names.
type counter struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (c *counter) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.mu.Lock()
		c.counts[cmd.Name()]++
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func TestAScriptIsSentInFullOnce(t *testing.T) {
	client := testredis.Start(t).Client(t)
	c := &counter{counts: map[string]int{}}
	client.AddHook(c)
	m := redsync.New(pools.NewPool(client)).NewMutex("k", redsync.WithSetNXOnExtend())
	plain := redsync.New(pools.NewPool(client))
	for range 3 {
		require.NoError(t, m.Lock())
		for _, call := range []func() (bool, error){m.Extend, plain.NewMutex("k", redsync.WithValue(m.Value())).Extend, m.Unlock} {
			ok, err := call()
			require.NoError(t, err)
			assert.True(t, ok)
		}
	}
	assert.Equal(t, map[string]int{"set": 3, "evalsha": 9, "eval": 3}, withoutHandshake(c))

	conn, err := pools.NewPool(client).Get(t.Context())
	require.NoError(t, err)
	failing := redis.NewScript(0, "return redis.error_reply('OOPS')", "")
	require.NoError(t, conn.ScriptLoad(failing))
	_, err = conn.Eval(failing)
	assert.ErrorContains(t, err, "OOPS")
	assert.Equal(t, 3, withoutHandshake(c)["eval"], "other errors are not tried again")
}

// withoutHandshake returns the counts of the commands that the tests cause.
func withoutHandshake(c *counter) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, name := range []string{"set", "get", "evalsha", "eval"} {
		if c.counts[name] > 0 {
			counts[name] = c.counts[name]
		}
	}
	return counts
}

func TestEveryKindOfClient(t *testing.T) {
	server := shared.Server(t)
	for _, client := range []goredis.UniversalClient{
		goredis.NewClient(&goredis.Options{Addr: server.Addr()}),
		goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}),
		testredis.StartCluster(t, 3, false).Client(t),
	} {
		t.Run(fmt.Sprintf("%T", client), func(t *testing.T) {
			m := redsync.New(pools.NewPool(client)).NewMutex("kinds")
			require.NoError(t, m.Lock())
			var taken *redsync.ErrTaken
			assert.ErrorAs(t, redsync.New(pools.NewPool(client)).NewMutex("kinds").TryLock(), &taken)
			ok, err := m.Extend()
			assert.True(t, ok)
			assert.NoError(t, err)
			ok, err = m.Unlock()
			assert.True(t, ok)
			assert.NoError(t, err)
			require.NoError(t, client.Close())
		})
	}
}
