package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestLeasesSurviveAServerThatHangsForHalfATTL(t *testing.T) {
	t.Parallel()
	// The rest of a lease when its renewal is due must outlast the silence, with a reserve
	// for a busy machine: 1.4 s here.
	const ttl = 10 * time.Second
	onEngines(t, stackOptions{ttl: ttl}, func(t *testing.T, l *stack) {
		require.NoError(t, l.server.Stop())
		time.Sleep(ttl / 2)
		require.NoError(t, l.server.Cont())
		time.Sleep(ttl / 2)
		l.assertHeld(t)
		assert.Zero(t, l.client.Stats().Renewal.Lost())
	})
}

func TestHoldersLearnInTimeOfAServerThatHangsForTwoTTLs(t *testing.T) {
	t.Parallel()
	const ttl = 3 * stackTTL
	onEngines(t, stackOptions{ttl: ttl, margin: wide}, func(t *testing.T, l *stack) {
		require.NoError(t, l.server.Stop())
		stopped := time.Now()
		tokens := map[string]uint64{}
		var wg sync.WaitGroup
		for _, h := range l.held {
			tokens[h.Key()] = h.Token()
			wg.Go(func() {
				deadline := lastDeadline(h)
				// The server keeps the key until a TTL after the last confirmed request was
				// sent, which is after this instant.
				assert.Less(t, time.Since(deadline), wide+ttl/100, "%s: the holder learns of the loss before another client can get the lock", h.Key())
			})
		}
		wg.Wait()
		l.waitLost(t)
		time.Sleep(2*ttl - time.Since(stopped))
		require.NoError(t, l.server.Cont())

		other, err := New(l.rdb, nil)
		require.NoError(t, err)
		defer other.Close()
		for _, h := range l.held {
			r := request(h.Key())
			lease, err := other.Acquire(t.Context(), r)
			var held *driver.HeldError
			if errors.As(err, &held) { // the server was stopped while it renewed this lease
				time.Sleep(held.ExpiresIn + 5*time.Millisecond)
				lease, err = other.Acquire(t.Context(), r)
			}
			require.NoError(t, err, "the lock is free a TTL after the last request")
			assert.Greater(t, lease.Token, tokens[h.Key()])
		}
		for _, h := range l.held {
			require.ErrorIs(t, h.Unlock(t.Context()), driver.ErrLost)
			_, err := other.Acquire(t.Context(), request(h.Key()))
			require.ErrorIs(t, err, driver.ErrNotAcquired, "the late Unlock does not release the lease of the next holder")
		}
	})
}

// lastDeadline waits for the end of a lease and returns its last deadline. A reply that has
// left the server may still move the deadline.
func lastDeadline(h *lock.Held) time.Time {
	deadline := h.Deadline()
	for {
		select {
		case <-h.Done():
			return deadline
		case <-time.After(10 * time.Millisecond):
			if d := h.Deadline(); !d.IsZero() {
				deadline = d
			}
		}
	}
}

func TestLeasesSurviveBrokenConnections(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	proxy := testredis.StartProxy(t, server)
	const ttl = 3 * stackTTL
	l := newStack(t, proxy.Client(t), stackOptions{ttl: ttl})
	time.Sleep(ttl / 6) // all leases were renewed in the half period before
	for range 10 {      // within the next half period: no second try is hit
		proxy.Block() // so that there are unanswered requests
		time.Sleep(ttl / 60)
		proxy.Reset()
		proxy.Unblock()
	}
	l.renewedAfter(t, time.Now())
	l.assertHeld(t)
	assert.NotZero(t, l.client.Stats().Renewal.Unknown)
	for _, h := range l.held {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// Each client has no options but names, of which one is unknown if there are several. The servers get other addresses.
func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	unknown := testproxy.NewName() + ":1"
	oneServer := func(move func(*testproxy.Moved)) func(t *testing.T) (redis.UniversalClient, func()) {
		return func(t *testing.T) (redis.UniversalClient, func()) {
			moved := testproxy.NewMoved(t, testredis.Start(t).Addr())
			return redis.NewClient(&redis.Options{Addr: moved.Addr()}), func() { move(moved) }
		}
	}
	for name, start := range map[string]func(t *testing.T) (rdb redis.UniversalClient, move func()){
		"one server":                                 oneServer(testproxy.Moves["refused"]),
		"one server, old address silent":             oneServer(testproxy.Moves["silent"]),
		"one server, old address silent when dialed": oneServer(testproxy.Moves["silent when dialed"]),
		"a cluster whose nodes have names": func(t *testing.T) (redis.UniversalClient, func()) {
			if !testredis.Since(7, 0) {
				t.Skip("nodes have no names before Redis 7.0")
			}
			c := testredis.StartCluster(t, 3, false)
			moved := testproxy.NewMoved(t, c.Addrs()...)
			for _, s := range c.Masters {
				admin := s.Client(t)
				require.NoError(t, admin.ConfigSet(t.Context(), "cluster-announce-hostname", moved.Name()).Err())
				require.NoError(t, admin.ConfigSet(t.Context(), "cluster-preferred-endpoint-type", "hostname").Err())
			}
			for _, s := range c.Masters {
				admin := s.Client(t)
				require.Eventually(t, func() bool {
					slots, err := admin.ClusterSlots(t.Context()).Result() //nolint:staticcheck // Redis before 7.0 has no CLUSTER SHARDS
					return err == nil && !slices.ContainsFunc(slots, func(s redis.ClusterSlot) bool {
						return !strings.HasPrefix(s.Nodes[0].Addr, moved.Name())
					})
				}, time.Minute, 10*time.Millisecond)
			}
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{unknown, moved.Addr()}}), moved.Move
		},
		"a cluster whose seeds have names": func(t *testing.T) (redis.UniversalClient, func()) {
			c := testredis.StartCluster(t, 1, false)
			moved := testproxy.NewMoved(t, c.Addrs()...)
			admin := c.Masters[0].Client(t)
			require.NoError(t, admin.ConfigSet(t.Context(), "cluster-announce-ip", "127.0.0.2").Err())
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{unknown, moved.Addr()}}), func() {
				assert.NoError(t, admin.ConfigSet(t.Context(), "cluster-announce-ip", "127.0.0.1").Err())
				moved.Move()
			}
		},
		"sentinels": func(t *testing.T) (redis.UniversalClient, func()) {
			s := startSentinel(t)
			moved := testproxy.NewMoved(t, s.addr)
			return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{unknown, moved.Addr()}}), func() {
				awaitReplica(t, s.master)
				moved.Move()
				s.master.Kill()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, move := start(t)
			t.Cleanup(func() { _ = rdb.Close() })
			s := newStore(t, rdb, new(Options))
			var leases []driver.Lease
			for i := range 10 {
				l, err := s.Acquire(t.Context(), driver.Request{Key: fmt.Sprint("k", i), Owner: "a:1", TTL: 5 * time.Minute})
				require.NoError(t, err)
				leases = append(leases, l)
			}
			out := make([]renewal.Outcome, len(leases))
			require.NoError(t, s.Renew(t.Context(), leases, out)) // so that there is a connection for renewals
			move()
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				return s.Renew(ctx, leases, out) == nil
			}, time.Minute, 10*time.Millisecond)
			for _, o := range out {
				assert.Equal(t, renewal.Renewed, o)
			}
		})
	}
}

