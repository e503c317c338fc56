package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// A call that does not wait for the server returns within soon. A call that waits for the
// server takes long. The two are far apart because the machine may be busy.
const (
	soon = 5 * time.Second
	long = 25 * time.Second // but less than renewTimeout
)

// within runs f and checks that it takes at least least and at most most.
func within(t testing.TB, least, most time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	took := time.Since(start)
	assert.GreaterOrEqual(t, took, least)
	assert.Less(t, took, most)
}

// hanging returns stores whose servers do not answer, for different reasons.
func hanging(t *testing.T, timeout time.Duration) map[string]*Store {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	silent := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	t.Cleanup(func() { silent.Close() })

	unreachable := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // like a host that drops packets
		return nil, ctx.Err()
	}})
	t.Cleanup(func() { unreachable.Close() })

	srv := testredis.Start(t)
	stopped := newStore(t, srv.Client(t), &Options{Timeout: timeout})
	acquireAll(t, stopped, "warm", 3)
	renew(t, stopped, driver.Lease{Request: request("warm"), Token: 1})
	require.NoError(t, srv.Stop())
	return map[string]*Store{
		"accepts and is silent": newStore(t, silent, &Options{Timeout: timeout}),
		"drops packets":         newStore(t, unreachable, &Options{Timeout: timeout}),
		"is stopped":            stopped,
	}
}

func TestCallsEndOnAHangingServer(t *testing.T) {
	t.Parallel()
	l := driver.Lease{Request: request("k"), Token: 17}
	calls := map[string]func(ctx context.Context, t *testing.T, s *Store) error{
		"acquire": func(ctx context.Context, _ *testing.T, s *Store) error {
			_, err := s.Acquire(ctx, l.Request)
			return err
		},
		"wait for": func(ctx context.Context, t *testing.T, s *Store) error {
			l, err := s.Wait(ctx, l.Request, func() {})
			assert.True(t, l.Unanswered)
			return err
		},
		"release":     func(ctx context.Context, _ *testing.T, s *Store) error { return s.Release(ctx, l) },
		"release all": func(ctx context.Context, t *testing.T, s *Store) error { return releaseAll(ctx, t, s, l)[0] },
		"renew":       func(ctx context.Context, t *testing.T, s *Store) error { return unknown(ctx, t, s, l) },
		"inspect":     func(ctx context.Context, _ *testing.T, s *Store) error { _, err := s.Inspect(ctx, "k"); return err },
	}
	for how, s := range hanging(t, long) {
		for verb, call := range calls {
			t.Run(how+"/"+verb, func(t *testing.T) {
				cause := errors.New("the cause")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
				within(t, 10*time.Millisecond, soon, func() {
					require.ErrorIs(t, call(ctx, t, s), cause, "go-redis does not notice a cancelled context")
				})
				ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer stop()
				within(t, 50*time.Millisecond, soon, func() {
					err := call(ctx, t, s)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, "redisstore: ")
				})
			})
		}
	}
}

// lateContext is a context that does not end at its deadline.
type lateContext struct {
	context.Context
	until time.Time
}

// Deadline implements context.Context.
func (d lateContext) Deadline() (time.Time, bool) { return d.until, true }

func TestAContextThatEndsAfterItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var served sync.WaitGroup
		dial := func(context.Context, string, string) (net.Conn, error) { // the server reads and never replies
			own, server := net.Pipe()
			served.Go(func() { _, _ = io.Copy(io.Discard, server) })
			return own, nil
		}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: dial})
		t.Cleanup(func() { assert.NoError(t, rdb.Close()); served.Wait() })
		s := newStore(t, rdb, nil)
		ctx := lateContext{context.Background(), time.Now().Add(50 * time.Millisecond)}
		within(t, 0, long, func() {
			require.Error(t, s.Renew(ctx, []driver.Lease{{Request: request("k"), Token: 17}}, make([]renewal.Outcome, 1)))
		})
	})
}

func TestTimeoutBoundsCalls(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	for how, s := range hanging(t, timeout) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := driver.Lease{Request: request("k"), Token: 17}
			within(t, timeout, soon, func() {
				_, err := s.Acquire(context.Background(), l.Request)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "the ctx has not ended")
				require.ErrorContains(t, err, "no answer within 500ms")
			})
			within(t, timeout, soon, func() {
				require.ErrorIs(t, s.Release(context.Background(), l), os.ErrDeadlineExceeded)
			})
		})
	}
}

func TestRenewWritesNothingAfterItReturns(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), nil)
	leases := acquireAll(t, s, "k", 100)
	require.NoError(t, srv.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), long)
	time.AfterFunc(20*time.Millisecond, cancel)
	out := make([]renewal.Outcome, len(leases))
	require.ErrorIs(t, s.Renew(ctx, leases, out), context.Canceled)
	clear(leases) // the race detector reports a late read or write
	clear(out)
	require.NoError(t, srv.Cont())
	acquire(t, s, request("after"))
	renew(t, s, driver.Lease{Request: request("k"), Token: 1})
	require.NoError(t, s.Close()) // waits for the request that Renew has abandoned
	assert.Equal(t, make([]renewal.Outcome, len(leases)), out)
}

