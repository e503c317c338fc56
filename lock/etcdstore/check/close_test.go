package check

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

// queue starts a Wait for a lock that is held, with a function that it calls then. The channel gets the
// error of Wait.
func queue(t *testing.T, s *etcdstore.Store, key string, queued func()) <-chan error {
	t.Helper()
	_, err := s.Acquire(t.Context(), request(key, "a:1", time.Minute))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), request(key, "b:1", time.Minute), queued)
		ended <- err
	}()
	return ended
}

func TestCloseDoesNotWaitForAFunctionThatBlocks(t *testing.T) {
	t.Parallel()
	client := connect(t, startCluster(t, 1)...)
	s, next := open(t, client), open(t, client)
	blocked, unblock := make(chan struct{}), make(chan struct{})
	ended := queue(t, s, "k", func() {
		blocked <- struct{}{}
		<-unblock
	})
	<-blocked
	err := s.Close()
	require.ErrorContains(t, err, "calls are still under way")
	require.Equal(t, err, s.Close(), "the same result")
	_, err = next.Acquire(t.Context(), request("k", "c:1", time.Minute))
	require.NoError(t, err, "its locks are free all the same")
	close(unblock)
	require.ErrorIs(t, <-ended, driver.ErrStoreClosed)
}

func TestAFunctionMayCloseTheStore(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, startCluster(t, 1)...))
	closed := make(chan error, 1)
	ended := queue(t, s, "k", func() { closed <- s.Close() })
	require.ErrorContains(t, <-closed, "calls are still under way")
	require.ErrorIs(t, <-ended, driver.ErrStoreClosed)
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	s := open(t, connect(t, members...))
	blocked, unblock := make(chan struct{}), make(chan struct{})
	ended := queue(t, s, "k", func() {
		blocked <- struct{}{}
		<-unblock
	})
	<-blocked
	members[0].signal(t, testprocess.Stop) // nothing is revoked
	reason := errors.New("no time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	require.ErrorIs(t, s.Shutdown(ctx), reason)
	require.ErrorIs(t, s.Shutdown(ctx), reason)
	close(unblock)
	assert.ErrorIs(t, <-ended, driver.ErrStoreClosed)
}
