package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	dialTimeout  = time.Second
	renewalConns = 4
	renewalBytes = 32 << 10 // of a buffer: 200 renewals

	// A client for Sentinel has this for an address. It asks Sentinel whenever it
	// dials, and learns otherwise too of a new master, but its copy does not. The
	// old master may serve for ten seconds more, so connections are kept short.
	failoverAddr     = "FailoverClient"
	failoverLifetime = time.Second
)

// derive returns the options of the store's own clients. What they dial ends with
// life.
func derive(life context.Context, given *redis.Options) *redis.Options {
	o := *given

	// What is sent is sent once: whether to repeat it is for those to decide who
	// know what a late execution does. And the ctx alone bounds an answer.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.ReadTimeout, o.WriteTimeout = -1, -1
	if o.DialTimeout <= 0 || o.DialTimeout > dialTimeout {
		o.DialTimeout = dialTimeout
	}
	o.DialerRetries = 1
	if o.Addr == failoverAddr {
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = failoverLifetime, 0
	}

	// Renewals have connections of their own, so that acquires that hang cannot
	// hold them up. They go into pipelines; what does not is rare.
	o.PoolSize, o.PoolTimeout = renewalConns, 0
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 0, 0, 0, 0
	o.ReadBufferSize, o.WriteBufferSize = 4<<10, 4<<10
	o.PipelinePoolSize = renewalConns
	o.PipelineReadBufferSize, o.PipelineWriteBufferSize = renewalBytes, renewalBytes

	// No command beside our own, no pushes, nothing shared with the given client
	// that could refuse a renewal.
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.AutoPipelineOptions = nil
	o.Limiter = nil

	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&o)
	}
	o.Dialer = uncounted(framed(endingWith(life, dial)))
	o.OnConnect = whileWanted(life, o.OnConnect)
	if provide := o.CredentialsProviderContext; provide != nil {
		o.CredentialsProviderContext = func(ctx context.Context) (username, password string, err error) {
			ctx, cancel := ending(ctx, life)
			defer cancel()
			return provide(ctx)
		}
	}
	return &o
}

// await calls f, which talks to the server, and returns what it returned; or the
// reason why nobody waits for that any more, as soon as there is one: the end of
// ctx, the end of the store, or the bound.
//
// f runs on a goroutine of its own, because go-redis notices the deadline of a ctx
// while it waits for an answer, but not that the ctx is cancelled. If nobody waits for f
// any more it goes on until that deadline, or until Close takes its connection away. So
// nothing that it works with may be used by others.
func await[T any](ctx context.Context, s *Store, bound time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.begin(ctx); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, noAnswerError(bound))
	defer cancel() // one left behind that still waits for a connection sends nothing any more

	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer s.running.Done()
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return none, s.reason(ctx, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-s.closing:
		return none, lock.ErrClosed
	}
}

// begin refuses a call for which no IO must be done, or counts it as running.
func (s *Store) begin(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case s.closing == nil:
		return errZeroStore
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return lock.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.running.Add(1)
	return nil
}

// lateEnd is how long a ctx is waited for whose deadline has passed.
const lateEnd = time.Second

// reason returns why a call failed: the end of the store or of the ctx, if go-redis
// tells of it first and in words of its own.
func (s *Store) reason(ctx context.Context, err error) error {
	select {
	case <-s.closing:
		return lock.ErrClosed
	default:
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		_ = pause(ctx, lateEnd) // its timer is about to fire; one of other making may have none
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return lateError{err}
	}
	return err
}

// lateError is the end of a time that was not the caller's: a dial that takes too long
// is a context.DeadlineExceeded to package net.
type lateError struct{ error }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (lateError) Unwrap() error { return os.ErrDeadlineExceeded }

// noAnswerError is the cause when the store's own bound ends a call. It is no
// context.DeadlineExceeded, for the caller's ctx has not ended.
type noAnswerError time.Duration

// Error implements error.
func (e noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (e noAnswerError) Unwrap() error { return os.ErrDeadlineExceeded }
