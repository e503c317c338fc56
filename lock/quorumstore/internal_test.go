package quorumstore

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// yes is a store that grants every request.
type yes struct {
	driver.Base
	id int
}

func (*yes) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	return driver.Lease{Request: r}, nil
}

func (*yes) Renew(_ context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}
func (*yes) Release(context.Context, driver.Lease) error { return nil }

func newYes(t *testing.T) *Store {
	t.Helper()
	q, err := New(&yes{id: 0}, &yes{id: 1}, &yes{id: 2})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// Lost leases that are never released, and tombstones, are removed once they have ended.
func TestQuorumRemovesEndedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		r := driver.Request{Key: "k", Owner: "kept", TTL: 2 * time.Minute}
		kept, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		for i := range 3 * minSweep {
			r := driver.Request{Key: fmt.Sprint(i), Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.NoError(t, err)
			if i%2 == 0 {
				require.NoError(t, q.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
			}
			time.Sleep(time.Second)
			if i%60 == 0 {
				require.NoError(t, q.Renew(t.Context(), []driver.Lease{kept}, make([]renewal.Outcome, 1)))
			}
			q.mu.Lock()
			require.Less(t, len(q.grants)+len(q.tombstones), minSweep+1)
			q.mu.Unlock()
		}
		kept.State = nil
		assert.NotNil(t, q.find(&kept), "a renewed lease has not ended")
	})
}

// Failed attempts are removed once they have ended.
func TestQuorumRemovesFailedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
		}
		for i := range 2 * minSweep {
			r := driver.Request{Key: "k", Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.ErrorIs(t, err, errBusyMember)
			time.Sleep(time.Second)
			q.mu.Lock()
			require.LessOrEqual(t, len(q.failed), minSweep)
			q.mu.Unlock()
		}
		before := len(q.failed)
		last := driver.Request{Key: "k", Owner: fmt.Sprint(2*minSweep - 1), TTL: time.Second}
		require.ErrorIs(t, q.Release(t.Context(), driver.Lease{Request: last}), driver.ErrNotHeld)
		assert.Len(t, q.failed, before-1)
	})
}

// A member with too many calls under way is skipped, and the others serve.
func TestQuorumBoundsTheCallsOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
			q.members[i].renews.Store(maxMemberRenews)
		}
		_, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.ErrorIs(t, err, errBusyMember)
		q.members[0].calls.Store(0)
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		out := make([]renewal.Outcome, 1)
		require.ErrorIs(t, q.Renew(t.Context(), []driver.Lease{l}, out), errBusyMember)
		q.members[0].renews.Store(0)
		require.NoError(t, q.Renew(t.Context(), []driver.Lease{l}, out))
		assert.Equal(t, renewal.Renewed, out[0])
		require.NoError(t, q.Release(t.Context(), l))
	})
}

// A release of a lease without copies sends no request and keeps no memory.
func TestQuorumKeepsNothingOfAnEmptyRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, q.Release(t.Context(), l))
		synctest.Wait()

		type key struct{}
		mine := new([64]byte)
		kept := weak.Make(mine)
		require.ErrorIs(t, q.Release(context.WithValue(t.Context(), key{}, mine), l), driver.ErrNotHeld)
		time.Sleep(time.Minute) // longer than every timeout
		runtime.GC()
		assert.Nil(t, kept.Value(), "the context must not be kept until the quorum is closed")
	})
}
