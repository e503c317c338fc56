package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestTheZeroStoreIsReadyToUse(t *testing.T) {
	r := driver.Request{Key: "k", Owner: "o", TTL: time.Minute}
	ctx := t.Context()

	var first memstore.Store
	l, err := first.Acquire(ctx, r)
	require.NoError(t, err)
	require.NoError(t, first.Release(ctx, l))

	var second memstore.Store
	require.ErrorIs(t, second.Release(ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
	_, err = second.Acquire(ctx, r)
	require.ErrorIs(t, err, driver.ErrNotAcquired, "its tombstone refuses it")

	var third memstore.Store
	_, err = third.Wait(ctx, r, func() {})
	require.NoError(t, err)

	var fourth memstore.Store
	assert.Zero(t, fourth.Len())
	assert.False(t, fourth.Delete("k"))
	require.NoError(t, fourth.Close())
	_, err = fourth.Acquire(ctx, r)
	require.ErrorIs(t, err, driver.ErrClosed)
}

func TestANilContextIsAnError(t *testing.T) {
	var none context.Context
	s := memstore.New()
	l := driver.Lease{Request: driver.Request{Key: "k", Owner: "o", TTL: time.Minute}}
	_, acquired := s.Acquire(none, l.Request)
	_, waited := s.Wait(none, l.Request, func() {})
	_, inspected := s.Inspect(none, "k")
	for _, err := range []error{
		acquired, waited, inspected, s.ForceRelease(none, "k"), s.Release(none, l), s.Renew(none, []driver.Lease{l}, make([]renewal.Outcome, 1)),
	} {
		require.EqualError(t, err, "lock: the context is nil")
	}
	assert.Zero(t, s.Len())
}

// A Client always sends a limit of at least 1; a direct caller of the store may not.
func TestPermitsWithoutALimitAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := driver.Request{Key: "k", Owner: "o", Mode: driver.Permit, TTL: time.Minute}
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, "limit of permits must be at least 1, got 0")
		l, err := s.Wait(t.Context(), r, func() {})
		require.ErrorContains(t, err, "limit of permits must be at least 1, got 0")
		assert.Zero(t, l)
		assert.Zero(t, s.Waiting("k"))
	})
}
