package check

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func TestNewRefusesBadArguments(t *testing.T) {
	_, err := zkstore.New(t.Context(), nil, nil)
	require.EqualError(t, err, "zkstore: there are no servers")
	_, err = zkstore.New(t.Context(), []string{"127.0.0.1:1/app"}, nil) // as in Java
	require.ErrorContains(t, err, "Options.Root")
	for field, o := range map[string]zkstore.Options{
		"Options.Root":           {Root: "locks"},
		"Options.Digest":         {Digest: "user"},
		"Options.SessionTimeout": {SessionTimeout: time.Millisecond},
	} {
		_, err = zkstore.New(t.Context(), []string{"127.0.0.1:1"}, &o)
		require.ErrorContains(t, err, field)
	}
}

func TestLimitsAndClose(t *testing.T) {
	t.Parallel()
	server := testzk.Shared(t)
	s := open(t, 100*time.Millisecond+time.Second, server)
	assert.Equal(t, driver.Description{
		Waits: true, Inspects: true, Lists: true, SetsMetadata: true,
		Yields:    driver.ModesOf(driver.Exclusive, driver.Read, driver.Write),
		TTL:       driver.TTLLimits{Max: 550 * time.Millisecond, Shared: true, Slack: 1100 * time.Millisecond},
		Addresses: []string{server.Address},
	}, s.Describe())
	_, err := s.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: time.Second})
	require.ErrorIs(t, err, driver.ErrBadTTL)
	require.ErrorContains(t, err, "zkstore: ")
	_, err = s.Wait(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: 100 * time.Millisecond, Mode: driver.Permit}, func() {})
	require.ErrorIs(t, err, errors.ErrUnsupported)

	granted := open(t, time.Hour, server) // the server grants ten minutes
	assert.Equal(t, 5*time.Minute, granted.Describe().TTL.Max)
	r := driver.Request{Key: "orders", Owner: "o", TTL: time.Minute}
	_, err = granted.Acquire(t.Context(), r)
	require.NoError(t, err)
	require.NoError(t, granted.Close())
	require.NoError(t, granted.Close())
	_, err = granted.Acquire(t.Context(), r)
	require.ErrorIs(t, err, driver.ErrStoreClosed)

	another := open(t, time.Hour, server)
	_, err = another.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "p", TTL: time.Minute})
	require.NoError(t, err, "a closed store gives back its locks at once")
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	members := testzk.Start(t, 1)
	s := open(t, sessionTimeout, members...)
	members[0].Signal(t, testprocess.Stop) // Close waits for it, for some seconds
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no time")
	cancel(reason)
	require.ErrorIs(t, s.Shutdown(ctx), reason)
	require.ErrorIs(t, s.Shutdown(ctx), reason)
	_, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "c:1", TTL: time.Second})
	require.ErrorIs(t, err, driver.ErrStoreClosed)
	require.NoError(t, s.Close(), "it ends in the background")
	require.NoError(t, s.Shutdown(ctx), "it has ended")
}