func TestCloseEndsHangingCalls(t *testing.T) {
	t.Parallel()
	for how, s := range hanging(t, long) {
		t.Run(how, func(t *testing.T) {
			l := driver.Lease{Request: request("k"), Token: 17}
			var wg sync.WaitGroup
			for range 2 * rediskit.DefaultPoolSize { // half of them wait for a connection
				wg.Go(func() {
					_, err := s.Acquire(t.Context(), l.Request)
					assert.ErrorIs(t, err, driver.ErrClosed)
				})
				wg.Go(func() {
					_, err := s.Wait(t.Context(), request("k"), func() {})
					assert.ErrorIs(t, err, driver.ErrClosed)
				})
			}
			wg.Go(func() {
				out := make([]renewal.Outcome, 1)
				assert.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{l}, out), driver.ErrClosed)
				assert.Equal(t, renewal.Unknown, out[0])
			})
			time.Sleep(50 * time.Millisecond)
			within(t, 0, soon, func() { require.NoError(t, s.Close()) })
			within(t, 0, soon, wg.Wait)
		})
	}
}

// split is a store that sends requests through one Store and releases through another.
type split struct {
	*Store
	releases *Store
}

func (s *split) Release(ctx context.Context, l driver.Lease) error { return s.releases.Release(ctx, l) }

func (s *split) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	return s.releases.ReleaseAll(ctx, batch, out)
}

// The cause of the context looks like a reply of the server. A request that is unanswered
// when its context ends must be refused when the server executes it later.
func TestACancelledRequestTakesNothingLater(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"HeldError": &driver.HeldError{Key: "other"}, "ErrWrongType": driver.ErrWrongType, "ErrBadKey": driver.ErrBadKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testredis.Start(t)
			proxy := testredis.StartProxy(t, srv)
			near, far := newStore(t, srv.Client(t), &Options{Prefix: "late:"}), newStore(t, proxy.Client(t), &Options{Prefix: "late:"})
			client, err := lock.New(&split{far, near}, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, client.Close(context.Background())) }()
			writer, err := client.RWMutex("downgrade").Lock(t.Context())
			require.NoError(t, err)
			calls := map[string]func(ctx context.Context) error{
				"lock": func(ctx context.Context) error { _, err := client.Mutex("lock").Lock(ctx); return err },
				"try":  func(ctx context.Context) error { _, err := client.Mutex("try").TryLock(ctx); return err },
				"downgrade": func(ctx context.Context) error {
					_, err := client.RWMutex("downgrade").Downgrade(ctx, writer)
					return err
				},
			}
			for key, call := range calls {
				proxy.Block()
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx) }()
				time.Sleep(500 * time.Millisecond) // the request is sent by then, even on a busy machine
				cancel(cause)
				err := <-done
				require.ErrorIs(t, err, driver.ErrUnavailable)
				require.ErrorContains(t, err, `"`+key+`"`)
				require.Eventually(t, func() bool { return client.Stats().Releasing == 0 }, 10*time.Second, time.Millisecond)
				assert.NotEmpty(t, srv.Client(t).Keys(t.Context(), "late:{"+key+"}:x:*").Val(), "a tombstone for %s", key)
				proxy.Unblock()
				_, err = client.Mutex("after " + key).Lock(t.Context()) // on the same connections
				require.NoError(t, err)
				acquire(t, near, driver.Request{Key: key, Owner: "another:1", TTL: time.Minute})
			}
		})
	}
}

// A request whose ctx ends while it waits for a connection is not sent when there is one.
func TestALateRequestIsNotSent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	w := &testredis.Wire{Answer: func(command []string) string {
		if len(command) > 8 {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, command[3]+" "+command[8])
		}
		return "$1\r\n7\r\n"
	}}
	connected := make(chan struct{})
	rdb := w.Client(t, redis.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-connected
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	s := newStore(t, rdb, &Options{Timeout: time.Minute})
	for i := range 4 {
		r := driver.Request{Key: fmt.Sprint("k", i), Owner: fmt.Sprintf("c:%d", i), TTL: time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		var err error
		if i%2 == 0 {
			_, err = s.Acquire(ctx, r)
		} else {
			err = s.Release(ctx, driver.Lease{Request: r})
		}
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	close(connected)
	last := request("last")
	acquire := func() string {
		_, err := s.Acquire(t.Context(), last)
		require.NoError(t, err)
		return s.lockKey(last.Key) + " " + last.Owner
	}
	want := acquire()
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{want}, sent)
}
