package redisstore

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRepliesWithinBoundsArePassedOn(t *testing.T) {
	for _, stream := range []string{
		"", "+OK\r\n", "-ERR x\r\n", ":17\r\n", ":-1\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$5\r\na\r\n*9\r\n",
		"*2\r\n*2\r\n:1\r\n*0\r\n$2\r\n*1\r\n", "*1\r\n*1\r\n:1\r\n+OK\r\n*1\r\n*-1\r\n:1\r\n", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
		"$" + strconv.Itoa(maxBulk) + "\r\n", "*" + strconv.Itoa(maxElements) + "\r\n", "-" + strings.Repeat("x", maxLine-3) + "\r\n",
	} {
		var whole framing
		require.NoError(t, whole.take([]byte(stream)), "%.100q", stream)
		if len(stream) > 1000 {
			continue
		}
		var f framing
		for i := range len(stream) { // however it arrives
			require.NoError(t, f.take([]byte(stream[i:i+1])), "%q", stream)
		}
		assert.Equal(t, whole.bulk, f.bulk)
		assert.Len(t, f.open, len(whole.open))
	}
}

func TestRepliesOutOfBoundsEndTheConnection(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "+OK\n", "x\r\n", "HTTP/1.1 400\r\n", "_\r\n", "%1\r\n", ">1\r\n", "|1\r\n", "(1\r\n", "$\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$1.0\r\n", "*99999999999999999999\r\n",
		"$" + strconv.Itoa(maxBulk+1) + "\r\n", "*" + strconv.Itoa(maxElements+1) + "\r\n", strings.Repeat("*1\r\n", maxDepth+1), "-" + strings.Repeat("x", maxLine),
	} {
		var f framing
		err := f.take([]byte(stream))
		require.ErrorIs(t, err, errFraming, "%.100q", stream)
		require.ErrorIs(t, f.take([]byte("+OK\r\n")), errFraming, "for good")
	}
}

func TestAReplyIsBoundedAsAWhole(t *testing.T) {
	bulk := []byte("$" + strconv.Itoa(maxBulk) + "\r\n" + strings.Repeat("x", maxBulk) + "\r\n")
	var many, one framing
	require.NoError(t, one.take([]byte("*1000\r\n")))
	for range maxReply / maxBulk {
		require.NoError(t, many.take(bulk), "each is a reply of its own")
	}
	for range maxReply/maxBulk - 1 {
		require.NoError(t, one.take(bulk))
	}
	require.ErrorIs(t, one.take(bulk), errFraming)
}

// go-redis would have made room for it, or followed it: a panic of the process.
func TestAServerThatAnnouncesTooMuchIsNoDanger(t *testing.T) {
	for _, reply := range []string{
		"$9223372036854775807\r\n", "*1\r\n$9223372036854775807\r\n", "*9223372036854775807\r\n", "*1099511627776\r\n", strings.Repeat("*1\r\n", 1<<20), "%1\r\n%1\r\n:1\r\n:1\r\n:1\r\n",
	} {
		s, _ := wired(t, reply)
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorIs(t, err, errFraming, "%.40q", reply)
		require.ErrorIs(t, s.ForceRelease(t.Context(), "k"), errFraming)
	}
}

func TestAFramedConnectionShowsItsSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	socket, err := framed(redis.NewDialer(&redis.Options{}))(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer socket.Close()
	shown, ok := socket.(syscall.Conn)
	require.True(t, ok, "go-redis would not see that it has been closed")
	raw, err := shown.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(uintptr) {}))

	_, err = framed(redis.NewDialer(&redis.Options{}))(t.Context(), "tcp", "127.0.0.1:1")
	require.Error(t, err)
}
