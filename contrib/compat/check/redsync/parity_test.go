package redsync

import (
	"slices"
	"strings"
	"testing"
	"time"

	redis6 "github.com/go-redis/redis"
	redis7 "github.com/go-redis/redis/v7"
	redis8 "github.com/go-redis/redis/v8"
	originalredis "github.com/go-redsync/redsync/v4/redis"
	pools6 "github.com/go-redsync/redsync/v4/redis/goredis"
	pools7 "github.com/go-redsync/redsync/v4/redis/goredis/v7"
	pools8 "github.com/go-redsync/redsync/v4/redis/goredis/v8"
	pools9 "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redigopools "github.com/go-redsync/redsync/v4/redis/redigo"
	rueidispools "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	redis9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	compatredis "github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

const (
	theirs = "github.com/go-redsync/redsync/v4"
	ours   = "github.com/leasewheel/leasewheel/contrib/compat/redsync"
)

// TestTheInterfaceIsComplete compares all exported names with those of the original, as of go.mod.
func TestTheInterfaceIsComplete(t *testing.T) {
	for _, folder := range []string{"", "/redis", "/redis/goredis/v9"} {
		loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes, Context: t.Context()}, theirs+folder, ours+folder)
		require.NoError(t, err)
		require.Len(t, loaded, 2)
		require.Zero(t, packages.PrintErrors(loaded))
		slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) }) // theirs is first
		for _, change := range apidiff.Changes(loaded[0].Types, loaded[1].Types).Changes {
			_, types, _ := strings.Cut(change.Message, ": changed from ")
			was, is, _ := strings.Cut(types, " to ")
			if was == "" || was != strings.ReplaceAll(is, ours, theirs) { // otherwise a type of another of the folders
				assert.True(t, change.Compatible, change.Message)
			}
		}
	}
}

// pools make pools of the original with the clients that it supports.
var pools = map[string]func(t *testing.T, addr string) originalredis.Pool{
	"redigo": func(t *testing.T, addr string) originalredis.Pool {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		return redigopools.NewPool(pool)
	},
	"rueidis": func(t *testing.T, addr string) originalredis.Pool {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return rueidispools.NewPool(rueidiscompat.NewAdapter(client))
	},
	"go-redis 6": func(t *testing.T, addr string) originalredis.Pool {
		client := redis6.NewClient(&redis6.Options{Addr: addr, IdleCheckFrequency: -1})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return pools6.NewPool(client)
	},
	"go-redis 7": func(t *testing.T, addr string) originalredis.Pool {
		client := redis7.NewClient(&redis7.Options{Addr: addr, IdleCheckFrequency: -1})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return pools7.NewPool(client)
	},
	"go-redis 8": func(t *testing.T, addr string) originalredis.Pool {
		client := redis8.NewClient(&redis8.Options{Addr: addr, IdleCheckFrequency: -1})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return pools8.NewPool(client)
	},
	"go-redis 9": func(t *testing.T, addr string) originalredis.Pool {
		client := redis9.NewClient(&redis9.Options{Addr: addr})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return pools9.NewPool(client)
	},
}

// eachPool runs a test with adapted pools of each client, for three of the shared servers.
func eachPool(t *testing.T, test func(t *testing.T, servers []*redis9.Client, adapted []compatredis.Pool)) {
	for name, pool := range pools {
		t.Run(name, func(t *testing.T) {
			servers := clients(t, 3)
			var adapted []compatredis.Pool
			for _, s := range servers {
				adapted = append(adapted, compatredis.Adapt(pool(t, s.Options().Addr)))
			}
			test(t, servers, adapted)
		})
	}
}

