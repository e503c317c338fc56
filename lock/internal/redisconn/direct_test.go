package redisconn

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// interruptiblePipe returns a directConn with a call that has written to its connection,
// that connection, and the server's end of it.
func interruptiblePipe(t *testing.T) (s *directConn, conn, server net.Conn) {
	client, server := net.Pipe()
	t.Cleanup(func() {
		assert.NoError(t, client.Close())
		assert.NoError(t, server.Close())
	})
	s = &directConn{timer: time.NewTimer(long), current: &directCall{done: make(chan struct{})}}
	conn = interruptibleConn{client, s}
	go func() { _, _ = conn.Write([]byte("?")) }()
	_, err := server.Read(make([]byte, 1))
	require.NoError(t, err)
	return s, conn, server
}

func TestAnInterruptionSurvivesALaterDeadline(t *testing.T) {
	s, conn, _ := interruptiblePipe(t)
	s.interrupt(s.current, false)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(long)), "go-redis sets a deadline between writing and reading")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = conn.Write([]byte("?"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAnInterruptionDoesNotAffectTheNextCall(t *testing.T) {
	s, conn, server := interruptiblePipe(t)
	s.end(s.current, false)
	s.interrupt(s.current, false)
	s.current = new(directCall) // the next call
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(long)))
	go func() { _, _ = server.Write([]byte("!")) }()
	_, err := conn.Read(make([]byte, 1))
	require.NoError(t, err)
}

// socketConn is a connection that has a RawConn, as a socket does, and can do nothing else.
type socketConn struct{ net.Conn }

func (socketConn) SyscallConn() (syscall.RawConn, error) { return socket{}, nil }

type socket struct{ syscall.RawConn }

func TestOnlyAConnectionThatWasJustUsedIsNotChecked(t *testing.T) {
	used, other := &socketConn{}, &socketConn{}
	began := time.Now()
	for _, test := range []struct {
		name     string
		conn     *socketConn
		answered bool
		later    time.Duration
		want     syscall.RawConn
	}{
		{"just used", used, true, freshFor - 1, noSocket{}},
		{"used earlier", used, true, freshFor, socket{}},
		{"another connection", other, true, 0, socket{}},
		{"no reply", used, false, 0, socket{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &directConn{timer: time.NewTimer(long), current: &directCall{conn: used}}
			s.current.began = began
			s.end(s.current, test.answered)
			s.current = new(directCall)
			s.current.began = began.Add(test.later)
			raw, err := interruptibleConn{test.conn, s}.SyscallConn()
			require.NoError(t, err)
			assert.Equal(t, test.want, raw)
		})
	}
}

// notifying is a Notifier that is told of its end only by Notify.
type notifying struct {
	context.Context
	f      func()
	called bool // f was called, or is about to be
}

func (n *notifying) Notify(f func()) bool {
	n.f = f
	return true
}

func (n *notifying) StopNotify() bool { return !n.called }

func TestANotifierInterruptsACall(t *testing.T) {
	w := newGatedWire()
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	require.NoError(t, runEcho(t.Context(), c, "second")) // a direct call, which opens a connection
	open := w.closeGate()
	defer open()
	ended, cancel := context.WithCancel(context.Background())
	n := &notifying{Context: ended}
	before := w.Evals.Load()
	done := make(chan error, 1)
	go func() { done <- runEcho(n, c, "third") }()
	require.Eventually(t, func() bool { return w.Evals.Load() > before }, soon, time.Millisecond)
	cancel()
	n.called = true
	n.f()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A cancellation that comes too late for its call must not interrupt the next one.
func TestALateNotificationLeavesTheNextCallAlone(t *testing.T) {
	w := newGatedWire()
	c := newClient(t, w.Client(t, redis.Options{}), Options{PoolSize: 1})
	require.NoError(t, runEcho(t.Context(), c, "first"))
	require.NoError(t, runEcho(t.Context(), c, "second")) // a direct call, which opens a connection
	for _, called := range []bool{false, true} {
		n := &notifying{Context: t.Context(), called: called}
		require.NoError(t, runEcho(n, c, "third"))
		spare := c.node.autoPipeliner.directConns[0].spare
		assert.Equal(t, called, spare == nil, "a directCall serves the next call unless f may still be called")
		if !called {
			continue
		}
		open := w.closeGate()
		before := w.Evals.Load()
		done := make(chan error, 1)
		go func() { done <- runEcho(t.Context(), c, "fourth") }()
		require.Eventually(t, func() bool { return w.Evals.Load() > before }, soon, time.Millisecond)
		n.f()
		open()
		require.NoError(t, <-done)
	}
}
