package crash

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ends are when the locks with these tokens end, by the server's clock, which is
// that of this host. A lock that has another token, or has ended, is not among them.
func ends(t testing.TB, rdb *redis.Client, tokens map[string]uint64) map[string]time.Time {
	t.Helper()
	pipe := rdb.Pipeline()
	values, times := map[string]*redis.StringCmd{}, map[string]*redis.DurationCmd{}
	for key := range tokens {
		values[key] = pipe.Get(t.Context(), lockKey(key))
		times[key] = pipe.PExpireTime(t.Context(), lockKey(key))
	}
	_, _ = pipe.Exec(t.Context()) // each has its own
	out := map[string]time.Time{}
	for key, token := range tokens {
		value, err := values[key].Result()
		if errors.Is(err, redis.Nil) || !strings.HasSuffix(value, " "+text(token)) {
			continue
		}
		require.NoError(t, err)
		if at := times[key].Val(); at > 0 {
			out[key] = time.UnixMilli(at.Milliseconds())
		}
	}
	return out
}

// left is what is on the server.
type left struct {
	locks   []string // the keys of those that are held
	queues  int      // of those who wait, and their places
	endless []string
}

func whatIsLeft(t testing.TB, rdb *redis.Client) left {
	t.Helper()
	var out left
	keys, err := rdb.Keys(t.Context(), "lw:*").Result()
	require.NoError(t, err)
	pipe := rdb.Pipeline()
	var times []*redis.DurationCmd
	for _, key := range keys {
		times = append(times, pipe.PTTL(t.Context(), key))
		switch {
		case strings.HasSuffix(key, "}"):
			out.locks = append(out.locks, key)
		case strings.HasSuffix(key, "}:q"), strings.HasSuffix(key, "}:w"):
			out.queues++
		}
	}
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	for i, key := range keys {
		if times[i].Val() == -1 {
			out.endless = append(out.endless, key)
		}
	}
	return out
}

// awaitConnections returns when the server has connections of processes, or when it
// has none: then nothing that they have sent is left to be executed.
func awaitConnections(t testing.TB, rdb *redis.Client, wanted bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		list, err := rdb.ClientList(t.Context()).Result()
		require.NoError(t, err)
		if strings.Contains(list, " name="+clientName+" ") == wanted {
			return
		}
		require.Less(t, time.Since(begun), patience, "the connections of processes: %s", list)
	}
}

func lockKey(key string) string { return "lw:{" + key + "}" }

func text(token uint64) string { return strconv.FormatUint(token, 10) }
