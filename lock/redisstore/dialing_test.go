package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
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

// L5: Close does not wait for a connection that is being made to a server that does not
// answer.
func TestCloseEndsDials(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"acquire", "renew", "wait"} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			rdb := redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:1",
				Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					dials++
					<-ctx.Done()
					return nil, context.Cause(ctx)
				},
			})
			defer rdb.Close()
			s, err := New(rdb, nil)
			require.NoError(t, err)
			failed := make(chan error, 1)
			go func() {
				l := driver.Lease{Request: request("k"), Token: 1}
				switch name {
				case "acquire":
					_, err = s.Acquire(t.Context(), l.Request)
				case "renew":
					err = s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1))
				case "wait":
					_, err = s.Wait(t.Context(), l.Request, func() {})
				}
				failed <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, dials, name)
			start := time.Now()
			require.NoError(t, s.Close())
			assert.Zero(t, time.Since(start), name)
			require.ErrorIs(t, <-failed, driver.ErrClosed, name)
		})
	}
}

// pipes makes connections to a server that grants every request. A dial may fail, or hang
// until its ctx ends.
type pipes struct {
	testredis.Wire
	down, hangs atomic.Bool
	failed      atomic.Int64 // the number of failed dials
}

func newPipes() *pipes {
	p := new(pipes)
	p.Answer = grantEverything
	return p
}

// grantEverything answers as a server that grants, renews and releases whatever it is asked.
func grantEverything(command []string) string {
	switch command[0] {
	case "info":
		return "$0\r\n\r\n"
	case "ping":
		return "+PONG\r\n"
	}
	switch command[1] {
	case renewScript.Digest(), renewScript.Source():
		return "*0\r\n"
	case releaseScript.Digest(), releaseScript.Source():
		return ":1\r\n"
	default:
		return "*2\r\n:1\r\n$2\r\n17\r\n"
	}
}

var errDown = errors.New("the network is down")

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.down.Load() {
		p.failed.Add(1)
		return nil, errDown
	}
	own, other := net.Pipe()
	p.Serve(other)
	return own, nil
}

// store returns a store that uses the pipes. It is closed when the test ends.
func (p *pipes) store(t *testing.T, o *redis.Options, own *Options) *Store {
	o.Addr, o.Dialer = "127.0.0.1:1", p.dial
	rdb := redis.NewClient(o)
	s, err := New(rdb, own)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, rdb.Close())
		p.Wait()
	})
	return s
}

// cluster returns a store on a cluster that reads its slots through the pipes.
func (p *pipes) cluster(t *testing.T) *Store {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Dialer: p.dial, Protocol: 2})
	s, err := New(rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, rdb.Close())
	})
	return s
}

// L1: outages that are shorter than a period cost no lease, however many there are. go-redis
// alone would refuse requests for up to a second after as many failed dials as connections.
func TestLeasesSurviveShortOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		s := network.store(t, &redis.Options{ConnMaxIdleTime: 100 * time.Millisecond}, nil)
		c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: time.Second}})
		require.NoError(t, err)
		held, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		for range 10 {
			network.down.Store(true)
			time.Sleep(300 * time.Millisecond)
			network.down.Store(false)
			time.Sleep(time.Second)
			require.NoError(t, held.Err())
		}
		assert.Greater(t, network.failed.Load(), int64(4), "the outages cause failed dials")
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestAFailedDialIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		s := network.store(t, new(redis.Options), nil)
		network.down.Store(true)
		for range 2 * defaultPoolSize {
			_, err := s.Acquire(t.Context(), request("k"))
			require.ErrorIs(t, err, errDown)
			require.ErrorIs(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), errDown)
		}
		network.down.Store(false)
		acquire(t, s, request("k"))
		renew(t, s, driver.Lease{Request: request("k"), Token: 17})
	})
}

// The ctx of a user's function ends with the time of the request, and when the store is
// closed. Otherwise a pipeline would wait for the function for ever, and Close for the
// pipeline.
func TestUserFunctionsMayWaitForTheirContext(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, o := range map[string]redis.Options{
		"on connect":  {OnConnect: func(ctx context.Context, _ *redis.Conn) error { return wait(ctx) }},
		"credentials": {CredentialsProviderContext: func(ctx context.Context) (string, string, error) { return "", "", wait(ctx) }},
	} {
		asked := func(t *testing.T) (*Store, <-chan error) {
			s := newPipes().store(t, &o, nil)
			failed := make(chan error, 1)
			go func() {
				_, err := s.Acquire(t.Context(), request("k"))
				failed <- err
			}()
			synctest.Wait()
			return s, failed
		}
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s, failed := asked(t)
			require.ErrorContains(t, <-failed, "no answer within 3s", name)
			assert.Equal(t, s.timeout, time.Since(start), name)
		})
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s, failed := asked(t)
			require.NoError(t, s.Close())
			assert.Zero(t, time.Since(start), name)
			require.ErrorIs(t, <-failed, driver.ErrClosed, name)
		})
	}
}

// Options.Timeout also bounds a request that has to dial first. The abandoned dial does not
// affect later requests.
func TestTimeoutBoundsAHangingDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		s := network.store(t, new(redis.Options), &Options{Timeout: 50 * time.Millisecond})
		network.hangs.Store(true)
		start := time.Now()
		_, err := s.Acquire(t.Context(), request("k"))
		assert.Equal(t, s.timeout, time.Since(start))
		require.ErrorContains(t, err, "no answer within 50ms")
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the ctx has not ended")
		time.Sleep(10 * time.Second)
		network.hangs.Store(false)
		for range 3 {
			acquire(t, s, request("k"))
		}
	})
}

// The error of a dial that takes too long does not look like the end of the caller's ctx.
func TestADialTimeoutIsNotTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, s *Store) error{
		"acquire": func(ctx context.Context, s *Store) error {
			_, err := s.Acquire(ctx, request("k"))
			return err
		},
		"renew": func(ctx context.Context, s *Store) error {
			return s.Renew(ctx, []driver.Lease{{Request: request("k"), Token: 17}}, make([]renewal.Outcome, 1))
		},
	} {
		for _, cluster := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				network.hangs.Store(true)
				s := network.store(t, new(redis.Options), nil)
				if cluster {
					s = network.cluster(t)
				}
				err := ask(t.Context(), s)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				require.ErrorIs(t, ask(ctx, s), context.DeadlineExceeded, name)
			})
		}
	}
}
