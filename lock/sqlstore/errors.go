// The errors of the store.

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

var (
	errNilContext = errors.New("the context is nil")
	errGivenUp    = fmt.Errorf("%w: the acquisition was given up", driver.ErrNotAcquired)

	// errNoAutocommit prevents renewals that are rolled back when their connection is closed.
	errNoAutocommit = unfitError{text: "autocommit is off in the sessions of the *sql.DB, and the store needs it"}
)

// unfitError means that locks would fail with the settings of a session, or not exclude others. It names the setting.
type unfitError struct {
	text string
	err  error // of the database, if it has refused something
}

func (e unfitError) Error() string {
	if e.err != nil {
		return e.text + ": " + e.err.Error()
	}
	return e.text
}

func (e unfitError) Unwrap() error { return e.err }

// noConnError is the error of a call that has waited for a connection of the pool in vain. It matches what has ended the wait.
type noConnError struct {
	inUse, most int
	err         error
}

func (e noConnError) Error() string {
	text := fmt.Sprintf("no connection of the pool was free (%d of %d in use)", e.inUse, e.most)
	if errors.As(e.err, new(noAnswerError)) {
		return text // the database was not asked
	}
	return text + ": " + e.err.Error()
}

func (e noConnError) Unwrap() error { return e.err }

// failureError says which operation failed for which key.
type failureError struct {
	verb, key string
	err       error
}

func failed(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	return &failureError{verb, key, err}
}

func (e *failureError) Error() string {
	return "sqlstore: " + e.verb + " " + basic.Quote(e.key) + ": " + strings.TrimPrefix(e.err.Error(), "lock: ")
}

func (e *failureError) Unwrap() error { return e.err }

// notSentError is the error of a call that has sent nothing. It matches driver.ErrNotSent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

func (notSentError) Is(target error) bool {
	return target == driver.ErrNotSent || target == driver.ErrUnavailable
}

// noAnswerError is the cause of a call that has reached Options.Timeout.
type noAnswerError time.Duration

func (e noAnswerError) Error() string {
	return fmt.Sprintf("the database has not answered within %v", time.Duration(e))
}

func (noAnswerError) Is(target error) bool { return target == driver.ErrUnavailable }

// isPermanent reports whether another try would return the same error.
func isPermanent(err error) bool {
	return errors.Is(err, driver.ErrWrongType) || errors.Is(err, errGivenUp) || errors.As(err, new(unfitError)) || errors.Is(err, driver.ErrStoreClosed)
}

// cause returns why ctx has ended, nil if it has not.
func cause(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return context.Cause(ctx)
}
