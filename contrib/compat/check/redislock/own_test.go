package redislock

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/compat/redislock"
	"github.com/leasewheel/leasewheel/lock"
)

// The tests of this file are about what differs from the original.

// server is a client of a server in memory. Keys do not expire.
type server struct {
	mu     sync.Mutex // guards all below
	keys   map[string]string
	calls  int
	before func() error // called before each request, which is not executed after an error
	after  func() error // called after it; an error replaces the answer
}

func newServer() *server { return &server{keys: map[string]string{}} }

func (s *server) value(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// hook sets the functions that are called before and after each request.
func (s *server) hook(before, after func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// hang makes the server execute nothing, whatever the context of a request, until the channel is
// closed.
func (s *server) hang() chan struct{} {
	end := make(chan struct{})
	s.hook(func() error { <-end; return nil }, nil)
	return end
}

// Eval executes the scripts of the package.
func (s *server) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	s.mu.Lock()
	s.calls++
	before, after := s.before, s.after
	s.mu.Unlock()
	if ctx.Err() != nil { // as go-redis before it sends anything
		return redis.NewCmdResult(nil, ctx.Err())
	}
	if before != nil {
		if err := before(); err != nil {
			return redis.NewCmdResult(nil, err)
		}
	}
	s.mu.Lock()
	answer, err := s.run(script, keys, args[0].(string))
	s.mu.Unlock()
	if after != nil {
		if err := after(); err != nil {
			return redis.NewCmdResult(nil, err)
		}
	}
	return redis.NewCmdResult(answer, err)
}

func (s *server) run(script string, keys []string, value string) (any, error) {
	obtains, releases := strings.Contains(script, "'SET'"), strings.Contains(script, "'DEL'")
	for _, key := range keys {
		switch found := s.keys[key]; {
		case obtains && found != "":
			return nil, redis.Nil
		case !obtains && found != value:
			return int64(0), nil
		}
	}
	for _, key := range keys {
		switch {
		case obtains:
			s.keys[key] = value
		case releases:
			delete(s.keys, key)
		}
	}
	return int64(1), nil
}

func (s *server) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	return redis.NewCmdResult(nil, noScriptError{})
}

// noScriptError is the answer of a server that does not know a script.
type noScriptError struct{}

func (noScriptError) Error() string { return "NOSCRIPT No matching script." }
func (noScriptError) RedisError()   {}

func (s *server) EvalRO(context.Context, string, []string, ...any) *redis.Cmd { panic("not used") }

func (s *server) EvalShaRO(context.Context, string, []string, ...any) *redis.Cmd { panic("not used") }

func (s *server) ScriptExists(context.Context, ...string) *redis.BoolSliceCmd { panic("not used") }

func (s *server) ScriptLoad(context.Context, string) *redis.StringCmd { panic("not used") }

func TestACallReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		got, err := redislock.Obtain(t.Context(), s, "held", time.Minute, nil)
		require.NoError(t, err)
		for name, call := range map[string]func(ctx context.Context) error{
			"obtain": func(ctx context.Context) error {
				_, err := redislock.Obtain(ctx, s, "k", time.Minute, nil)
				return err
			},
			"obtain several": func(ctx context.Context) error {
				_, err := redislock.ObtainMulti(ctx, s, []string{"k", "l"}, time.Minute, nil)
				return err
			},
			"TTL":     func(ctx context.Context) error { _, err := got.TTL(ctx); return err },
			"refresh": func(ctx context.Context) error { return got.Refresh(ctx, time.Minute, nil) },
			"release": got.Release,
		} {
			hung := s.hang()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			start := time.Now()
			assert.Equal(t, context.DeadlineExceeded, call(ctx), name)
			assert.Equal(t, 10*time.Millisecond, time.Since(start), name)
			cancel()
			close(hung)
			synctest.Wait()
			assert.Empty(t, s.value("k")+s.value("l"), "a late grant is released")
			if name == "release" {
				assert.Empty(t, s.value("held"), "a late release counts")
				s.keys["held"] = got.Token()
			}
		}
	})
}

