package quorumstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestAQuorumNamesThePackageOnce(t *testing.T) {
	q, err := quorumstore.New(memstore.New())
	require.NoError(t, err)
	r := driver.Request{Key: "k", Owner: "o", TTL: ttl}
	require.ErrorIs(t, q.Release(ctx, driver.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
	_, err = q.Acquire(ctx, r)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.EqualError(t, err, "quorumstore: not acquired: the acquisition was given up")
	require.NoError(t, q.Close())
}

func TestAQuorumRefusesANilContext(t *testing.T) {
	q, err := quorumstore.New(memstore.New())
	require.NoError(t, err)
	var none context.Context
	l := driver.Lease{Request: driver.Request{Key: "k", Owner: "o", TTL: ttl}}
	_, acquired := q.Acquire(none, l.Request)
	_, inspected := q.Inspect(none, "k")
	for _, err := range []error{
		acquired, inspected, q.ForceRelease(none, "k"), q.Release(none, l), q.Renew(none, []driver.Lease{l}, make([]renewal.Outcome, 1)),
	} {
		require.EqualError(t, err, "lock: the context is nil")
	}
	require.NoError(t, q.Close())
}
