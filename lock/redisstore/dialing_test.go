package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

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
		return "$2\r\n17\r\n"
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
		for range 2 * rediskit.DefaultPoolSize {
			_, err := s.Acquire(t.Context(), request("k"))
			require.ErrorIs(t, err, errDown)
			require.ErrorIs(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), errDown)
		}
		network.down.Store(false)
		acquire(t, s, request("k"))
		renew(t, s, driver.Lease{Request: request("k"), Token: 17})
	})
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

// L5: calls and Shutdown return when their ctx ends, even if a function of the user blocks.
// The goroutines of the function end when it returns.
func TestUserFunctionsMayBlock(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(o *redis.Options, block func()){
		"Dialer": func(o *redis.Options, block func()) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				block()
				return dial(context.WithoutCancel(ctx), network, addr)
			}
		},
		"OnConnect": func(o *redis.Options, block func()) {
			o.OnConnect = func(context.Context, *redis.Conn) error { block(); return nil }
		},
		"CredentialsProvider": func(o *redis.Options, block func()) {
			o.CredentialsProvider = func() (string, string) { block(); return "", "" }
		},
		"CredentialsProviderContext": func(o *redis.Options, block func()) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { block(); return "", "", nil }
		},
		"StreamingCredentialsProvider": func(o *redis.Options, block func()) {
			o.StreamingCredentialsProvider = &stream{before: block}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := newPipes()
			defer network.Wait()
			blocked := make(chan struct{})
			o := &redis.Options{Addr: "127.0.0.1:1", Dialer: network.dial}
			set(o, func() { <-blocked })
			rdb := redis.NewClient(o)
			defer rdb.Close()
			s, err := New(rdb, nil)
			require.NoError(t, err)
			l := driver.Lease{Request: request("k"), Token: 17}
			cause := errors.New("the cause")
			for verb, call := range map[string]func(ctx context.Context) error{
				"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, l.Request); return err },
				"wait":    func(ctx context.Context) error { _, err := s.Wait(ctx, l.Request, func() {}); return err },
				"renew":   func(ctx context.Context) error { return s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) },
				"release": func(ctx context.Context) error { return s.Release(ctx, l) },
			} {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, cause)
				start := time.Now()
				require.ErrorIs(t, call(ctx), cause, "%s %s", name, verb)
				assert.Equal(t, time.Second/2, time.Since(start), "%s %s", name, verb)
				cancel()
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, cause)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, s.Shutdown(ctx), cause, name)
			assert.Equal(t, time.Second/2, time.Since(start), name)
			require.ErrorIs(t, s.Shutdown(ctx), cause, "%s: the second result differs from the first", name)

			other, err := New(rdb, nil)
			require.NoError(t, err)
			go func() { _, _ = other.Acquire(t.Context(), l.Request) }()
			synctest.Wait()
			start = time.Now()
			require.ErrorContains(t, other.Close(), "a function of the redis.Options is still running", name)
			assert.Equal(t, time.Second, time.Since(start), name)
			close(blocked)
			synctest.Wait() // the goroutines end
		})
	}
}

// A connection that is completed too late for its request is used by the next request.
func TestADialOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		var dials atomic.Int64
		s := network.store(t, &redis.Options{OnConnect: func(context.Context, *redis.Conn) error {
			dials.Add(1)
			time.Sleep(800 * time.Millisecond)
			return nil
		}}, &Options{Timeout: 500 * time.Millisecond})
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorContains(t, err, "no answer within 500ms")
		time.Sleep(time.Second)
		made := dials.Load()
		start := time.Now()
		acquire(t, s, request("k"))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, made, dials.Load())
	})
}

// A panic or a missing result of a user's function is an error.
func TestUserFunctionsMayFail(t *testing.T) {
	t.Parallel()
	for text, o := range map[string]*redis.Options{
		"panicked: oh":   {OnConnect: func(context.Context, *redis.Conn) error { panic("oh") }},
		"no credentials": {CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", errors.New("no credentials") }},
		"no stream":      {StreamingCredentialsProvider: &stream{before: func() {}, err: errors.New("no stream")}},
		"is not wanted":  {OnConnect: func(context.Context, *redis.Conn) error { return errors.New("is not wanted") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newPipes().store(t, o, nil)
			_, err := s.Acquire(t.Context(), request("k"))
			require.ErrorContains(t, err, text)
			require.ErrorContains(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), text)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, nil }})
		defer rdb.Close()
		s := newStore(t, rdb, nil)
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorContains(t, err, "neither a connection nor an error")
	})
}

// stream is a credentials provider whose password changes.
type stream struct {
	before func()
	err    error

	mu           sync.Mutex // guards all below
	listener     auth.CredentialsListener
	password     string
	unsubscribed int
}

func (s *stream) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.before()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return auth.NewBasicCredentials("u", s.password), s.unsubscribe, s.err
}

func (s *stream) unsubscribe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsubscribed++
	return nil
}

// change sends a new password to the listeners.
func (s *stream) change(password string) {
	s.mu.Lock()
	s.password = password
	l := s.listener
	s.mu.Unlock()
	l.OnNext(auth.NewBasicCredentials("u", password))
}

// Connections that were made with old credentials are not used again.
func TestChangingCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		var mu sync.Mutex
		var passwords []string
		grant := network.Answer
		network.Answer = func(command []string) string {
			if strings.EqualFold(command[0], "auth") {
				mu.Lock()
				defer mu.Unlock()
				passwords = append(passwords, command[len(command)-1])
				return "+OK\r\n"
			}
			return grant(command)
		}
		provider := &stream{before: func() {}, password: "one"}
		s := network.store(t, &redis.Options{StreamingCredentialsProvider: provider}, nil)
		use := func() []string {
			for range 3 {
				acquire(t, s, request("k"))
				renew(t, s, driver.Lease{Request: request("k"), Token: 17})
			}
			mu.Lock()
			defer mu.Unlock()
			seen := passwords
			passwords = nil
			return seen
		}
		assert.Equal(t, []string{"one", "one"}, use(), "one connection for acquires, one for renewals")
		assert.Empty(t, use())
		provider.change("two")
		assert.Equal(t, []string{"two", "two"}, use())
		provider.listener.OnError(errors.New("no more"))
		assert.Empty(t, use())
		require.NoError(t, s.Shutdown(t.Context()))
		assert.Equal(t, 1, provider.unsubscribed)
	})
}

// untimedConn does not support deadlines, like the connections of golang.org/x/crypto/ssh.
type untimedConn struct{ net.Conn }

var errNoDeadlines = errors.New("deadline not supported")

func (untimedConn) SetDeadline(time.Time) error      { return errNoDeadlines }
func (untimedConn) SetReadDeadline(time.Time) error  { return errNoDeadlines }
func (untimedConn) SetWriteDeadline(time.Time) error { return errNoDeadlines }

// Without deadlines a call could not be ended.
func TestConnectionsWithoutDeadlinesAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(ctx context.Context, n, a string) (net.Conn, error) {
			conn, err := network.dial(ctx, n, a)
			return untimedConn{conn}, err
		}})
		defer rdb.Close()
		s := newStore(t, rdb, nil)
		_, err := s.Acquire(t.Context(), request("k"))
		require.ErrorContains(t, err, "the connection does not support deadlines")
		require.ErrorIs(t, err, driver.ErrNotSent)
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