func TestObtainWithoutADeadlineReturnsAfterATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		hung := s.hang()
		start := time.Now()
		_, err := redislock.New(s).Obtain(t.Context(), "k", 5*time.Second, nil)
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, 5*time.Second, time.Since(start))
		close(hung)
		synctest.Wait()
		assert.Empty(t, s.value("k"))
	})
}

func TestADeadlineReplacesTheLimitOfATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.keys["k"] = "another"
		time.AfterFunc(5*time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.keys, "k")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := redislock.Obtain(ctx, s, "k", time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(600 * time.Millisecond)})
		assert.NoError(t, err)
	})
}

// TestTheErrorBeforeIsNotLost is about a ctx that ends while the second try has no answer.
func TestTheErrorBeforeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		got, err := redislock.Obtain(t.Context(), s, "k", time.Minute, nil)
		require.NoError(t, err)
		oops := errors.New("connection reset")
		for name, c := range map[string]struct {
			before error
			call   func(ctx context.Context, opt *redislock.Options) error
		}{
			"obtain": {redislock.ErrNotObtained, func(ctx context.Context, opt *redislock.Options) error {
				_, err := redislock.Obtain(ctx, s, "k", time.Minute, opt)
				return err
			}},
			"refresh": {oops, func(ctx context.Context, opt *redislock.Options) error { return got.Refresh(ctx, time.Minute, opt) }},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			end, first := make(chan struct{}), true
			s.hook(func() error {
				if !first {
					<-end
					return nil
				}
				first = false
				if name == "refresh" {
					return oops
				}
				return nil
			}, nil)
			err := c.call(ctx, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
			assertJoined(t, err, c.before, context.DeadlineExceeded)
			cancel()
			close(end)
			synctest.Wait()
		}
	})
}

func TestKeysAreCopies(t *testing.T) {
	s, keys := newServer(), []string{"a", "b"}
	got, err := redislock.ObtainMulti(t.Context(), s, keys, time.Minute, nil)
	require.NoError(t, err)
	keys[0] = "c"
	got.Keys()[1] = "c"
	assert.Equal(t, []string{"a", "b"}, got.Keys())
	require.NoError(t, got.Release(t.Context()))
	assert.Empty(t, s.keys)
}

func TestALostAnswerLeavesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			token string
			want  string
		}{
			{"", ""},
			{"token", "tokenmeta"}, // another holder of the token may have the lock
		} {
			s := newServer()
			oops, first := errors.New("connection reset"), true
			s.hook(nil, func() error {
				if first {
					first = false
					return oops
				}
				return nil
			})
			_, err := redislock.Obtain(t.Context(), s, "k", time.Minute, &redislock.Options{Token: c.token, Metadata: "meta"})
			assert.ErrorIs(t, err, oops)
			synctest.Wait()
			assert.Equal(t, c.want, s.value("k"))
		}
	})
}

func TestAnAnswerThatIsAnErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.hook(func() error { return noScriptError{} }, nil) // any error of the server
		_, err := redislock.Obtain(t.Context(), s, "k", time.Minute, nil)
		assert.Equal(t, noScriptError{}, err)
		synctest.Wait()
		assert.Equal(t, 1, s.count(), "nothing to release")

		s.hook(nil, nil)
		s.keys["k"] = "another"
		_, err = redislock.Obtain(t.Context(), s, "k", time.Minute, nil)
		assert.Equal(t, redislock.ErrNotObtained, err)
		synctest.Wait()
		assert.Equal(t, 2, s.count(), "nothing to release")
	})
}

func TestReleaseIsSentAfterItsContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		got, err := redislock.Obtain(t.Context(), s, "k", time.Minute, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := got.Release(ctx); err != nil { // the answer may be there already
			assert.Equal(t, context.Canceled, err)
		}
		synctest.Wait()
		assert.Empty(t, s.value("k"))
	})
}

func TestACallWithAContextThatHasEndedSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		ctx, cancel := context.WithCancel(t.Context())
		got, err := redislock.Obtain(ctx, s, "held", time.Minute, nil)
		require.NoError(t, err)
		cancel()
		_, err = redislock.Obtain(ctx, s, "k", time.Minute, nil)
		assert.Equal(t, context.Canceled, err)
		_, err = got.TTL(ctx)
		assert.Equal(t, context.Canceled, err)
		assert.Equal(t, context.Canceled, got.Refresh(ctx, time.Minute, nil))
		synctest.Wait()
		assert.Equal(t, 1, s.count())
	})
}

func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	s := newServer()
	got, err := redislock.Obtain(t.Context(), s, "held", time.Minute, nil)
	require.NoError(t, err)
	const bad = time.Millisecond - 1
	_, err = redislock.Obtain(t.Context(), s, "orders", bad, nil)
	assert.EqualError(t, err, `redislock: lock "orders": lock: bad TTL: 999.999µs is below 1ms`)
	assert.ErrorIs(t, err, lock.ErrBadTTL)
	assert.EqualError(t, got.Refresh(t.Context(), bad, nil), `redislock: lock "held": lock: bad TTL: 999.999µs is below 1ms`)
	for _, c := range []redislock.RedisClient{nil, (*redis.Client)(nil)} {
		_, err = redislock.Obtain(t.Context(), c, "orders", time.Minute, nil)
		assert.EqualError(t, err, `redislock: lock "orders": the client of go-redis is nil`)
	}
	_, err = redislock.ObtainMulti(t.Context(), s, nil, time.Minute, nil)
	assert.EqualError(t, err, "redislock: obtain: no keys")
	_, err = redislock.ObtainMulti(t.Context(), nil, nil, time.Minute, nil)
	assert.EqualError(t, err, `redislock: lock "": the client of go-redis is nil`)
	_, err = redislock.ObtainMulti(t.Context(), s, []string{"a", "b", "c"}, bad, nil)
	assert.EqualError(t, err, `redislock: lock "a" and 2 more: lock: bad TTL: 999.999µs is below 1ms`)
	var none context.Context
	_, err = redislock.Obtain(none, s, "orders", time.Minute, nil)
	assert.EqualError(t, err, `redislock: lock "orders": the context is nil`)
	assert.EqualError(t, got.Refresh(none, time.Minute, nil), `redislock: lock "held": the context is nil`)
	_, err = got.TTL(none)
	assert.EqualError(t, err, `redislock: lock "held": the context is nil`)
	assert.EqualError(t, got.Release(none), `redislock: lock "held": the context is nil`)
	assert.Equal(t, 1, s.count())
}

func TestErrorsMatchThoseOfPackageLock(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{redislock.ErrNotObtained, lock.ErrNotAcquired},
		{redislock.ErrLockNotHeld, lock.ErrNotHeld},
	} {
		for _, e := range []error{lock.ErrNotAcquired, lock.ErrLost, lock.ErrNotHeld, lock.ErrUnavailable, lock.ErrClosed} {
			assert.Equal(t, errors.Is(c.want, e), errors.Is(c.err, e), "%v, %v", c.err, e)
		}
	}
}

func TestALimitIsExactForManyGoroutines(t *testing.T) {
	limited := redislock.LimitRetry(redislock.LinearBackoff(time.Second), 50)
	var mu sync.Mutex // guards granted
	granted := 0
	together(200, func(int) {
		if limited.NextBackoff() > 0 {
			mu.Lock()
			granted++
			mu.Unlock()
		}
	})
	assert.Equal(t, 50, granted)
}

func TestAClientThatEndsTheGoroutine(t *testing.T) {
	s := newServer()
	s.hook(func() error { runtime.Goexit(); return nil }, nil)
	_, err := redislock.Obtain(t.Context(), s, "k", time.Minute, &redislock.Options{Token: "t"})
	assert.ErrorContains(t, err, "the goroutine of the request has ended")
}
