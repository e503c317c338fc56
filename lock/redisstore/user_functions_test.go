package redisstore

import (
	"context"
	"errors"
	"net"
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

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

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
