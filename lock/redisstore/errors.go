package redisstore

import (
	"errors"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

var (
	errNilContext = errors.New("the context is nil")
	errZeroStore  = errors.New("the Store was not made by New")
)

// failureError says which operation failed for which key. Error makes the text when it is
// called, and leaves out the prefix of package lock.
type failureError struct {
	verb, key string
	err       error
}

func failed(verb, key string, err error) error { return &failureError{verb, key, err} }

func (e *failureError) Error() string {
	return "redisstore: " + e.verb + " " + basic.Quote(e.key) + ": " + strings.TrimPrefix(e.err.Error(), "lock: ")
}

func (e *failureError) Unwrap() error { return e.err }

// notSentError is the error of a call that has sent nothing.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// Is reports whether target is one of the errors that such a call matches.
func (notSentError) Is(target error) bool {
	return target == driver.ErrNotSent || target == driver.ErrUnavailable
}

// fromConn replaces an error of package redisconn by its equivalent in package driver, if
// there is one.
func fromConn(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redisconn.ErrClosed):
		return driver.ErrStoreClosed
	case errors.Is(err, redisconn.ErrWrongType):
		return driver.ErrWrongType
	}
	return err
}