func TestAMutexOnPoolsOfTheOriginal(t *testing.T) {
	eachPool(t, func(t *testing.T, servers []*redis9.Client, adapted []compatredis.Pool) {
		key, rs, l := newKey(t), redsync.New(adapted...), libraries[0]
		m := rs.NewMutex(key, redsync.WithExpiry(time.Hour), redsync.WithSetNXOnExtend())
		require.NoError(t, m.LockContext(t.Context()))
		assert.Equal(t, []string{m.Value(), m.Value(), m.Value()}, values(t, servers, key))
		_, taken := takenNodes(l.newMutex(servers, key).TryLock())
		assert.True(t, taken)
		var err *redsync.ErrTaken
		require.ErrorAs(t, rs.NewMutex(key).TryLock(), &err)
		assert.ElementsMatch(t, []int{0, 1, 2}, err.Nodes)

		expire(t, key, servers...)
		plain := rs.NewMutex(key, redsync.WithValue(m.Value()))
		ok, _ := plain.ExtendContext(t.Context())
		assert.False(t, ok, "no key")
		for _, call := range []func() (bool, error){m.Extend, plain.Extend, plain.Valid, m.Unlock} {
			ok, err := call()
			assert.True(t, ok)
			require.NoError(t, err)
		}
		_, unlockErr := m.Unlock()
		require.ErrorIs(t, unlockErr, redsync.ErrLockAlreadyExpired)
		assert.Equal(t, []string{"", "", ""}, values(t, servers, key))
	})
}

func TestTheCommandsOfAdaptedPools(t *testing.T) {
	eachPool(t, func(t *testing.T, _ []*redis9.Client, adapted []compatredis.Pool) {
		conn, err := adapted[0].Get(t.Context())
		require.NoError(t, err)
		key := newKey(t)
		ok, err := conn.SetNX(key, "first", time.Hour)
		require.NoError(t, err)
		assert.True(t, ok)
		ok, err = conn.SetNX(key, "second", time.Hour)
		require.NoError(t, err)
		assert.False(t, ok)
		left, err := conn.PTTL(key)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, left, float64(time.Minute))
		ok, err = conn.Set(key, "third")
		require.NoError(t, err)
		assert.True(t, ok)
		got, err := conn.Get(key)
		require.NoError(t, err)
		assert.Equal(t, "third", got)

		script := compatredis.NewScript(1, "return #KEYS[1] + ARGV[1]", "")
		reply, err := conn.Eval(script, key, 1)
		require.NoError(t, err)
		assert.EqualValues(t, len(key)+1, reply)
		require.NoError(t, conn.Close())
	})
}

// TestAnAdaptedPoolSetsTheHash does not use redigo, whose pool panics in ScriptLoad.
func TestAnAdaptedPoolSetsTheHash(t *testing.T) {
	conn, err := compatredis.Adapt(pools["rueidis"](t, shared[0].Server(t).Addr())).Get(t.Context())
	require.NoError(t, err)
	script := compatredis.NewScript(0, "return 7", "")
	require.NoError(t, conn.ScriptLoad(script))
	assert.Equal(t, redis9.NewScript(script.Src).Hash(), script.Hash)
}

// TestAPoolOfTheOriginalThatFails also is about a client that waits for ever for a server that hangs.
func TestAPoolOfTheOriginalThatFails(t *testing.T) {
	server, key := testredis.Start(t), newKey(t)
	pool := compatredis.Adapt(pools["redigo"](t, server.Addr()))
	m := redsync.New(pool).NewMutex(key, redsync.WithExpiry(100*time.Millisecond), redsync.WithTries(1))
	require.NoError(t, server.Stop())
	var failed *redsync.RedisError
	require.ErrorAs(t, m.Lock(), &failed)
	require.NoError(t, server.Cont())
	require.Eventually(t, func() bool { return m.Lock() == nil }, 20*time.Second, time.Millisecond)

	server.Kill()
	require.ErrorAs(t, m.Lock(), &failed)
	assert.Error(t, failed.Err)
}

func TestAdaptKeepsANilPool(t *testing.T) {
	assert.Nil(t, compatredis.Adapt(originalredis.Pool(nil)))
	err := redsync.New(compatredis.Adapt(originalredis.Pool(nil))).NewMutex("k").Lock()
	assert.EqualError(t, err, `redsync: pool 0 of mutex "k" is nil`)
}
