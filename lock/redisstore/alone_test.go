package redisstore

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attendedPipe returns a soloist with a call that has written to its connection, and
// the other end of that.
func attendedPipe(t *testing.T) (s *soloist, conn, other net.Conn) {
	own, other := net.Pipe()
	t.Cleanup(func() {
		assert.NoError(t, own.Close())
		assert.NoError(t, other.Close())
	})
	s = &soloist{now: &solo{over: make(chan struct{})}}
	conn = s.attend(own)
	go func() { _, _ = conn.Write([]byte("?")) }()
	_, err := other.Read(make([]byte, 1))
	require.NoError(t, err)
	return s, conn, other
}

func TestAnInterruptionOutlastsALaterDeadline(t *testing.T) {
	s, conn, _ := attendedPipe(t)
	s.interrupt(s.now)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(long)), "as go-redis does between writing and reading")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = conn.Write([]byte("?"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAnInterruptionAfterTheEndIsNone(t *testing.T) {
	s, conn, other := attendedPipe(t)
	s.end(s.now)
	s.interrupt(s.now)
	s.now = new(solo) // the next call
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(long)))
	go func() { _, _ = other.Write([]byte("!")) }()
	_, err := conn.Read(make([]byte, 1))
	require.NoError(t, err)
}
