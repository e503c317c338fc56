package testredis

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

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

func TestAServerEndsWithItsTest(t *testing.T) {
	var s *Server
	t.Run("test", func(t *testing.T) { s = Start(t) })
	_, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	require.Error(t, err)
	assert.NoDirExists(t, s.dir)
	s.Close() // twice
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
