package redisconn

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestReplyScannerAcceptsValidReplies(t *testing.T) {
	for _, stream := range []string{
		"", "+OK\r\n", "-ERR x\r\n", ":17\r\n", ":-1\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$5\r\na\r\n*9\r\n",
		"*2\r\n*2\r\n:1\r\n*0\r\n$2\r\n*1\r\n", "*1\r\n*1\r\n:1\r\n+OK\r\n*1\r\n*-1\r\n:1\r\n", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
		"$" + strconv.Itoa(maxBulk) + "\r\n", "*" + strconv.Itoa(maxElements) + "\r\n", "-" + strings.Repeat("x", maxLine-3) + "\r\n",
	} {
		var whole replyScanner
		require.NoError(t, whole.scan([]byte(stream)), "%.100q", stream)
		if len(stream) > 1000 {
			continue
		}
		var s replyScanner
		for i := range len(stream) { // byte by byte
			require.NoError(t, s.scan([]byte(stream[i:i+1])), "%q", stream)
		}
		assert.Equal(t, whole.bulk, s.bulk)
		assert.Len(t, s.arrays, len(whole.arrays))
	}
}

func TestReplyScannerRejectsInvalidReplies(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "+OK\n", "x\r\n", "HTTP/1.1 400\r\n", "_\r\n", "%1\r\n", ">1\r\n", "|1\r\n", "(1\r\n", "$\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$1.0\r\n", "*99999999999999999999\r\n",
		"$" + strconv.Itoa(maxBulk+1) + "\r\n", "*" + strconv.Itoa(maxElements+1) + "\r\n", strings.Repeat("*1\r\n", maxDepth+1), "-" + strings.Repeat("x", maxLine),
	} {
		var s replyScanner
		err := s.scan([]byte(stream))
		require.ErrorIs(t, err, errInvalidReply, "%.100q", stream)
		require.ErrorIs(t, s.scan([]byte("+OK\r\n")), errInvalidReply, "the error is permanent")
	}
}

func TestReplyScannerBoundsTheWholeReply(t *testing.T) {
	bulk := []byte("$" + strconv.Itoa(maxBulk) + "\r\n" + strings.Repeat("x", maxBulk) + "\r\n")
	var many, one replyScanner
	require.NoError(t, one.scan([]byte("*1000\r\n")))
	for range maxReply / maxBulk {
		require.NoError(t, many.scan(bulk), "each is a separate reply")
	}
	for range maxReply/maxBulk - 1 {
		require.NoError(t, one.scan(bulk))
	}
	require.ErrorIs(t, one.scan(bulk), errInvalidReply)
}

// go-redis alone would allocate the announced length, or recurse, and crash the process.
func TestOversizedRepliesDoNotCrashTheProcess(t *testing.T) {
	for _, reply := range []string{
		"$9223372036854775807\r\n", "*1\r\n$9223372036854775807\r\n", "*9223372036854775807\r\n", "*1099511627776\r\n", strings.Repeat("*1\r\n", 1<<20), "%1\r\n%1\r\n:1\r\n:1\r\n:1\r\n",
	} {
		w := &testredis.Wire{Answer: func([]string) string { return reply }}
		c := newClient(t, w.Client(t, redis.Options{}), Options{})
		require.ErrorIs(t, runEcho(t.Context(), c, "k"), errInvalidReply, "%.40q", reply)
		require.ErrorIs(t, sendBatch(t.Context(), c, "k", 1), errInvalidReply)
	}
}
