package real

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

const (
	slotTTL  = 4 * time.Second
	lockName = "lock" // prefix of names; a number follows
)

// movingSlot is a slot of a real cluster that contains locks of all kinds and moves between
// two masters. All keys stay on one of the masters and all servers answer, so no lock may
// be lost.
type movingSlot struct {
	t        *testing.T
	cluster  *testredis.Cluster
	slot     int
	names    []string // names of locks in the slot
	from, to *testredis.Server
	admins   map[*testredis.Server]*redis.Client
	onAsking atomic.Pointer[func()] // called once before a request behind ASKING is sent
	mu       sync.Mutex             // held during that call
}

func newMovingSlot(t *testing.T, d simrand.Rand, locks int) *movingSlot {
	c := testredis.StartCluster(t, 3, false)
	m := &movingSlot{t: t, cluster: c, slot: d.IntN(1 << 14), admins: map[*testredis.Server]*redis.Client{}}
	for n := 0; len(m.names) < locks; n++ {
		if name := lockName + strconv.Itoa(n); slotOf(name) == m.slot {
			m.names = append(m.names, name)
		}
	}
	for i, s := range c.Masters {
		m.admins[s] = s.Client(t)
		if i*(1<<14)/3 <= m.slot && m.slot < (i+1)*(1<<14)/3 {
			m.from, m.to = s, c.Masters[(i+1)%3]
		}
	}
	return m
}

// slotOf returns the slot of a key, by the CRC16 of the cluster specification.
func slotOf(key string) int {
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % (1 << 14)
}

// client returns a client of the cluster.
func (m *movingSlot) client(ttl time.Duration) *lock.Client {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: m.cluster.Addrs(), Dialer: m.dial})
	m.t.Cleanup(func() { _ = rdb.Close() })
	store, err := redisstore.New(rdb, nil)
	require.NoError(m.t, err)
	c, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(m.t, err)
	m.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), slack)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func (m *movingSlot) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return slowAsking{conn, m}, nil
}

// slowAsking is a connection that delays requests behind ASKING.
type slowAsking struct {
	net.Conn
	of *movingSlot
}

