package redisstore

import (
	"context"
	"io"
	"net"
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

// L1: a lease on a slow link counts from the request. The time for a new connection, which is
// that of two replies here, does not shorten it. The default options leave a third of the TTL
// for a reply and what it waits for.
func TestLeasesSurviveASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	for _, percent := range []time.Duration{2, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			late := ttl * percent / 100
			c, err := lock.New(slowStore(t, late, 10*late), &lock.Options{Terms: lock.Terms{TTL: ttl}})
			require.NoError(t, err)
			defer func() { assert.NoError(t, c.Close(context.Background())) }()
			held, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err, "%d %%", percent)
			time.Sleep(10 * ttl)
			require.NoError(t, held.Err(), "%d %%", percent)
			require.NoError(t, held.Unlock(t.Context()), "%d %%", percent)
		})
	}
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
