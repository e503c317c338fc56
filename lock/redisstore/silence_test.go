package redisstore

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// A store has two connections to a node for renewals, and eight for single scripts.
const (
	lanes       = 2
	scriptLanes = 8
)

// network is a Proxy or a Link.
type network interface {
	Delay(d time.Duration)
	Accepted() int
}

// newLinked returns a store with a prefix of its own, and its link to the server, for a bubble.
func newLinked(t *testing.T, srv *testredis.Server, o Options) (*testredis.Link, *Store) {
	t.Helper()
	link := testredis.NewLink(srv)
	t.Cleanup(link.Close)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Dialer: link.Dial})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	o.Prefix = rand.Text()
	s, err := New(rdb, &o)
	require.NoError(t, err)
	return link, s
}

// warmUp opens several connections of each kind, and checks that they are open.
func warmUp(t *testing.T, s *Store, p network, l driver.Lease) {
	t.Helper()
	p.Delay(100 * time.Millisecond) // so that the calls overlap
	for range 2 {                   // the first calls may find dead connections
		var calls sync.WaitGroup
		for range 2 * lanes {
			calls.Go(func() { _ = s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)) })
			calls.Go(func() { _, _ = s.Inspect(t.Context(), "k") })
		}
		calls.Wait()
	}
	p.Delay(0)
	renew(t, s, l)
	require.GreaterOrEqual(t, p.Accepted(), 2*lanes)
}

// L1: if a firewall forgets all connections while new ones work, the store loses one try and
// no lease. The next try must not use another dead connection.
func TestForgottenConnectionsCostOneTry(t *testing.T) {
	t.Parallel()
	p := testredis.StartProxy(t, testredis.Start(t))
	const timeout = time.Second // behind a proxy, which acknowledges for a dead server, a try takes all of it
	s := newStore(t, p.Client(t), &Options{Timeout: timeout})
	l := acquire(t, s, request("k"))

	calls := map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, request("free")); return err },
		"inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, "k"); return err },
		"renew": func(ctx context.Context) error {
			out := make([]renewal.Outcome, 1)
			err := s.Renew(ctx, []driver.Lease{l}, out)
			assert.Equal(t, err == nil, out[0] == renewal.Renewed)
			return err
		},
		"release": func(ctx context.Context) error { return s.Release(ctx, l) },
	}
	for _, name := range []string{"renew", "acquire", "inspect", "release"} {
		warmUp(t, s, p, l)
		p.Blackhole()
		if calls[name](t.Context()) != nil {
			require.NoError(t, calls[name](t.Context()), name)
		}
	}
}

// The same holds for the locks of a client.
func TestLocksSurviveForgottenConnections(t *testing.T) {
	t.Parallel()
	p := testredis.StartProxy(t, testredis.Start(t))
	s, err := New(p.Client(t), &Options{Timeout: 2 * time.Second})
	require.NoError(t, err)
	c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 6 * time.Second}})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	h, err := c.Mutex("k").Lock(t.Context()) // opens the first connections
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	warmUp(t, s, p, driver.Lease{Request: request("none"), Token: 1})
	for range 2 {
		var h *lock.Held
		p.Blackhole()
		within(t, 0, 3*s.timeout, func() { // one try takes one third of it
			h, err = c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
		})
		p.Blackhole()
		within(t, 0, 3*s.timeout, func() { require.NoError(t, h.Unlock(t.Context())) })
		p.Blackhole()
		h, err = c.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// A lock that is held is renewed once a second. Its connections are forgotten only once, because two
// failures in a row lose a lease.
func TestALeaseSurvivesForgottenConnections(t *testing.T) {
	t.Parallel()
	srv := shared.Server(t)
	synctest.Test(t, func(t *testing.T) {
		link, s := newLinked(t, srv, Options{})
		c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		held, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		warmUp(t, s, link, driver.Lease{Request: request("none"), Token: 1})
		link.Blackhole()
		select {
		case <-held.Done():
		case <-time.After(5 * time.Second): // longer than a lease lasts without a renewal
		}
		require.NoError(t, held.Err())
		_ = held.Unlock(t.Context()) // on a dead connection, until Options.Timeout; the client goes on
	})
}

// The number of connections to a hanging server does not grow with the number of requests.
func TestAHangingServerGetsFewConnections(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	p := testredis.StartProxy(t, srv)
	s := newStore(t, p.Client(t), &Options{Timeout: 2 * time.Second})
	l := acquire(t, s, request("k"))
	warmUp(t, s, p, l)
	before := p.Accepted()
	p.Block()
	const rounds = 4
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			for range rounds {
				_, _ = s.Inspect(t.Context(), "k")
			}
		})
	}
	calls.Wait()
	t.Log(p.Accepted()-before, "connections for", 50*rounds, "unanswered requests")
	assert.LessOrEqual(t, p.Accepted()-before, rounds*scriptLanes, "about one in a timeout for each lane")
	p.Unblock()
	renew(t, s, l)
}

// L1: no lease is lost if replies take up to a tenth of the TTL, even if the connection of
// the first renewal must be opened first, or opened again. The leases are long, because keys expire by
// the clock of the server, which goes on while a busy machine stops the bubble.
func TestLeasesSurviveLinksAsSlowAsATenthOfTheTTL(t *testing.T) {
	t.Parallel()
	srv := shared.Server(t)
	for _, link := range []struct{ ttl, delay time.Duration }{
		{10 * time.Second, 500 * time.Millisecond},
		{10 * time.Second, 1000 * time.Millisecond},
		{30 * time.Second, 1500 * time.Millisecond},
		{30 * time.Second, 3000 * time.Millisecond},
	} {
		for _, when := range []string{"from the first", "after Lock", "after Lock, with broken connections"} {
			broken := when == "after Lock, with broken connections"
			t.Run(link.ttl.String()+" "+link.delay.String()+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := testredis.NewLink(srv)
					defer l.Close()
					rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Dialer: l.Dial})
					defer func() { assert.NoError(t, rdb.Close()) }()
					s, err := New(rdb, &Options{Timeout: time.Minute, Prefix: t.Name()})
					require.NoError(t, err)
					c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: link.ttl}})
					require.NoError(t, err)
					defer func() { assert.NoError(t, c.Close(context.Background())) }()
					if when == "from the first" {
						l.Delay(link.delay)
					}
					held, err := c.Mutex("k").Lock(t.Context())
					require.NoError(t, err)
					l.Delay(link.delay)
					for range 4 {
						select {
						case <-held.Done():
						case <-time.After(link.ttl):
						}
						require.NoError(t, held.Err())
						if broken {
							l.Reset()
						}
					}
					l.Delay(0)
				})
			})
		}
	}
}
