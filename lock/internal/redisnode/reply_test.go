package redisnode

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/internal/replylimit"
)

func TestWhatIsNotRedisIsQuoted(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]struct{ greeting, want string }{
		"HTTP": {"HTTP/1.1 400 Bad Request\r\nDate: x\r\n\r\n", `the server sends "HTTP/1.1 400 Bad Request", which is no reply of Redis; is it a Redis server, and does it expect TLS?`},
		"TLS":  {"\x15\x03\x01\x00\x02\x02\x16", `the server sends "\x15\x03\x01\x00\x02\x02\x16", which is no reply`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(says.greeting))
				_ = conn.Close()
			}
		}()
		rdb := redis.NewClient(&redis.Options{Addr: l.Addr().String()})
		defer rdb.Close()
		c := newClient(t, rdb, Options{})
		require.ErrorContains(t, runEcho(context.Background(), c, "k"), says.want, name)
	}
}

// go-redis alone would allocate the announced length, or recurse, and crash the process.
func TestOversizedRepliesDoNotCrashTheProcess(t *testing.T) {
	for _, reply := range []string{
		"$9223372036854775807\r\n", "*1\r\n$9223372036854775807\r\n", "*9223372036854775807\r\n", "*1099511627776\r\n", strings.Repeat("*1\r\n", 1<<20), "%1\r\n%1\r\n:1\r\n:1\r\n:1\r\n",
	} {
		w := &testredis.Wire{Answer: func([]string) string { return reply }}
		c := newClient(t, w.Client(t, redis.Options{}), Options{})
		require.ErrorIs(t, runEcho(t.Context(), c, "k"), replylimit.ErrInvalid, "%.40q", reply)
		require.ErrorIs(t, sendBatch(t.Context(), c, "k", 1), replylimit.ErrInvalid)
	}
}
