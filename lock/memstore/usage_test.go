package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// The tests of this file show how a program tests its use of locks: with a store in
// memory, in a synctest bubble, so that a lease of 30 s takes no real time. docs/GUIDE.md
// quotes them.

// report is a job of one minute that must stop when it loses its lock.
func report(ctx context.Context, _ *lock.Held) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
		return nil
	}
}

// run calls f with a client of the store, in a bubble.
func run(t *testing.T, store driver.Store, f func(t *testing.T, client *lock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(store, nil)
		require.NoError(t, err)
		defer client.Close(context.Background())
		f(t, client)
	})
}

func TestAJobStopsWhenItsLockIsDeleted(t *testing.T) {
	store := memstore.New()
	run(t, store, func(t *testing.T, client *lock.Client) {
		time.AfterFunc(15*time.Second, func() { store.Delete("report") }) // as an operator may do
		began := time.Now()
		err := lock.Do(t.Context(), client.Mutex("report"), report)
		assert.ErrorIs(t, err, driver.ErrLost)
		lost, ok := errors.AsType[*renewal.LostError](err)
		require.True(t, ok)
		assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		assert.Less(t, time.Since(began), 30*time.Second, "lost at the next renewal")
	})
}

func TestAJobStopsWhenTheServerIsGone(t *testing.T) {
	gone := errors.New("no route to host")
	server := faulttest.NewServer(memstore.New())
	run(t, server, func(t *testing.T, client *lock.Client) {
		time.AfterFunc(time.Second, func() { server.Fail(gone) })
		began := time.Now()
		err := lock.Do(t.Context(), client.Mutex("report"), report)
		assert.ErrorIs(t, err, driver.ErrLost)
		assert.ErrorIs(t, err, gone)
		assert.Less(t, time.Since(began), 31*time.Second, "lost before another client can have the lock")
	})
}

// A server that hangs for less than a lease costs nothing.
func TestAJobGoesOnWhenTheServerHangsForShort(t *testing.T) {
	server := faulttest.NewServer(memstore.New())
	run(t, server, func(t *testing.T, client *lock.Client) {
		time.AfterFunc(5*time.Second, server.Hang)
		time.AfterFunc(15*time.Second, server.Resume)
		require.NoError(t, lock.Do(t.Context(), client.Mutex("report"), report))
	})
}

func TestAServerThatHangsIsUnavailable(t *testing.T) {
	server := faulttest.NewServer(memstore.New())
	run(t, server, func(t *testing.T, client *lock.Client) {
		server.Hang() // and it still hangs when run closes the client
		_, err := client.Mutex("report").TryLock(t.Context())
		assert.ErrorIs(t, err, driver.ErrUnavailable)
	})
}
