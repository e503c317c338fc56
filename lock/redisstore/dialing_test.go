package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// L5: a connection that is being made to a server that does not answer holds up Close
// for no time.
func TestCloseEndsWhatIsDialed(t *testing.T) {
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
				l := lock.Lease{Request: request("k"), Token: 1}
				switch name {
				case "acquire":
					_, err = s.Acquire(t.Context(), l.Request)
				case "renew":
					err = s.Renew(t.Context(), []lock.Lease{l}, make([]renewal.Outcome, 1))
				case "wait":
					_, err = s.Wait(t.Context(), l.Request)
				}
				failed <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, dials, name)
			start := time.Now()
			require.NoError(t, s.Close())
			assert.Zero(t, time.Since(start), name)
			require.ErrorIs(t, <-failed, lock.ErrClosed, name)
		})
	}
}

// pipes are connections to a server that grants everything. A dial may
// fail, or hang until its ctx ends.
type pipes struct {
	wire
	down, hangs atomic.Bool
	failed      atomic.Int64 // dials
}

func newPipes() *pipes {
	p := new(pipes)
	p.answer = func(command []string) string {
		switch command[1] {
		case renewScript.digest:
			return "*0\r\n"
		case releaseScript.digest:
			return ":1\r\n"
		default:
			return "*2\r\n:1\r\n$2\r\n17\r\n"
		}
	}
	return p
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
	p.conns.Go(func() { p.serve(other) })
	return own, nil
}

// store returns a store whose connections they are. It is closed with the bubble.
func (p *pipes) store(t *testing.T, o *redis.Options, own *Options) *Store {
	o.Addr, o.Dialer = "127.0.0.1:1", p.dial
	rdb := redis.NewClient(o)
	s, err := New(rdb, own)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, rdb.Close())
		p.conns.Wait()
	})
	return s
}

// L1: a server that is away for less than a period costs nothing, however often. go-redis
// would refuse for up to a second once it had counted as many failed dials as connections.
func TestShortOutagesCostNothing(t *testing.T) {
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
		assert.Greater(t, network.failed.Load(), int64(renewalConns), "or it was not seen")
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestAFailedDialIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		s := network.store(t, new(redis.Options), nil)
		network.down.Store(true)
		for range 2 * defaultPoolSize {
			_, err := s.Acquire(t.Context(), request("k"))
			require.ErrorIs(t, err, errDown)
			require.ErrorIs(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), errDown)
		}
		network.down.Store(false)
		acquire(t, s, request("k"))
		renew(t, s, lock.Lease{Request: request("k"), Token: 17})
	})
}
