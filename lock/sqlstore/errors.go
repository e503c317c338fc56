// The errors of the store.

package sqlstore

import (
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

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

// failed returns an error that says which operation failed, or nil.
func failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	return basic.Failed("sqlstore", verb, err)
}

// isPermanent reports whether another try would return the same error.
func isPermanent(err error) bool {
	return driver.VerdictOf(err).IsFinal() || errors.As(err, new(unfitError))
}
