package rediskit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFailedNamesTheStoreTheVerbAndTheKey(t *testing.T) {
	err := Failed("redlock", "renew", "a\n", driver.ErrStoreClosed)
	require.EqualError(t, err, `redlock: renew "a\n": the store is closed`)
	assert.ErrorIs(t, err, driver.ErrStoreClosed)
}

func TestNotSentKeepsTheError(t *testing.T) {
	reason := errors.New("refused")
	err := NotSent(reason)
	require.EqualError(t, err, "refused")
	for _, target := range []error{reason, driver.ErrNotSent, driver.ErrUnavailable} {
		assert.ErrorIs(t, err, target)
	}
	assert.NotErrorIs(t, err, driver.ErrNotAcquired)
}

func TestFromConn(t *testing.T) {
	other := errors.New("other")
	for in, want := range map[error]error{
		redisconn.ErrClosed: driver.ErrStoreClosed, redisconn.ErrWrongType: driver.ErrWrongType, other: other,
	} {
		assert.Equal(t, want, FromConn(in))
		assert.ErrorIs(t, FromConn(fmt.Errorf("outer: %w", in)), want)
	}
	assert.NoError(t, FromConn(nil))
}

func TestUnexpectedReplyShowsNoContent(t *testing.T) {
	assert.EqualError(t, UnexpectedReply("owner"), "unexpected reply type string")
	assert.EqualError(t, UnexpectedReply([]any{"owner", int64(1)}), "unexpected reply with 2 elements")
}

func TestCloseWaitsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := time.Now(), make(chan struct{})
		err := Close(func(ctx context.Context) error {
			return Shutdown(ctx, func() error { <-release; return nil })
		})
		require.ErrorIs(t, err, errStillRunning)
		assert.Equal(t, time.Second, time.Since(began))
		close(release)
	})
}

func TestShutdownReturnsTheErrorOfEnd(t *testing.T) {
	reason := errors.New("dirty")
	assert.Equal(t, reason, Shutdown(t.Context(), func() error { return reason }))
}
