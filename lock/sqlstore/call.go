// Calls of the database: their end, their errors, and their repetition after some.

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxBadConns   = 100 // connections of the pool that one call finds broken
	maxRetryPause = 20 * time.Millisecond
)

// call runs f on a connection of the pool, within Options.Timeout.
func call[T any](ctx context.Context, s *Store, f work[T]) (T, error) {
	return callWithin(ctx, s, s.options.Timeout, f)
}

// do is call without a result.
func do(ctx context.Context, s *Store, f func(ctx context.Context, c *sql.Conn) error) error {
	_, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (struct{}, error) { return struct{}{}, f(ctx, c) })
	return err
}

// work is what a call does on a connection.
type work[T any] func(ctx context.Context, c *sql.Conn) (T, error)

// The states of a call. A call that has sent nothing when its ctx ends never will.
const (
	callWaiting   int32 = iota // for a connection
	callSent                   // f runs, or has returned
	callAbandoned              // the ctx has ended before f ran
)

// callWithin runs f on a connection of the pool and returns its results, or the cause of ctx as
// soon as that ends, or after bound if that is above 0. Some drivers return from a Commit or a read only when the network does, so f
// runs on a goroutine of its own and may still run then: it must not write to anything that the
// caller has. An error matches driver.ErrNotSent if f did not run and will not.
func callWithin[T any](ctx context.Context, s *Store, bound time.Duration, f work[T]) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, end, err := s.calls.Begin(ctx, bound)
	if err != nil {
		return *new(T), err
	}
	var state atomic.Int32
	done := make(chan result, 1)
	go func() {
		defer end()
		var r result
		r.err = s.attempts(ctx, &state, func(ctx context.Context, c *sql.Conn) (err error) {
			r.value, err = f(ctx, c)
			return err
		})
		done <- r
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // an answer counts, even if it comes at the last moment
		return r.value, r.err
	default:
	}
	err = context.Cause(ctx)
	if state.CompareAndSwap(callWaiting, callAbandoned) {
		err = driver.NotSent.Error(s.noConn(err))
	}
	return *new(T), err
}

// noConn returns the error of a call that has ended before it had a connection. The pool may be shared with the
// program, which must learn that it has kept all connections.
func (s *Store) noConn(err error) error {
	if p := s.db.Stats(); p.MaxOpenConnections > 0 && p.InUse >= p.MaxOpenConnections {
		return noConnError{p.InUse, p.MaxOpenConnections, err}
	}
	return err
}

// attempts runs f until its error is not one after which the same is to be sent again: the database
// has rolled back for the sake of others, or nothing was executed because the connection was broken or
// leads to a server that takes no writes. After a switch-over all idle connections of the pool may.
func (s *Store) attempts(ctx context.Context, state *atomic.Int32, f func(ctx context.Context, c *sql.Conn) error) error {
	sent := false
	unusable, most := 0, maxBadConns // connections that the pool has dropped
	for try := 0; ; try++ {
		err := s.attempt(ctx, state, f)
		if err == nil || isAnswer(err) {
			return err
		}
		awaitDeadline(ctx)
		unsent := errors.Is(err, driver.ErrNotSent) // no connection, or no turn to write
		nothing := unsent || state.Load() != callSent
		if ctx.Err() != nil {
			var none noConnError
			if errors.As(err, &none) {
				err = noConnError{none.inUse, none.most, context.Cause(ctx)}
			} else {
				err = context.Cause(ctx)
			}
		} else {
			err = driver.SentBefore(err)
		}
		readOnly := s.dialect.faultOf(err) == readOnlyServer
		if readOnly && most == maxBadConns { // all that the pool has now, and a new one
			most = min(unusable+s.db.Stats().OpenConnections+1, maxBadConns-1)
		}
		marked := err
		if nothing && !sent {
			marked = driver.NotSent.Error(err)
		}
		switch {
		case unsent || ctx.Err() != nil:
			return marked
		case (readOnly || errors.Is(err, sqldriver.ErrBadConn)) && unusable < most:
			unusable++
			state.CompareAndSwap(callSent, callWaiting)
			continue
		case s.dialect.faultOf(err) != conflict:
			return marked
		}
		sent = sent || !nothing
		if basic.Sleep(ctx, rand.N(min(time.Millisecond<<min(try, 5), maxRetryPause))+1) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// awaitDeadline returns after ctx has ended if its deadline has passed. A dial that ends by the
// deadline of its ctx returns an error of the network, and may do so before ctx has ended.
func awaitDeadline(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done()
	}
}

// attempt runs f once. Its error matches driver.ErrNotSent if there is no connection.
func (s *Store) attempt(ctx context.Context, state *atomic.Int32, f func(ctx context.Context, c *sql.Conn) error) error {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return driver.NotSent.Error(s.noConn(err))
	}
	defer func() { _ = c.Close() }() // gives it back to the pool
	if err := s.locate(ctx, c); err != nil {
		return s.judged(c, err)
	}
	if !state.CompareAndSwap(callWaiting, callSent) && state.Load() == callAbandoned {
		return driver.NotSent.Error(context.Cause(ctx))
	}
	return s.judged(c, f(ctx, c))
}

// judged adds to an error of the database what to do about it.
func (s *Store) judged(c *sql.Conn, err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	switch s.dialect.faultOf(err) {
	case readOnlyServer:
		// A fail-over has made a replica of the server. The pool must not use the connection again.
		_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
	case otherStatement:
		return fmt.Errorf("the pooler does not keep prepared statements: set max_prepared_statements of PgBouncer, or default_query_exec_mode=exec of pgx: %w", err)
	case noTable:
		return fmt.Errorf("%w: %w", missingError(s.tables()), err)
	case forbidden:
		return fmt.Errorf("the user needs SELECT, INSERT, UPDATE and DELETE on the tables %s: %w", s.tables(), err)
	}
	return err
}

// tables returns the names of the tables for errors.
func (s *Store) tables() string {
	if s.located.Load() {
		return s.texts.tables
	}
	return s.options.Table + "_*"
}

// isAnswer reports whether an error is made of what the database has answered.
func isAnswer(err error) bool {
	return errors.Is(err, driver.ErrWrongType) || errors.Is(err, driver.ErrNotAcquired) || errors.Is(err, driver.ErrNotHeld)
}

var (
	errGivenUp = fmt.Errorf("%w: the acquisition was given up", driver.ErrNotAcquired)

	// errNoAutocommit prevents renewals that are rolled back when their connection is closed.
	errNoAutocommit = unfitError{errors.New("autocommit is off in the sessions of the *sql.DB, and the store needs it")}
)

// unfitError means that locks would fail with the settings of a session, or not exclude others. It names the setting.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// noConnError is the error of a call that has waited for a connection of the pool in vain. It matches what has ended the wait.
type noConnError struct {
	inUse, most int
	err         error
}

func (e noConnError) Error() string {
	text := fmt.Sprintf("no connection of the pool was free (%d of %d in use)", e.inUse, e.most)
	if errors.As(e.err, new(driver.NoAnswerError)) {
		return text // the database was not asked
	}
	return text + ": " + e.err.Error()
}

func (e noConnError) Unwrap() error { return e.err }

// failed returns an error that names the operation that failed, or nil.
func failed(verb string, err error) error { return basic.Failed("sqlstore", verb, err) }

// isPermanent reports whether another try would return the same error.
func isPermanent(err error) bool {
	return driver.VerdictOf(err).IsFinal() || errors.As(err, new(unfitError))
}
