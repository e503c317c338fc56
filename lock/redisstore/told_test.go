package redisstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Tests of holders that learn of lost data before their next renewal is due.

// longTTL leaves time for a fail-over before the first renewal, which is due half a period after the lock was taken.
const longTTL = 2 * time.Minute

// longHolder holds locks with a long TTL.
type longHolder struct {
	held    []*lock.Held
	next    time.Time    // a renewal may be due then, not before
	renewed atomic.Int64 // leases, so far

	mu      sync.Mutex // guards batches
	batches []renewal.BatchInfo
}

// holdLong holds locks of a store. It closes the store when the test ends.
func holdLong(t *testing.T, store driver.Store, n int) *longHolder {
	t.Helper()
	h := new(longHolder)
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: longTTL}, Hooks: &lock.Hooks{
		BatchDone: func(b renewal.BatchInfo) {
			h.renewed.Add(int64(b.Renewed))
			h.mu.Lock()
			defer h.mu.Unlock()
			h.batches = append(h.batches, b)
		},
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Logf("%+v", h.batches)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx) // fails if the server does not answer
		_ = store.(io.Closer).Close()
	})
	h.next = time.Now().Add(longTTL/6 - longTTL/300)
	for i := range n {
		held, err := client.Mutex(fmt.Sprint("told ", i)).Lock(t.Context())
		require.NoError(t, err)
		h.held = append(h.held, held)
	}
	return h
}

// of returns a store on the server of a client. holdLong closes it.
func of(t testing.TB, rdb redis.UniversalClient) driver.Store {
	t.Helper()
	s, err := New(rdb, nil)
	require.NoError(t, err)
	return s
}

// awaitStanding waits until a client has sent nothing but PING and INFO.
func awaitStanding(t *testing.T, rdb *redis.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		list := rdb.ClientList(t.Context()).Val()
		return strings.Contains(list, " cmd=ping ") || strings.Contains(list, " cmd=info ")
	}, 10*time.Second, 5*time.Millisecond)
}

// assertTold checks that the holders are told because the store denies the locks, before a renewal is due.
func assertTold(t *testing.T, held []*lock.Held, next time.Time) {
	t.Helper()
	began := time.Now()
	for _, h := range held {
		select {
		case <-h.Done():
		case <-time.After(time.Until(next)):
			require.Fail(t, "the holder is told by a regular renewal", h.Key())
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		require.Equal(t, renewal.CauseFailover, lost.Cause(), lost.Seen())
	}
	t.Logf("told after %v", time.Since(began))
}

func TestARestartWithoutDataIsTold(t *testing.T) {
	t.Parallel()
	for how, connect := range map[string]func(t *testing.T, s *testredis.Server) *redis.Client{
		"directly":       func(t *testing.T, s *testredis.Server) *redis.Client { return s.Client(t) },
		"behind a proxy": func(t *testing.T, s *testredis.Server) *redis.Client { return testredis.StartProxy(t, s).Client(t) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := testredis.Start(t)
			h := holdLong(t, of(t, connect(t, server)), 3)
			awaitStanding(t, server.Client(t))
			server.Kill()
			require.NoError(t, server.Restart())
			assertTold(t, h.held, h.next)
		})
	}
}

// Locks that are all there are kept, and the next renewal comes when it would have come.
func TestARestartWithDataTellsNobody(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	h := holdLong(t, of(t, server.Client(t)), 1)
	awaitStanding(t, server.Client(t))
	deadline := h.held[0].Deadline()
	server.Kill()
	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool { return h.renewed.Load() > 0 }, time.Until(h.next), 5*time.Millisecond, "the lock is verified")
	require.NoError(t, h.held[0].Err())
	assert.Greater(t, h.held[0].Deadline(), deadline)
}

// A quorum keeps a lock that one of its members has lost.
func TestAQuorumIsToldWhenItsMajorityIsGone(t *testing.T) {
	t.Parallel()
	servers, clients := three(t)
	h := holdLong(t, quorumOf(t, "lw:", clients), 3)
	for _, rdb := range clients {
		awaitStanding(t, rdb)
	}
	servers[0].Kill()
	require.NoError(t, servers[0].Restart())
	require.Eventually(t, func() bool { return h.renewed.Load() == 3 }, time.Until(h.next), 5*time.Millisecond, "the locks are verified")
	for _, held := range h.held {
		require.NoError(t, held.Err())
	}
	assert.Zero(t, clients[0].Exists(t.Context(), "lw:{told 0}").Val(), "no renewal grants a copy")
	servers[1].Kill()
	require.NoError(t, servers[1].Restart())
	assertTold(t, h.held, h.next)
}

