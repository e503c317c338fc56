package redisnode

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// piped returns a node without a server, a connection of it, and the server's end of that.
func piped(t *testing.T) (n *Node, c *conn, server net.Conn) {
	near, server := net.Pipe()
	cs := NewCalls()
	options := Derive(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
	n, err := New(cs, 0, *options, Options{Timeout: long, PoolSize: 1})
	require.NoError(t, err)
	dialed, err := n.conns.dial(t.Context(), "tcp", "")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, dialed.Close())
		assert.NoError(t, server.Close())
		assert.NoError(t, n.Close())
		cs.Cancel()
		cs.Wait()
	})
	return n, dialed.(*conn), server
}

// bind begins a request and sets its deadline, as go-redis does.
func bind(ctx context.Context, t *testing.T, n *Node, c *conn) *request {
	t.Helper()
	r, err := n.calls.start(ctx, time.Now().Add(long), NoAnswerError(long), n, n.rdb)
	require.NoError(t, err)
	require.NoError(t, c.SetWriteDeadline(r.ctx.until))
	return r
}

func TestACancellationSurvivesALaterDeadline(t *testing.T) {
	n, c, _ := piped(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := bind(ctx, t, n, c)
	cancel()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(r.ctx.until), "go-redis sets a deadline between writing and reading")
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorIs(t, r.reason(), context.Canceled)
	n.calls.finish(r, true)
	assert.Empty(t, n.calls.idle, "a request that was cancelled serves no other")
}

func TestALateCancellationLeavesTheNextRequestAlone(t *testing.T) {
	n, c, server := piped(t)
	first := bind(t.Context(), t, n, c)
	second := bind(t.Context(), t, n, c)
	assert.NotEqual(t, first.ctx.until, second.ctx.until)
	first.cancel(context.Canceled)
	go func() { _, _ = server.Write([]byte("+")) }()
	_, err := c.Read(make([]byte, 1))
	require.NoError(t, err)
	n.calls.finish(first, true)
	n.calls.finish(second, true)
	assert.Equal(t, []*request{second}, n.calls.idle)
}

func TestWhichConnectionsGoRedisMayUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, _ := piped(t)
		raw, err := c.SyscallConn()
		require.NoError(t, err)
		assert.Equal(t, noSocket{}, raw)
		time.Sleep(time.Second)
		n.conns.refuseSilent(c.lastRead.Load() - 1)
		_, err = c.SyscallConn()
		require.NoError(t, err, "it has received something since")
		n.conns.refuseSilent(n.conns.now())
		_, err = c.SyscallConn()
		require.ErrorIs(t, err, errSilent)
		c.lastRead.Store(n.conns.now() + 1)
		_, err = c.SyscallConn()
		require.NoError(t, err)
		n.conns.refuseOld()
		_, err = c.SyscallConn()
		require.ErrorIs(t, err, errSilent, "old credentials")
	})
}

// socketConn is a connection that has a RawConn, as a socket does.
type socketConn struct{ net.Conn }

func (socketConn) SyscallConn() (syscall.RawConn, error) { return socket{}, nil }

type socket struct{ syscall.RawConn }

func TestTheKernelIsAskedAboutAnIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _ := piped(t)
		c.Conn = socketConn{c.Conn}
		time.Sleep(time.Second)
		for age, want := range map[time.Duration]syscall.RawConn{0: noSocket{}, freshFor: socket{}} {
			c.lastRead.Store(c.conns.now() - int64(age))
			raw, err := c.SyscallConn()
			require.NoError(t, err)
			assert.Equal(t, want, raw, age)
		}
	})
}

// A connection that receives something is not dead, however long its request takes.
func TestOnlySilentRequestsAreDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, _ := piped(t)
		r := bind(t.Context(), t, n, c)
		defer n.calls.finish(r, true)
		assert.Zero(t, r.silence())
		time.Sleep(time.Second)
		assert.Equal(t, time.Second, r.silence())
		c.lastRead.Store(c.conns.now())
		assert.Zero(t, r.silence())
	})
}
