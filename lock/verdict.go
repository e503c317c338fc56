package lock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// overdue is how long a request may have no answer when the ctx ends without being held
// against the store.
const overdue = 100 * time.Millisecond

// verdict returns the error of an acquisition that failed with err. The first line that
// applies decides:
//
//	the client is closed                             ErrClosed
//	err says that the store is unavailable           ErrUnavailable
//	err is a definite answer, such as ErrWrongType   err; if ctx has ended, ErrNotAcquired and err
//	ctx has ended, and taken is true                 ErrNotAcquired
//	otherwise, for example a failed connection       ErrUnavailable
//
// If the caller's context has ended, the error also matches the cause of that, which may be
// the ErrClosed of another client. taken reports that the lock was taken by the latest
// answer, or that the store was not asked.
func (c *core) verdict(caller context.Context, err error, taken bool) error {
	if c.life.over.Load() {
		return ErrClosed
	}
	return verdict(caller, err, taken)
}

// verdict is core.verdict for a client that is not closed.
func verdict(caller context.Context, err error, taken bool) error {
	cause := causeOf(caller)
	if !errors.Is(err, ErrUnavailable) {
		switch {
		case isDefinite(err) && cause == nil:
			return err
		case isDefinite(err), taken && isEndOf(caller, err):
			return &outcomeError{ErrNotAcquired, cause, err}
		}
	} else if cause == nil && errors.As(err, new(*outcomeError)) {
		return err
	}
	return &outcomeError{ErrUnavailable, cause, err}
}

// isDefinite reports whether err is an answer of the store, or an error of this package,
// that tells why the lock is not acquired.
func isDefinite(err error) bool {
	return storekit.IsPermanent(err) || errors.Is(err, ErrTooMany) || errors.Is(err, ErrLost) ||
		errors.Is(err, errNotWatched) || errors.Is(err, errStillTaken)
}

// isEndOf reports whether err tells nothing but that the caller's context has ended.
func isEndOf(caller context.Context, err error) bool {
	return caller.Err() != nil && (err == nil || isEnd(err) || errors.Is(err, causeOf(caller)) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// unavailable adds ErrUnavailable to the error of a call that acquires nothing, unless it
// is a definite answer. The caller's context has not ended.
func unavailable(err error) error {
	if err == nil || errors.As(err, new(*outcomeError)) || !errors.Is(err, ErrUnavailable) && (storekit.IsPermanent(err) || errors.Is(err, ErrNotHeld)) {
		return err
	}
	return &outcomeError{kind: ErrUnavailable, err: err}
}

// textError has a text of its own and matches what err matches.
type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }

// outcomeError is the error of a call that ended with the context of its caller, or
// without a usable answer of the store. It matches its kind, and all that cause and err
// match, with these exceptions:
//
//   - Cause and err may be any errors, but of ErrNotAcquired and ErrUnavailable it matches
//     its kind alone. An unavailable store has no *HeldError.
//   - It matches errors of package context only if the caller's context has ended.
type outcomeError struct {
	kind  error // ErrNotAcquired or ErrUnavailable
	cause error // of the caller's context, nil if that has not ended
	err   error // of the store, or nil
}

// Error implements error.
func (e *outcomeError) Error() string {
	text := e.kind.Error()
	if e.cause != nil {
		text += ": " + basic.Unprefixed(e.cause).Error()
	}
	if e.err == nil || e.cause != nil && (isEnd(e.err) || errors.Is(e.err, e.cause)) {
		return text
	}
	kind, more := basic.Unprefixed(e.kind).Error(), basic.Unprefixed(e.err).Error()
	more = strings.TrimPrefix(strings.TrimPrefix(more, kind), ": ") // err may say it too
	if more == "" {
		return text
	}
	return text + ": " + more
}

// Is implements the rules of the type.
func (e *outcomeError) Is(target error) bool {
	switch target {
	case ErrNotAcquired, ErrUnavailable:
		return target == e.kind
	case context.Canceled, context.DeadlineExceeded:
		return errors.Is(e.cause, target)
	}
	return errors.Is(e.cause, target) || errors.Is(e.err, target)
}

// As implements the rules of the type.
func (e *outcomeError) As(target any) bool {
	if _, ok := target.(**HeldError); ok {
		return errors.Is(e.kind, ErrNotAcquired) && e.err != nil && errors.As(e.err, target)
	}
	return e.cause != nil && errors.As(e.cause, target) || e.err != nil && errors.As(e.err, target)
}