// Tests of the whole stack on a server that fails: lock client, watchdog and either engine.

const (
	stackTTL = 2 * time.Second

	// wide is a margin that suffices on a busy machine.
	wide = 900 * time.Millisecond
)

// stack is a lock client with leases on a server of its own.
type stack struct {
	server *testredis.Server
	rdb    *redis.Client
	client *lock.Client
	ttl    time.Duration
	held   []*lock.Held
}

// stackOptions configure a stack.
type stackOptions struct {
	engine  string        // "wheel" or "heap"
	ttl     time.Duration // default lineTTL
	margin  time.Duration
	leases  int  // default 120
	durable bool // the server keeps its data when it crashes
}

func (o stackOptions) withDefaults() stackOptions {
	o.ttl = cmp.Or(o.ttl, stackTTL)
	o.leases = cmp.Or(o.leases, 120)
	return o
}

func onEngines(t *testing.T, o stackOptions, test func(t *testing.T, l *stack)) {
	t.Helper()
	for _, engine := range []string{"wheel", "heap"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := o
			o.engine = engine
			l := startStack(t, o)
			test(t, l)
		})
	}
}

// startStack starts a server and a stack on it.
func startStack(t *testing.T, o stackOptions) *stack {
	t.Helper()
	var args []string
	if o.durable {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	server := testredis.Start(t, args...)
	l := newStack(t, server.Client(t), o)
	l.server = server
	return l
}

// newStack starts a stack on the server of a client.
func newStack(t *testing.T, rdb *redis.Client, o stackOptions) *stack {
	t.Helper()
	o = o.withDefaults()
	l := &stack{rdb: rdb, ttl: o.ttl}
	store, err := New(rdb, nil)
	require.NoError(t, err)
	options := &lock.Options{Terms: lock.Terms{TTL: o.ttl}, Renewal: renewal.Policy{Margin: o.margin}}
	if o.engine == "heap" {
		heap, err := heapqueue.NewScheduler(nil)
		require.NoError(t, err)
		t.Cleanup(func() { heap.Close() })
		options.Scheduler = heap
	}
	l.client, err = lock.New(store, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, l.client.Close(ctx))
	})
	for i := range o.leases {
		h, err := l.client.Mutex(fmt.Sprint("stack:", i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	time.Sleep(o.ttl / 3) // renewals have begun
	return l
}

// assertHeld checks that every lease is held.
func (l *stack) assertHeld(t *testing.T) {
	t.Helper()
	for _, h := range l.held {
		require.NoError(t, h.Err(), h.Key())
		require.True(t, h.Valid())
	}
}

// renewedAfter waits until every held lease has been renewed by a request that was sent
// after at.
func (l *stack) renewedAfter(t *testing.T, at time.Time) {
	t.Helper()
	for _, h := range l.held {
		renewed := func() bool { return h.Err() != nil || h.Deadline().After(at.Add(l.ttl)) }
		require.Eventually(t, renewed, 3*l.ttl, 10*time.Millisecond, h.Key())
	}
}

// waitLost waits until every holder has learnt of its loss, and counts the reasons.
func (l *stack) waitLost(t *testing.T) map[renewal.Reason]int {
	t.Helper()
	reasons := map[renewal.Reason]int{}
	for _, h := range l.held {
		select {
		case <-h.Done():
		case <-time.After(5 * stackTTL):
			require.Fail(t, "no loss is reported", h.Key())
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.False(t, h.Valid())
		reasons[lost.Reason]++
	}
	return reasons
}