// A user may not ask for the run_id, nor send PING. The connection ends all the same.
func TestARestartIsToldWithoutRights(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	admin := server.Client(t)
	if !hasUsers(t, admin) {
		t.Skip("this server has no users")
	}
	allow := func() {
		user := testredis.ChannelRules("acl", "setuser", "few", "on", ">secret", "~*", "&*", "+@all", "-info", "-ping")
		require.NoError(t, admin.Do(t.Context(), user...).Err())
	}
	allow()
	options := *admin.Options()
	options.Username, options.Password = "few", "secret"
	rdb := redis.NewClient(&options)
	defer rdb.Close()
	h := holdLong(t, of(t, rdb), 1)
	awaitStanding(t, admin)
	server.Kill()
	require.NoError(t, server.Restart())
	allow()
	select {
	case <-h.held[0].Done():
	case <-time.After(time.Until(h.next)):
		require.Fail(t, "the holder is told by a regular renewal")
	}
}

// Nobody listens to the address for a while. The dials are few.
func TestTheDialsToADeadServerAreBounded(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	var dials atomic.Int64
	options := *server.Client(t).Options()
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	rdb := redis.NewClient(&options)
	defer rdb.Close()
	holdLong(t, of(t, rdb), 1)
	awaitStanding(t, server.Client(t))
	before, began := dials.Load(), time.Now()
	server.Kill()
	require.Eventually(t, func() bool { return dials.Load() > before+20 }, 20*time.Second, 5*time.Millisecond)
	most := int64(time.Since(began)/(10*time.Millisecond)) + 2
	assert.LessOrEqual(t, dials.Load()-before, most)
}

// BenchmarkTold measures the time from the grant of a lock to a rival, after its data was lost, until its former holder is
// told. Run it with -benchtime 1x or more.
func BenchmarkTold(b *testing.B) {
	b.Run("restart", func(b *testing.B) {
		benchmarkTold(b, []int{200, 100_000}, func(b *testing.B) (redis.UniversalClient, func()) {
			server := testredis.Start(b)
			return server.Client(b), func() {
				server.Kill()
				require.NoError(b, server.Restart())
			}
		})
	})
	b.Run("Sentinel, the master dies", func(b *testing.B) {
		benchmarkTold(b, []int{200}, func(b *testing.B) (redis.UniversalClient, func()) {
			s := startSentinel(b)
			return s.client(b), func() {
				forgetAll(b, s.replica)
				s.master.Kill()
			}
		})
	})
	b.Run("Sentinel, the master is demoted", func(b *testing.B) {
		benchmarkTold(b, []int{200}, func(b *testing.B) (redis.UniversalClient, func()) {
			s := startSentinel(b)
			return s.client(b), func() {
				forgetAll(b, s.replica)
				s.demote(b)
			}
		})
	})
	for how, end := range clusterFailovers {
		b.Run("cluster, the master is "+how, func(b *testing.B) {
			benchmarkTold(b, []int{200}, func(b *testing.B) (redis.UniversalClient, func()) {
				c := testredis.StartCluster(b, 3, true, "--cluster-node-timeout", "1000")
				return c.Client(b), func() {
					forgetAll(b, c.Replicas[0])
					end(b, c)
				}
			})
		})
	}
}

func benchmarkTold(b *testing.B, counts []int, start func(b *testing.B) (rdb redis.UniversalClient, lose func())) {
	b.Helper()
	for _, n := range counts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				rdb, lose := start(b)
				took = append(took, measureTold(b, rdb, n, lose)...)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-worst")
			b.ReportMetric(float64(len(took)), "locks")
		})
	}
}

// measureTold holds n locks, loses data, and has a rival take some of the locks that are lost. It returns how long after each
// grant the former holder was told.
func measureTold(b *testing.B, rdb redis.UniversalClient, n int, lose func()) []time.Duration {
	b.Helper()
	const most = 200 // locks that the rival takes
	open := func() *lock.Client {
		c, err := lock.New(of(b, rdb), &lock.Options{Terms: lock.Terms{TTL: ttl30}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Close(ctx)
		})
		return c
	}
	client, rival := open(), open()
	held := make([]*lock.Held, n)
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := g; i < n; i += 64 {
				h, err := client.Mutex(fmt.Sprint("k", i)).Lock(b.Context())
				if err == nil {
					held[i] = h
				}
			}
		})
	}
	all.Wait()
	require.NotContains(b, held, (*lock.Held)(nil))
	lose()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var first sync.Once
	var mu sync.Mutex
	var took []time.Duration
	for i := 0; i < n; i += n / most {
		all.Go(func() {
			for {
				if _, err := rival.Mutex(fmt.Sprint("k", i)).TryLock(ctx); err == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
				if ctx.Err() != nil { // it is not lost
					return
				}
			}
			granted := time.Now()
			first.Do(func() { time.AfterFunc(ttl30/2, cancel) })
			select {
			case <-held[i].Done():
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(granted))
			case <-ctx.Done():
			}
		})
	}
	all.Wait()
	return took
}
