package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// The keys of a slot are on two nodes, or move back and forth.
func TestLocksWhileASlotMoves(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false)
	t.Run("renewals", func(t *testing.T) { renewalsOfASplitSlot(t, c) })
	t.Run("losses", func(t *testing.T) { lossesInASplitSlot(t, c) })
	t.Run("keys return", func(t *testing.T) { requestsWhileKeysReturn(t, c) })
	t.Run("keys are missed", func(t *testing.T) { renewalsThatMissTheKey(t, c) })
}

var renewed = []renewal.Outcome{renewal.Renewed}

// leasesOfAllModes yields two leases in each mode, the second one with Attrs.Yields. It acquires a lease right before it is used, so
// that none expires meanwhile on a slow machine.
func leasesOfAllModes(t *testing.T, s *Store) iter.Seq[driver.Lease] {
	t.Helper()
	return func(yield func(driver.Lease) bool) {
		for mode := driver.Exclusive; mode <= driver.Members; mode++ {
			for _, yields := range []bool{false, true} {
				r := request(fmt.Sprint(mode, yields))
				r.Mode, r.Attrs = mode, &driver.Attrs{Limit: 1, Members: []string{"m"}, Yields: yields}
				if !yield(acquire(t, s, r)) {
					return
				}
			}
		}
	}
}

// migrate moves a key of a migrating slot from one node to the other.
func migrate(t *testing.T, key string, from, to *testredis.Server) {
	t.Helper()
	host, port := splitAddr(t, to)
	require.NoError(t, from.Client(t).Do(t.Context(), "migrate", host, port, key, 0, 5000).Err())
}

// migrateBack moves keys back to the node that serves their slot. The slot is migrating again
// when migrateBack returns.
func migrateBack(ctx context.Context, slot int, from, to *testredis.Server, keys ...string) error {
	source, target := redis.NewClient(&redis.Options{Addr: from.Addr()}), redis.NewClient(&redis.Options{Addr: to.Addr()})
	defer source.Close()
	defer target.Close()
	id, err := target.Do(ctx, "cluster", "myid").Result()
	if err != nil {
		return err
	}
	if err := source.Do(ctx, "cluster", "setslot", slot, "stable").Err(); err != nil { // otherwise the node would not accept the keys
		return err
	}
	host, port, _ := net.SplitHostPort(from.Addr())
	for _, key := range keys {
		if err := target.Do(ctx, "migrate", host, port, key, 0, 5000).Err(); err != nil {
			return err
		}
	}
	return source.Do(ctx, "cluster", "setslot", slot, "migrating", id).Err()
}

// behindAsking sends ASKING and a command to the node that imports a slot.
func behindAsking(t *testing.T, s *testredis.Server, args ...any) any {
	t.Helper()
	conn := s.Client(t).Conn()
	defer conn.Close()
	require.NoError(t, conn.Do(t.Context(), "asking").Err())
	v, err := conn.Do(t.Context(), args...).Result()
	require.NoError(t, err)
	return v
}

// renewalsOfASplitSlot checks that a lease is renewed to its full TTL wherever its keys are,
// and that its records outlast it.
func renewalsOfASplitSlot(t *testing.T, c *testredis.Cluster) {
	s := newStore(t, c.Client(t), &Options{Prefix: "half:"})
	for l := range leasesOfAllModes(t, s) {
		from, to, slot := openSlot(t, c, s.lockKey(l.Key))
		keys := from.Client(t).ClusterGetKeysInSlot(t.Context(), slot, 10).Val()
		for _, key := range keys { // the keys leave one after another
			migrate(t, key, from, to)
			for where, server := range map[string]*testredis.Server{"old": from, "new": to} {
				for _, k := range server.Client(t).ClusterGetKeysInSlot(t.Context(), slot, 10).Val() {
					if server == to {
						behindAsking(t, to, "pexpire", k, 20_000)
					} else {
						require.NoError(t, from.Client(t).PExpire(t.Context(), k, 20*time.Second).Err(), where)
					}
				}
			}
			began := time.Now()
			require.Equal(t, renewed, renew(t, s, l), "%v, after %s has moved", l.Mode, key)
			for _, server := range []*testredis.Server{from, to} {
				for _, k := range server.Client(t).ClusterGetKeysInSlot(t.Context(), slot, 10).Val() {
					left := behindAskingIf(t, server == to, server, "pttl", k)
					switch strings.TrimPrefix(k, s.lockKey(l.Key)) {
					case "":
						assert.LessOrEqual(t, left, ttl30.Milliseconds()+1, k) // a shared lease ends at a whole millisecond, rounded up
						assert.Greater(t, left, (ttl30 - time.Since(began) - 100*time.Millisecond).Milliseconds(), k)
					case recordsEnd, membersEnd:
						assert.Greater(t, left, 2*ttl30.Milliseconds(), k)
					}
				}
			}
		}
		require.NoError(t, c.Move(t.Context(), slot, from, to))
		require.Equal(t, renewed, renew(t, s, l))
		require.NoError(t, s.Release(t.Context(), l))
	}
}

func behindAskingIf(t *testing.T, asking bool, s *testredis.Server, args ...any) any {
	t.Helper()
	if asking {
		return behindAsking(t, s, args...)
	}
	return s.Client(t).Do(t.Context(), args...).Val()
}

