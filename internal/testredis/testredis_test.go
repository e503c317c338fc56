package testredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var shared Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

func TestAServerOfItsOwn(t *testing.T) {
	a, b := Start(t), Start(t, "--databases", "3")
	assert.NotEqual(t, a.Addr(), b.Addr())
	assert.Equal(t, "redis://"+a.Addr(), a.URL())
	require.NoError(t, a.Client(t).Set(t.Context(), "k", "v", 0).Err())
	assert.Zero(t, b.Client(t).Exists(t.Context(), "k").Val())

	config := b.Client(t).ConfigGet(t.Context(), "*").Val()
	assert.Empty(t, config["save"])
	assert.Equal(t, "no", config["appendonly"])
	assert.Equal(t, "127.0.0.1", config["bind"])
	assert.Equal(t, "3", config["databases"])
	assert.DirExists(t, config["dir"])
}

func TestASentinel(t *testing.T) {
	master := Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(path, []byte("sentinel monitor m "+host+" "+port+" 1\n"), 0o600))
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: Start(t, path, "--sentinel").Addr()})
	defer sentinel.Close()
	addr, err := sentinel.GetMasterAddrByName(t.Context(), "m").Result()
	require.NoError(t, err)
	assert.Equal(t, []string{host, port}, addr)
}

func TestAServerEndsWithItsTest(t *testing.T) {
	var s *Server
	t.Run("test", func(t *testing.T) { s = Start(t) })
	_, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	require.Error(t, err)
	assert.NoDirExists(t, s.dir)
	s.Close() // twice
}

func TestAStoppedServerHangs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals here")
	}
	s := Start(t)
	require.NoError(t, s.Stop())
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	require.NoError(t, err, "the kernel still accepts")
	conn.Close()
	assert.False(t, s.answers())
	require.NoError(t, s.Cont())
	assert.Eventually(t, s.answers, 5*time.Second, time.Millisecond)
	require.NoError(t, s.Stop())
	s.Close() // ends it nevertheless
}

func TestWhatIsDurableSurvivesACrash(t *testing.T) {
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := s.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	addr := s.Addr()
	s.Kill()
	require.Error(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, s.Restart())
	assert.Equal(t, addr, s.Addr())
	assert.Equal(t, "v", rdb.Get(t.Context(), "k").Val())
}

func TestACluster(t *testing.T) {
	c := StartCluster(t, 3, true)
	require.Len(t, c.Addrs(), 6)
	rdb := c.Client(t)
	for i := range 100 {
		require.NoError(t, rdb.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
	}
	for i, s := range c.Masters {
		a := c.admin(s)
		defer a.close()
		slots, err := a.slots(t.Context())
		require.NoError(t, err)
		require.Len(t, slots, 3)
		assert.Equal(t, i*16384/3, slots[i].Start)
		require.Len(t, slots[i].Nodes, 2)
		assert.Equal(t, c.Replicas[i].Addr(), slots[i].Nodes[1].Addr)
	}

	slot := int(rdb.ClusterKeySlot(t.Context(), "k1").Val())
	from, to := c.Masters[slot*3/16384], c.Masters[(slot*3/16384+1)%3]
	require.NoError(t, c.Move(t.Context(), slot, from, to))
	assert.Equal(t, "1", to.Client(t).Get(t.Context(), "k1").Val())
	require.ErrorContains(t, from.Client(t).Get(t.Context(), "k1").Err(), "MOVED")
}

func TestAProxy(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s)
	rdb := p.Client(t)
	conn := rdb.Conn()
	defer conn.Close()
	require.NoError(t, conn.Set(t.Context(), "k", "v", 0).Err())
	p.Reset()
	require.Error(t, conn.Get(t.Context(), "k").Err())
	require.Equal(t, "v", rdb.Get(t.Context(), "k").Val(), "a new connection works")

	p.Block()
	late := make(chan string)
	go func() { late <- rdb.Get(context.Background(), "k").Val() }()
	select {
	case <-late:
		assert.Fail(t, "an answer came through")
	case <-time.After(50 * time.Millisecond):
	}
	p.Unblock()
	assert.Equal(t, "v", <-late)
	p.Block() // it ends nevertheless
	go rdb.Get(context.Background(), "k")
}

func TestATakenPortIsNoServerOfOurs(t *testing.T) {
	other := Start(t)
	s := &Server{port: other.port, dir: t.TempDir()}
	require.ErrorIs(t, s.start(), errPortTaken, "though somebody answers there")
	assert.True(t, other.answers())
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	_, err := Launch("--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")

	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	tb := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		Start(tb)
	}()
	assert.Contains(t, tb.fatal, "make setup", "a missing server fails the test, and it says how to get it")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left, "no folder is left behind")
}

func TestTheSharedServerIsOne(t *testing.T) {
	one, other := shared.Server(t), shared.Server(t)
	assert.Same(t, one, other)
	var none Shared
	assert.Equal(t, 7, none.Around(runs(7)).Run(), "a server that nobody asked for is none to close")
}

// failing notes a Fatal and goes on panicking, as Fatal does not return.
type failing struct {
	testing.TB
	fatal string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.fatal = fmt.Sprint(args...)
	panic(f.fatal)
}

type runs int

func (r runs) Run() int { return int(r) }

func TestVersions(t *testing.T) {
	for line, want := range map[string][2]int{
		"Redis server v=5.0.6 sha=c7e6b7bb:0 malloc=libc bits=64 build=1": {5, 0},
		"Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc":            {9, 1},
		"KeyDB server v=6.3.4 sha=0:0":                                    {6, 3},
		"another":                                                         newest,
	} {
		assert.Equal(t, want, parseVersion(line))
	}
	info := Start(t).Client(t).Info(t.Context(), "server").Val()
	assert.Contains(t, info, fmt.Sprintf("version:%d.%d.", version()[0], version()[1]), "of the server in PATH")
	assert.True(t, Since(5, 0))
	assert.True(t, Since(version()[0], version()[1]))
	assert.False(t, Since(version()[0], version()[1]+1))
	assert.False(t, Since(version()[0]+1, 0))
	assert.Equal(t, Since(7, 0), len(AllowDebug()) > 0)
	assert.Contains(t, ChannelRules("reset", "~k", "&c"), "~k")
	assert.Equal(t, Since(6, 2), len(ChannelRules("&c", "resetchannels")) > 0)
}
