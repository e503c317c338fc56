// The keys and the connections on the server, as the tests read them.

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

// expiries returns when the locks with these tokens expire, by the clock of the server,
// which is that of this host. It omits locks that have another token or have expired.
func expiries(t testing.TB, rdb *redis.Client, tokens map[string]uint64) map[string]time.Time {
	t.Helper()
	pipe := rdb.Pipeline()
	values, times := map[string]*redis.StringCmd{}, map[string]*redis.DurationCmd{}
	for key := range tokens {
		values[key] = pipe.Get(t.Context(), lockKey(key))
		times[key] = pipe.PExpireTime(t.Context(), lockKey(key))
	}
	_, _ = pipe.Exec(t.Context()) // each command has its own error
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

// remains are the keys on the server.
type remains struct {
	locks      []string // keys of held locks
	queues     int      // keys of queues and places
	persistent []string
}

func listRemains(t testing.TB, rdb *redis.Client) remains {
	t.Helper()
	var out remains
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
			out.persistent = append(out.persistent, key)
		}
	}
	return out
}

// awaitConnections waits until the server has connections of child processes, or until it
// has none. Then it has executed all of their requests.
func awaitConnections(t testing.TB, rdb *redis.Client, wanted bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		list, err := rdb.ClientList(t.Context()).Result()
		require.NoError(t, err)
		if strings.Contains(list, " name="+clientName+" ") == wanted {
			return
		}
		require.Less(t, time.Since(begun), timeout, "connections of child processes: %s", list)
	}
}

func lockKey(key string) string { return "lw:{" + key + "}" }

func text(token uint64) string { return strconv.FormatUint(token, 10) }
