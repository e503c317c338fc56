package driver_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestVerdictOf(t *testing.T) {
	held := &driver.HeldError{Key: "k"}
	for err, want := range map[error]driver.Verdict{
		nil:                   driver.Done,
		held:                  driver.Taken,
		driver.ErrNotHeld:     driver.NotHeld,
		driver.ErrNotAcquired: driver.Refused,
		driver.ErrStoreClosed: driver.Closed,
		driver.ErrWrongType:   driver.WrongType,
		fmt.Errorf("x: %w", errors.ErrUnsupported): driver.Unsupported,
		driver.ErrNotExecuted:                      driver.NotExecuted,
		driver.ErrNotSent:                          driver.NotSent,
		&driver.ReplicasError{}:                    driver.Unconfirmed,
		driver.ErrUnavailable:                      driver.Unanswered,
		io.EOF:                                     driver.Unanswered,
		errors.Join(driver.ErrUnavailable, held):   driver.Unanswered,

		driver.NotSent.Error(io.EOF):                              driver.NotSent,
		driver.NotExecuted.Error(io.EOF):                          driver.NotExecuted,
		driver.Unanswered.Error(driver.NotSent.Error(io.EOF)):     driver.Unanswered,
		driver.Unanswered.Error(driver.ErrNotSent):                driver.Unanswered,
		fmt.Errorf("acquire: %w", driver.NotSent.Error(io.EOF)):   driver.NotSent,
		driver.NotExecuted.Error(driver.NotSent.Error(io.EOF)):    driver.NotExecuted,
		fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrBadKey): driver.NotSent,
		unsentError{io.EOF}:                                       driver.NotSent,
		driver.SentBefore(unsentError{io.EOF}):                    driver.Unanswered,
		driver.SentBefore(driver.NotExecuted.Error(io.EOF)):       driver.Unanswered,
		driver.SentBefore(driver.ErrBadKey):                       driver.Invalid,
		driver.NoAnswerError(0):                                   driver.Unanswered,
	} {
		assert.Equal(t, want, driver.VerdictOf(err), "%v", err)
	}
}

// unsentError is an error of a store that matches ErrNotSent alone.
type unsentError struct{ error }

func (unsentError) Is(target error) bool { return target == driver.ErrNotSent }

func TestAVerdictKeepsTheError(t *testing.T) {
	err := driver.NotSent.Error(fmt.Errorf("dial: %w", &driver.HeldError{Key: "k"}))
	assert.EqualError(t, err, `dial: lock: "k" is held by another, or waited for`)
	assert.ErrorIs(t, err, driver.ErrUnavailable)
	assert.ErrorIs(t, err, driver.ErrNotAcquired)
	assert.ErrorAs(t, err, new(*driver.HeldError))
	assert.NotErrorIs(t, err, driver.ErrNotExecuted)
}