func (c slowAsking) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("asking")) {
		c.of.mu.Lock() // other requests wait meanwhile
		if f := c.of.onAsking.Swap(nil); f != nil {
			(*f)()
		}
		c.of.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (m *movingSlot) do(s *testredis.Server, args ...any) any {
	v, err := m.admins[s].Do(m.t.Context(), args...).Result()
	assert.NoError(m.t, err, "%v", args)
	return v
}

// open starts to move the slot.
func (m *movingSlot) open() {
	m.do(m.to, "cluster", "setslot", m.slot, "importing", m.do(m.from, "cluster", "myid"))
	m.do(m.from, "cluster", "setslot", m.slot, "migrating", m.do(m.to, "cluster", "myid"))
}

// keys returns the keys of the slot that have not moved yet.
func (m *movingSlot) keys() (keys []string) {
	list, _ := m.do(m.from, "cluster", "getkeysinslot", m.slot, 1000).([]any)
	for _, key := range list {
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

// migrate moves keys.
func (m *movingSlot) migrate(keys ...string) {
	host, port, err := net.SplitHostPort(m.to.Addr())
	assert.NoError(m.t, err)
	for _, key := range keys {
		m.do(m.from, "migrate", host, port, key, 0, 5000)
	}
}

// finish moves the remaining keys and assigns the slot on all nodes.
func (m *movingSlot) finish() {
	assert.NoError(m.t, m.cluster.Move(m.t.Context(), m.slot, m.from, m.to))
	m.from, m.to = m.to, m.from
}

// lockAll acquires locks of all kinds with one client.
func (m *movingSlot) lockAll(c *lock.Client) map[string]*lock.Held {
	lockers := map[string]lock.Locker{
		"mutex": c.Mutex(m.names[0]), "writer": c.RWMutex(m.names[1]), "reader": c.RWMutex(m.names[2]).RLocker(),
		"permit": c.Semaphore(m.names[3], 2), "batch": c.Batch(m.names[4], "x", "y", "z"), "election": c.Election(m.names[5], "me"),
	}
	all := map[string]*lock.Held{}
	for kind, l := range lockers {
		h, err := l.Lock(m.t.Context())
		require.NoError(m.t, err, kind)
		all[kind] = h
	}
	return all
}

// assertHeld checks that no lock was lost.
func (m *movingSlot) assertHeld(all map[string]*lock.Held, what string) {
	for kind, h := range all {
		assert.NoError(m.t, h.Err(), "L0: %s, and the %s was lost", what, kind)
	}
}

// TestLocksWhileASlotMovesTwice moves a slot away and back while a request behind ASKING is in
// flight, and opens it again. The node that executes the request has no key then.
func TestLocksWhileASlotMovesTwice(t *testing.T) {
	t.Parallel()
	d := simrand.New(*seedFlag, 1)
	m := newMovingSlot(t, d, 6)
	all := m.lockAll(m.client(slotTTL))
	met := 0
	for range rounds(2, 10) {
		done := make(chan struct{})
		f := func() {
			defer close(done)
			m.finish()
			m.finish()
			m.open()
		}
		m.open()
		m.migrate(m.keys()...)
		m.onAsking.Store(&f)
		select {
		case <-done:
			met++
		case <-time.After(2 * slotTTL):
			m.onAsking.Store(nil)
		}
		sleep(t.Context(), slotTTL)
		m.assertHeld(all, "a slot was moved on and back while a request was on its way")
		m.finish()
		m.finish()
		if t.Failed() {
			break
		}
	}
	assert.Positive(t, met, "no request was sent behind ASKING")
	report.Add("slots       moved twice during %d requests", met)
}

// TestLocksWhileASlotMoves leaves the keys of a slot on two nodes for a long time.
func TestLocksWhileASlotMoves(t *testing.T) {
	t.Parallel()
	d := simrand.New(*seedFlag, 2)
	m := newMovingSlot(t, d, 6)
	all := m.lockAll(m.client(slotTTL))
	moved := 0
	for range rounds(1, 5) {
		m.open()
		keys := m.keys()
		for i, j := range d.Perm(len(keys)) {
			first := strings.HasSuffix(keys[j], "}") // the first key of its lock
			if first || i%3 == 0 {
				m.migrate(keys[j])
				moved++
			}
		}
		sleep(t.Context(), 5*slotTTL/2)
		m.assertHeld(all, "a slot does not finish its move")
		m.finish()
		if t.Failed() {
			break
		}
	}
	report.Add("slots       %d keys moved without the others of their locks", moved)
}

// TestMovingSlotsAreNotFlooded: the rate of requests of waiters for a batch in such a slot
// must not depend on how fast the cluster refuses them.
func TestMovingSlotsAreNotFlooded(t *testing.T) {
	t.Parallel()
	const (
		waiters   = 10
		members   = 500
		asks      = 10 // allowed requests per second of each waiter
		following = 2 * time.Second
	)
	m := newMovingSlot(t, simrand.New(*seedFlag, 3), 6)
	c, others := m.client(30*time.Second), m.client(3*time.Second) // its waiters poll once a second
	var group []string
	for i := range members {
		group = append(group, fmt.Sprint("member ", i))
	}
	h, err := c.Batch(m.names[4], group...).Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	for range waiters {
		go func() {
			_, _ = others.Batch(m.names[4], group...).Lock(ctx)
			gone <- struct{}{}
		}()
	}
	require.Eventually(t, func() bool {
		info, err := c.Inspect(t.Context(), m.names[4])
		return err == nil && info.Waiting == waiters
	}, slack, 10*time.Millisecond)
	m.open()
	m.migrate("lw:{" + m.names[4] + "}")
	sleep(t.Context(), following/4)
	before := m.received()
	began := time.Now()
	sleep(t.Context(), following)
	rate := float64(m.received()-before) / waiters / time.Since(began).Seconds()
	report.Add("slots       moving: a waiter sent %.2f requests a second", rate)
	assert.Less(t, rate, float64(asks), "R3: requests a second of each waiter")
	cancel()
	for range waiters {
		<-gone
	}
	m.finish()
	require.NoError(t, h.Unlock(t.Context()))
}

// received returns the number of scripts that the masters received, executed or not.
func (m *movingSlot) received() (n int) {
	for _, s := range m.cluster.Masters {
		info, err := m.admins[s].Info(m.t.Context(), "commandstats").Result()
		assert.NoError(m.t, err)
		_, rest, _ := strings.Cut(info, "cmdstat_evalsha:")
		line, _, _ := strings.Cut(rest, "\r\n")
		for field := range strings.SplitSeq(line, ",") {
			name, text, _ := strings.Cut(field, "=")
			if name == "calls" || name == "rejected_calls" {
				calls, err := strconv.Atoi(text)
				assert.NoError(m.t, err)
				n += calls
			}
		}
	}
	return n
}

// rounds returns the number of rounds for the tier.
func rounds(quick, long int) int {
	if simreport.IsLong() {
		return long
	}
	return quick
}
