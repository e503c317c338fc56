package real

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// failover is a row of the table in docs/OPERATIONS.md: the cost of a fail-over.
type failover struct {
	of      string // "cluster-node-timeout" or "down-after-milliseconds"
	ms      int
	lost    int
	all     int
	advised bool
}

var failoverRow = regexp.MustCompile("(?m)^\\| `([a-z-]+) (\\d+)`([^|]*)\\|[^|]*\\| (\\d+) of (\\d+) \\|$")

// failovers parses the table.
func failovers(t *testing.T) (rows []failover) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "OPERATIONS.md"))
	require.NoError(t, err)
	for _, row := range failoverRow.FindAllStringSubmatch(string(page), -1) {
		f := failover{of: row[1], advised: strings.Contains(row[3], "advised")}
		for to, text := range map[*int]string{&f.ms: row[2], &f.lost: row[4], &f.all: row[5]} {
			*to, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
		rows = append(rows, f)
	}
	return rows
}

// TestFailoverTable checks that a fail-over with a TTL of 30 s loses as many locks as
// OPERATIONS.md says. The quick tier tests the advised settings, the long tier all rows.
func TestFailoverTable(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	rows := failovers(t)
	require.Len(t, rows, 6)
	advised := 0
	for _, row := range rows {
		if row.advised {
			advised++
			assert.LessOrEqual(t, row.worst(), ttl/3, "%+v: a lease survives if the replica serves within a third of its TTL", row)
			assert.Zero(t, row.lost, "%+v", row)
		}
		if row.advised || simreport.IsLong() {
			t.Run(fmt.Sprint(row.of, " ", row.ms), func(t *testing.T) {
				t.Parallel()
				row.test(t, ttl)
			})
		}
	}
	require.Equal(t, 2, advised, "one for a cluster, one for Sentinel")
}

// worst returns the longest time until the replica serves.
func (f failover) worst() time.Duration {
	detected := time.Duration(f.ms) * time.Millisecond
	if f.of == "cluster-node-timeout" {
		detected += detected / 2 // the next PING may be sent that much later
	}
	return detected + 2*time.Second
}

// test kills a master whose replica has all data, and counts the lost locks.
func (f failover) test(t *testing.T, ttl time.Duration) {
	start := startWatched
	if f.of == "cluster-node-timeout" {
		start = startReplicated
	}
	master, replicas, rdb := start(t, f.ms)
	s, err := redisstore.New(rdb, nil)
	require.NoError(t, err)
	client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = client.Close(ctx)
	}()
	var held []*lock.Held
	admin := master.Client(t)
	const want = 300 // on the master
	for i := 0; len(held) < want; i++ {
		h, err := client.Mutex(fmt.Sprint(f.of, i)).Lock(t.Context())
		require.NoError(t, err)
		if admin.Exists(t.Context(), "lw:{"+h.Key()+"}").Val() == 1 {
			held = append(held, h)
			time.Sleep(ttl / 3 / want) // spreads the renewals
		}
	}
	require.NoError(t, admin.Wait(t.Context(), 1, 10*time.Second).Err())
	master.Kill()
	died := time.Now()
	var serves time.Duration
	for serves == 0 {
		for _, r := range replicas {
			if strings.Contains(r.Info(t.Context(), "replication").Val(), "role:master") {
				serves = time.Since(died)
			}
		}
		require.Less(t, time.Since(died), 4*ttl)
		time.Sleep(50 * time.Millisecond)
	}
	lost := 0
	for _, h := range held { // renewed after the kill, or lost
		require.Eventually(t, func() bool { return h.Err() != nil || h.Deadline().After(died.Add(ttl)) }, 3*ttl, 20*time.Millisecond)
		if h.Err() != nil {
			lost++
		}
	}
	line := fmt.Sprintf("fail-over    %s %d: the replica served after %.1f s, %d of %d locks were lost", f.of, f.ms, serves.Seconds(), lost, len(held))
	t.Log(line)
	report.Add("%s", line)
	switch f.lost {
	case 0:
		assert.Zero(t, lost)
	case f.all:
		assert.Equal(t, len(held), lost)
	}
}

// startReplicated starts a cluster and returns one master and its replica.
func startReplicated(t *testing.T, nodeTimeout int) (*testredis.Server, []*redis.Client, redis.UniversalClient) {
	c := testredis.StartCluster(t, 3, true, "--cluster-require-full-coverage", "no", "--cluster-node-timeout", strconv.Itoa(nodeTimeout))
	return c.Masters[0], []*redis.Client{c.Replicas[0].Client(t)}, c.Client(t)
}

// startWatched starts a master, two replicas and three sentinels.
func startWatched(t *testing.T, downAfter int) (*testredis.Server, []*redis.Client, redis.UniversalClient) {
	const sentinels, replicas = 3, 2
	master := testredis.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	var followers []*redis.Client
	for range replicas {
		r := testredis.Start(t, "--replicaof", host, port).Client(t)
		followers = append(followers, r)
		synced := func() bool {
			return strings.Contains(r.Info(t.Context(), "replication").Val(), "master_link_status:up")
		}
		require.Eventually(t, synced, 20*time.Second, 10*time.Millisecond)
	}
	var addrs []string
	for i := range sentinels {
		path := filepath.Join(t.TempDir(), fmt.Sprint("sentinel", i, ".conf"))
		conf := fmt.Sprintf("sentinel monitor m %s %s 2\nsentinel down-after-milliseconds m %d\n", host, port, downAfter)
		require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
		addrs = append(addrs, testredis.Start(t, path, "--sentinel").Addr())
	}
	for _, addr := range addrs {
		s := redis.NewSentinelClient(&redis.Options{Addr: addr})
		defer s.Close()
		require.Eventually(t, func() bool {
			others, err := s.Sentinels(t.Context(), "m").Result()
			known, err2 := s.Replicas(t.Context(), "m").Result()
			return err == nil && err2 == nil && len(others) == sentinels-1 && len(known) == replicas
		}, 30*time.Second, 50*time.Millisecond)
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	return master, followers, rdb
}
