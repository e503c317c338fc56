package redisson

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisson"
	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// pair is a server, or a cluster, with a process of Redisson and a store of each kind.
type pair struct {
	*testing.T
	java   *peer
	server *testredis.Server // nil with a cluster
	rdb    redis.UniversalClient
	wait   time.Duration
	stores map[string]*redisson.Store
	goes   map[string]*lock.Client
}

// logAll makes a server log the latest commands. See awaitWaiter.
var logAll = []string{"--slowlog-log-slower-than", "0", "--slowlog-max-len", "1000"}

// newPair starts a server and a peer.
func newPair(t *testing.T, wait time.Duration) *pair {
	t.Helper()
	server := testredis.Start(t, logAll...)
	addr := "single:" + server.Addr()
	p := &pair{T: t, server: server, rdb: server.Client(t), wait: wait, java: startPeer(t, peerOptions{addr: addr, fairWait: wait})}
	return p.withClients()
}

// withClients sets the stores and clients of Go.
func (p *pair) withClients() *pair {
	p.Helper()
	report.Note("server: Redis %s", p.version())
	p.stores, p.goes = p.more()
	return p
}

// more returns further stores and clients.
func (p *pair) more() (map[string]*redisson.Store, map[string]*lock.Client) {
	p.Helper()
	stores, clients, err := newClients(p.rdb, p.wait)
	require.NoError(p, err)
	p.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close(context.Background())
		}
	})
	return stores, clients
}

func (p *pair) version() string {
	p.Helper()
	info, err := p.rdb.Info(p.Context(), "server").Result()
	require.NoError(p, err)
	_, rest, found := strings.Cut(info, "redis_version:")
	require.True(p, found)
	return strings.Fields(rest)[0]
}

// run runs a part of a test.
func (p *pair) run(name string, f func(p *pair)) {
	p.Helper()
	p.Run(name, func(t *testing.T) {
		q := *p
		q.T, q.java.t = t, t
		f(&q)
	})
}

// patient returns a copy of p whose locks last for a minute, so that only messages wake waiters.
func (p *pair) patient() *pair {
	q := *p
	q.goes = make(map[string]*lock.Client)
	for kind, c := range p.goes {
		q.goes[kind] = c.With(lock.Terms{TTL: lease})
	}
	return &q
}

func (p *pair) locker(kind, key string) lock.Locker { return locker(p.goes, kind, key) }

func (p *pair) lock(kind, key string) *lock.Held {
	p.Helper()
	h, err := p.locker(kind, key).Lock(p.Context())
	require.NoError(p, err)
	return h
}

func (p *pair) unlock(h *lock.Held) {
	p.Helper()
	require.NoError(p, h.Unlock(p.Context()))
}

// refused expects that TryLock finds the lock taken.
func (p *pair) refused(kind, key string) {
	p.Helper()
	_, err := p.locker(kind, key).TryLock(p.Context())
	require.ErrorIs(p, err, lock.ErrNotAcquired)
}

// granted is the end of a Lock.
type granted struct {
	held *lock.Held
	at   time.Time
	err  error
}

// later calls Lock on another goroutine.
func (p *pair) later(l lock.Locker) chan granted {
	c := make(chan granted, 1)
	go func() {
		h, err := l.Lock(p.Context())
		c <- granted{h, time.Now(), err}
	}()
	return c
}

// get returns the result of a Lock, which must have the lock within the limit.
func (p *pair) get(c chan granted, limit time.Duration) granted {
	p.Helper()
	select {
	case g := <-c:
		require.NoError(p, g.err)
		return g
	case <-time.After(limit):
		require.Fail(p, "the waiter has not got the lock")
	}
	return granted{}
}

// awaitWaiter waits until a client has subscribed to a channel of the key and has then asked for the
// key again. From then on, only a message or the end of the lease wakes it. A subscription alone
// would not show that: until the answer to its second request the waiter may get the lock without a message.
func (p *pair) awaitWaiter(key string) {
	p.Helper()
	node := p.node(key)
	require.Eventually(p, func() bool {
		entries, err := node.SlowLogGet(p.Context(), -1).Result() // the latest first
		return err == nil && askedAgain(entries, key)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(p, node.Do(p.Context(), "SLOWLOG", "RESET").Err())
}

func askedAgain(entries []redis.SlowLog, key string) bool {
	asked := false
	for _, e := range entries {
		switch name := strings.ToLower(e.Args[0]); {
		case name == "subscribe" || name == "ssubscribe":
			if asked && strings.Contains(e.Args[1], "{"+key+"}") {
				return true
			}
		case slices.Contains(e.Args, key):
			asked = true
		}
	}
	return false
}

// node returns a client of the server that has a key.
func (p *pair) node(key string) *redis.Client {
	p.Helper()
	switch rdb := p.rdb.(type) {
	case *redis.ClusterClient:
		node, err := rdb.MasterForKey(p.Context(), key)
		require.NoError(p, err)
		return node
	case *redis.Client:
		return rdb
	}
	return nil
}

// queued waits until a fair lock has so many waiters.
func (p *pair) queued(key string, n int) {
	p.Helper()
	require.Eventually(p, func() bool {
		info, err := p.goes["fair"].Inspect(p.Context(), key)
		return err == nil && info.Waiting == n
	}, time.Minute, time.Millisecond)
}

func microTime(t testing.TB, text string) time.Time {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return time.UnixMicro(n)
}

// add adds 1 to a counter within the lock.
func (p *pair) add(l lock.Locker, counters ...string) bool {
	h, err := l.Lock(p.Context())
	if !assert.NoError(p, err) {
		return false
	}
	for _, counter := range counters {
		p.addHeld(counter)
	}
	return assert.NoError(p, h.Unlock(p.Context()))
}

// addHeld adds by a read and a write, so that two holders at a time lose an addition.
func (p *pair) addHeld(counter string) {
	n := p.value(counter)
	assert.NoError(p, p.rdb.Set(p.Context(), counter, n+1, 0).Err())
}

// value returns a counter, which may be missing.
func (p *pair) value(counter string) int {
	n, err := p.rdb.Get(p.Context(), counter).Int()
	if !errors.Is(err, redis.Nil) {
		assert.NoError(p, err)
	}
	return n
}
