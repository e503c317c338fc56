package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestCloseDoesNotWaitForAFunctionThatBlocks(t *testing.T) {
	t.Parallel()
	server := testzk.Shared(t)
	s, next := open(t, sessionTimeout, server), open(t, sessionTimeout, server)
	_, err := s.Acquire(t.Context(), driver.Request{Key: t.Name(), Owner: "a:1", TTL: 10 * time.Second})
	require.NoError(t, err)
	blocked, unblock, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), driver.Request{Key: t.Name(), Owner: "b:1", TTL: 10 * time.Second}, func() {
			blocked <- struct{}{}
			<-unblock
		})
		ended <- err
	}()
	<-blocked
	require.ErrorContains(t, s.Close(), "not finished")
	_, err = next.Acquire(t.Context(), driver.Request{Key: t.Name(), Owner: "c:1", TTL: 10 * time.Second})
	require.NoError(t, err, "its locks are free all the same")
	close(unblock)
	require.ErrorIs(t, <-ended, driver.ErrStoreClosed)
	require.NoError(t, s.Close(), "it has ended")
}
