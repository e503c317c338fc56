//go:build unix

package testredis

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The port of a killed server refuses dials, and nobody else gets it, until the server is started again.
func TestAKilledServerKeepsItsPort(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	alone := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		if failed != nil {
			return failed
		}
		return err
	}}
	for range 2 {
		s.Kill()
		_, err := alone.Listen(t.Context(), "tcp", s.Addr())
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		_, err = new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	require.NoError(t, s.Restart())
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}
