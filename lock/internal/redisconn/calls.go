package redisconn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrClosed is the error of every call that is running when the Client is closed,
	// and of every later call.
	ErrClosed = errors.New("the client is closed")

	// ErrWrongType is the error of a script when a key holds a value of another type.
	ErrWrongType = errors.New("the key has a value of another type")

	// ErrNotSent matches the error of a Run that has sent nothing, and will not.
	ErrNotSent = errors.New("nothing was sent")
)

// calls counts the running calls of a client and refuses new ones after close.
type calls struct {
	closing chan struct{} // closed when close is called

	onNotice atomic.Pointer[NoticeFunc] // nil: nobody is told

	mu      sync.Mutex // guards closed, and orders running.Add before running.Wait
	closed  bool
	running sync.WaitGroup
}

func newCalls() *calls { return &calls{closing: make(chan struct{})} }

// close ends all running calls and makes begin refuse later ones. It reports whether this
// is the first call of close.
func (cs *calls) close() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return false
	}
	cs.closed = true
	close(cs.closing)
	return true
}

// begin counts a call as running. It returns an error, and counts nothing, if the client
// is closed or ctx has ended.
func (cs *calls) begin(ctx context.Context) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.closed:
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	cs.running.Add(1)
	return nil
}

// lateEnd is the longest wait for a context to end after its deadline has passed.
const lateEnd = time.Second

// reason returns the error of a failed call. It replaces the error of go-redis if the
// client is closed or ctx has ended.
func (cs *calls) reason(ctx context.Context, err error) error {
	select {
	case <-cs.closing:
		return ErrClosed
	default:
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		pause(ctx, lateEnd) // the timer of ctx is about to fire; a custom context may have none
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return lateError{err}
	}
	return err
}

// notSentError is an error that also matches ErrNotSent.
type notSentError struct{ error }

// Unwrap returns the error without ErrNotSent.
func (e notSentError) Unwrap() error { return e.error }

// Is reports whether target is ErrNotSent.
func (notSentError) Is(target error) bool { return target == ErrNotSent }

// lateError is a timeout that the caller did not set. For example, package net reports a
// slow dial as context.DeadlineExceeded.
type lateError struct{ error }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (lateError) Unwrap() error { return os.ErrDeadlineExceeded }

// NoAnswerError is the error of a call that exceeds the client's own bound. It does not
// match context.DeadlineExceeded, because the caller's context has not ended.
type NoAnswerError time.Duration

// Error implements error.
func (e NoAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (e NoAnswerError) Unwrap() error { return os.ErrDeadlineExceeded }
