package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

var (
	errNilContext = errors.New("the context is nil")
	errZeroStore  = errors.New("the Store was not made by New")
	errGivenUp    = fmt.Errorf("the owner was given up by an earlier release: %w", driver.ErrNotAcquired)
)

// failed returns an error that says which operation failed for which key.
func failed(verb, key string, err error) error { return &failureError{verb, key, err} }

type failureError struct {
	verb, key string
	err       error
}

func (e *failureError) Error() string {
	return "redlock: " + e.verb + " " + basic.Quote(e.key) + ": " + strings.TrimPrefix(e.err.Error(), "lock: ")
}

func (e *failureError) Unwrap() error { return e.err }

// notSentError is the error of a call that has sent nothing.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// Is reports whether target is one of the errors that such a call matches.
func (notSentError) Is(target error) bool {
	return target == driver.ErrNotSent || target == driver.ErrUnavailable
}

// fromConn replaces an error of package redisconn by its equivalent in package driver, if there is
// one.
func fromConn(err error) error {
	switch {
	case errors.Is(err, redisconn.ErrClosed):
		return driver.ErrStoreClosed
	case errors.Is(err, redisconn.ErrWrongType):
		return driver.ErrWrongType
	}
	return err
}