// lossesInASplitSlot checks that a lease is not lost because the importing node lacks its
// key, and that the other leases of the batch are renewed.
func lossesInASplitSlot(t *testing.T, c *testredis.Cluster) {
	lost := []renewal.Outcome{renewal.Lost}
	s := newStore(t, c.Client(t), &Options{Prefix: "lost:"})
	mate := acquire(t, s, request("mate"))
	for l := range leasesOfAllModes(t, s) {
		key := s.lockKey(l.Key)
		from, to, slot := openSlot(t, c, key)
		migrate(t, key, from, to)
		if l.Mode != driver.Exclusive {
			other := l
			other.Token++
			assert.Equal(t, lost, renew(t, s, other), "%v: the serving node has the records, which show the loss", l.Mode)
		}
		assert.Equal(t, renewed, renew(t, s, l), "%v", l.Mode)
		behindAsking(t, to, "del", key)
		out := make([]renewal.Outcome, 2)
		require.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{l, mate}, out), rediskit.ErrElsewhere, "%v", l.Mode)
		assert.Equal(t, []renewal.Outcome{renewal.Unknown, renewal.Renewed}, out)
		require.NoError(t, c.Move(t.Context(), slot, from, to))
		assert.Equal(t, lost, renew(t, s, l), "%v: the slot has moved", l.Mode)
	}
}

// carrier is a cluster client that can move keys before it sends a command.
type carrier struct {
	rdb *redis.ClusterClient

	mu     sync.Mutex // guards before
	before func(addr string, sent []byte)
}

func newCarrier(t *testing.T, c *testredis.Cluster) *carrier {
	r := new(carrier)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return carried{conn, r, addr}, err
	}
	r.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Dialer: dial})
	t.Cleanup(func() { _ = r.rdb.Close() })
	return r
}

// call sets a function that is called before anything is sent to a node, or nil.
func (r *carrier) call(f func(addr string, sent []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

type carried struct {
	net.Conn
	by   *carrier
	addr string
}

func (c carried) Write(p []byte) (int, error) {
	c.by.mu.Lock()
	before := c.by.before
	c.by.mu.Unlock()
	if before != nil {
		before(c.addr, p)
	}
	return c.Conn.Write(p)
}

// requestsWhileKeysReturn moves all keys back between an ASK and the request that follows
// ASKING. The result of a request must not come from the node that lacks the keys.
func requestsWhileKeysReturn(t *testing.T, c *testredis.Cluster) {
	for mode := driver.Exclusive; mode <= driver.Members; mode++ {
		for _, verb := range []string{"renew", "release", "acquire", "inspect"} {
			t.Run(fmt.Sprint(mode, " ", verb), func(t *testing.T) {
				carrier := newCarrier(t, c)
				s := newStore(t, carrier.rdb, &Options{Prefix: "fro:", Timeout: long})
				r := request(t.Name())
				r.Mode, r.Attrs = mode, &driver.Attrs{Limit: 1, Members: []string{"m"}}
				l := acquire(t, s, r)
				from, to, slot := openSlot(t, c, s.lockKey(l.Key))
				keys := from.Client(t).ClusterGetKeysInSlot(t.Context(), slot, 10).Val()
				for _, key := range keys {
					migrate(t, key, from, to)
				}
				back := make(chan struct{})
				carrier.call(func(addr string, sent []byte) {
					if addr == to.Addr() && bytes.Contains(sent, []byte("asking")) {
						carrier.call(nil)
						assert.NoError(t, migrateBack(context.Background(), slot, from, to, keys...))
						close(back)
					}
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					switch verb {
					case "renew":
						assert.Equal(t, renewed, renew(t, s, l), "the serving node has the key again")
					case "release":
						assert.NoError(t, s.Release(t.Context(), l))
					case "acquire":
						another := r
						if another.Owner = "another:1"; mode == driver.Read {
							another.Mode = driver.Write
						}
						var held *driver.HeldError
						_, err := s.Acquire(t.Context(), another)
						assert.ErrorAs(t, err, &held)
					case "inspect":
						info, err := s.Inspect(t.Context(), l.Key)
						assert.NoError(t, err)
						assert.Equal(t, 1, info.Held)
					}
				}()
				<-back
				if verb == "renew" {
					<-done
				}
				require.NoError(t, c.Move(t.Context(), slot, from, to)) // the other requests wait until the slot has moved
				<-done
			})
		}
	}
}

// renewalsThatMissTheKey checks that a lease is unknown, and not lost, if its key is always on
// the other node.
func renewalsThatMissTheKey(t *testing.T, c *testredis.Cluster) {
	carrier := newCarrier(t, c)
	s := newStore(t, carrier.rdb, &Options{Prefix: "never:"})
	for l := range leasesOfAllModes(t, s) {
		key := s.lockKey(l.Key)
		from, to, slot := openSlot(t, c, key)
		carrier.call(func(addr string, sent []byte) {
			switch there := behindAsking(t, to, "exists", key) == int64(1); {
			case bytes.Contains(sent, []byte("asking")) && there:
				assert.NoError(t, migrateBack(context.Background(), slot, from, to, key))
			case bytes.Contains(sent, []byte("eval")) && !bytes.Contains(sent, []byte("asking")) && !there:
				migrate(t, key, from, to)
			}
		})
		require.ErrorIs(t, unknown(t.Context(), t, s, l), rediskit.ErrElsewhere, "%v", l.Mode)
		carrier.call(nil)
		assert.Equal(t, renewed, renew(t, s, l), "%v", l.Mode)
		require.NoError(t, c.Move(t.Context(), slot, from, to))
		require.NoError(t, s.Release(t.Context(), l))
	}
}
