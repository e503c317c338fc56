package redisstore

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"slices"
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

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// far returns a Dialer whose connections delay everything that the server sends.
func far(late time.Duration) dialFunc { return farBehind(late, new(net.Dialer).DialContext) }

// farBehind is like far, but uses the connections of another dialer.
func farBehind(late time.Duration, dial dialFunc) dialFunc {
	type chunk struct {
		data []byte
		at   time.Time
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		server, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		near, relay := net.Pipe()
		delayed, closed := make(chan chunk, 10_000), make(chan struct{})
		go func() { // until the client closes near
			_, _ = io.Copy(server, relay)
			_ = server.Close()
			close(closed)
		}()
		go func() { // until the server is closed
			defer close(delayed)
			for {
				b := make([]byte, 1<<16)
				n, err := server.Read(b)
				if err != nil {
					return
				}
				delayed <- chunk{b[:n], time.Now().Add(late)}
			}
		}()
		go func() {
			defer relay.Close()
			for c := range delayed {
				select {
				case <-time.After(time.Until(c.at)):
					_, _ = relay.Write(c.data)
				case <-closed:
				}
			}
		}()
		return near, nil
	}
}

// A waiter gets its lock although each reply takes longer than the time between two polls, or
// even longer than a place lasts.
func TestAWaiterOnASlowLinkGetsTheLock(t *testing.T) {
	for name, late := range map[string]time.Duration{"a_third_of_the_TTL": 1600 * time.Millisecond, "half_a_place": 600 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, place = 4800 * time.Millisecond, 1200 * time.Millisecond
			addr := shared.Server(t).Addr()
			rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: far(late)})
			defer rdb.Close()
			near := newStore(t, shared.Server(t).Client(t), nil)
			s := newStore(t, rdb, &Options{Prefix: near.prefix, Place: place, Timeout: 6 * time.Second})
			holder := acquire(t, near, requestFor("k", time.Minute))
			done := make(chan waited, 1)
			r := requestFor("k", ttl)
			go func() {
				l, err := s.Wait(t.Context(), r, func() {})
				done <- waited{l, err, time.Now()}
			}()
			time.Sleep(6 * place)
			assert.Positive(t, shared.Server(t).Client(t).ZScore(t.Context(), near.keys("k", "").places, r.Owner).Val(), "the waiter has kept its place")
			l, _ := handed(t, near, holder, done)
			assert.True(t, l.Sent.Add(ttl).After(time.Now()), "the lease has not expired")
			value := shared.Server(t).Client(t).Get(t.Context(), near.lockKey("k")).Val()
			token, _ := parseValue(value)
			assert.Equal(t, token.Token, l.Token)
		})
	}
}

// slowStore returns a store on a server in the bubble that grants every request. Replies and
// dials take the time late.
func slowStore(t *testing.T, late, timeout time.Duration) *Store {
	network := newPipes()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(ctx context.Context, n, addr string) (net.Conn, error) {
		time.Sleep(late)
		return farBehind(late, network.dial)(ctx, n, addr)
	}})
	s, err := New(rdb, &Options{Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, rdb.Close())
		network.Wait()
	})
	return s
}

// The TTL of a lease counts from an instant at which the connection was open.
func TestTheTTLCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	const late = time.Second
	calls := map[string]func(ctx context.Context, s *Store) (driver.Lease, error){
		"Acquire": func(ctx context.Context, s *Store) (driver.Lease, error) { return s.Acquire(ctx, request("k")) },
		"Wait":    func(ctx context.Context, s *Store) (driver.Lease, error) { return s.Wait(ctx, request("k"), func() {}) },
		"a permit": func(ctx context.Context, s *Store) (driver.Lease, error) {
			r := request("k")
			r.Mode, r.Attrs = driver.Permit, &driver.Attrs{Limit: 1}
			return s.Acquire(ctx, r)
		},
	}
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			s := slowStore(t, late, 10*late)
			for _, took := range []time.Duration{3 * late, late} { // with and without the dial
				begun := time.Now()
				l, err := call(t.Context(), s)
				require.NoError(t, err, name)
				assert.Equal(t, took, time.Since(begun), name)
				assert.Equal(t, late, time.Since(l.Sent), name)
			}
		})
	}
}

// A request does not fail with a dead connection when the connection that it waits for has
// just been made.
func TestARequestThatWaitsForAConnectionIsNotStalled(t *testing.T) {
	t.Parallel()
	const late = time.Second
	synctest.Test(t, func(t *testing.T) {
		s := slowStore(t, late, 4*late)
		within := func(call func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*late)
			defer cancel()
			require.NoError(t, call(ctx))
		}
		l := driver.Lease{Request: request("k"), Token: 17}
		for range 2 { // in a pipeline, and then as a direct call
			within(func(ctx context.Context) error { _, err := s.Acquire(ctx, request("k")); return err })
		}
		within(func(ctx context.Context) error { return s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) })
	})
}

// Waiters keep their places while the server is out of memory, and are served.
func TestWaitersSurviveAServerOutOfMemory(t *testing.T) {
	t.Parallel()
	const place = 500 * time.Millisecond
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, &Options{Place: place})
	asked := func(mode driver.Mode, key string) driver.Request {
		r := requestFor(key, 10*place)
		r.Mode = mode
		switch mode {
		case driver.Permit:
			r.Attrs = &driver.Attrs{Limit: 1}
		case driver.Members:
			r.Attrs = &driver.Attrs{Members: []string{"a", "b"}}
		}
		return r
	}
	modes := map[string]driver.Mode{"mutex": driver.Exclusive, "writer": driver.Write, "permit": driver.Permit, "batch": driver.Members}
	holders, waiters := map[string]driver.Lease{}, map[string]<-chan waited{}
	for key, mode := range modes {
		holders[key] = acquire(t, s, asked(mode, key))
		waiters[key] = startWait(t.Context(), t, s, asked(mode, key))
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := s.Acquire(t.Context(), request("new"))
	require.ErrorContains(t, err, "OOM")
	for range 8 { // renewals until some places have passed
		time.Sleep(place / 2)
		for key, l := range holders {
			require.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l), key)
		}
	}
	for key, l := range holders {
		handed(t, s, l, waiters[key])
	}
}

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
	srv := shared.Server(t)
	synctest.Test(t, func(t *testing.T) {
		link, s := newLinked(t, srv, Options{Timeout: 2 * time.Second})
		defer func() { require.NoError(t, s.Close()) }()
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
			warmUp(t, s, link, l)
			link.Blackhole()
			require.Error(t, calls[name](t.Context()), name)
			require.NoError(t, calls[name](t.Context()), name)
		}
	})
}

// The same holds for the locks of a client. They repeat the try.
func TestLocksSurviveForgottenConnections(t *testing.T) {
	t.Parallel()
	srv := shared.Server(t)
	synctest.Test(t, func(t *testing.T) {
		link, s := newLinked(t, srv, Options{Timeout: 2 * time.Second})
		c, err := lock.New(s, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		warmUp(t, s, link, acquire(t, s, request("held")))
		var h *lock.Held
		calls := []func() error{
			func() (err error) { h, err = c.Mutex("k").Lock(t.Context()); return err },
			func() error { return h.Unlock(t.Context()) },
			func() (err error) { h, err = c.Mutex("k").TryLock(t.Context()); return err },
			func() error { return h.Unlock(t.Context()) },
		}
		for i, call := range slices.Concat(calls, calls) {
			link.Blackhole()
			within(t, s.timeout, s.timeout+time.Second/2, func() { require.NoError(t, call(), i) })
		}
	})
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
