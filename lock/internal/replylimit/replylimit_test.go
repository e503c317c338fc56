package replylimit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValidRepliesAreAccepted(t *testing.T) {
	for _, stream := range []string{
		"", "+OK\r\n", "-ERR x\r\n", ":17\r\n", ":-1\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$5\r\na\r\n*9\r\n",
		"*2\r\n*2\r\n:1\r\n*0\r\n$2\r\n*1\r\n", "*1\r\n*1\r\n:1\r\n+OK\r\n*1\r\n*-1\r\n:1\r\n", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
		"$" + strconv.Itoa(maxBulk) + "\r\n", "*" + strconv.Itoa(maxElements) + "\r\n", "-" + strings.Repeat("x", maxLine-3) + "\r\n",
	} {
		var whole Scanner
		require.NoError(t, whole.Scan([]byte(stream)), "%.100q", stream)
		if len(stream) > 1000 {
			continue
		}
		var s Scanner
		for i := range len(stream) { // byte by byte
			require.NoError(t, s.Scan([]byte(stream[i:i+1])), "%q", stream)
		}
		assert.Equal(t, whole.bulk, s.bulk)
		assert.Len(t, s.arrays, len(whole.arrays))
	}
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "+OK\n", "x\r\n", "HTTP/1.1 400\r\n", "_\r\n", "%1\r\n", ">1\r\n", "|1\r\n", "(1\r\n", "$\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$1.0\r\n", "*99999999999999999999\r\n",
		"$" + strconv.Itoa(maxBulk+1) + "\r\n", "*" + strconv.Itoa(maxElements+1) + "\r\n", strings.Repeat("*1\r\n", maxDepth+1), "-" + strings.Repeat("x", maxLine),
	} {
		var s Scanner
		err := s.Scan([]byte(stream))
		require.ErrorIs(t, err, ErrInvalid, "%.100q", stream)
		require.ErrorIs(t, s.Scan([]byte("+OK\r\n")), ErrInvalid, "the error is permanent")
	}
}

func TestTheWholeReplyIsBounded(t *testing.T) {
	bulk := []byte("$" + strconv.Itoa(maxBulk) + "\r\n" + strings.Repeat("x", maxBulk) + "\r\n")
	var many, one Scanner
	require.NoError(t, one.Scan([]byte("*1000\r\n")))
	for range maxReply / maxBulk {
		require.NoError(t, many.Scan(bulk), "each is a separate reply")
	}
	for range maxReply/maxBulk - 1 {
		require.NoError(t, one.Scan(bulk))
	}
	require.ErrorIs(t, one.Scan(bulk), ErrInvalid)
}

func TestNoSecretIsQuoted(t *testing.T) {
	var f Scanner
	require.NoError(t, f.Scan([]byte("+OK\r\n")))
	assert.EqualError(t, f.Scan([]byte("secret\r\n")), ErrInvalid.Error(), "after a reply")
	f = Scanner{}
	assert.EqualError(t, f.Scan([]byte("*2\r\nsecret\r\n")), notRedisError{[]byte("*2")}.Error(), "within a reply")
}
