package lock

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

	"github.com/leasewheel/leasewheel/renewal"
)

// yes is a store that grants everything.
type yes struct{ id int }

func (*yes) Acquire(_ context.Context, r Request) (Lease, error) { return Lease{Request: r}, nil }
func (*yes) Renew(_ context.Context, batch []Lease, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}
func (*yes) Release(context.Context, Lease) error { return nil }

func newYes(t *testing.T) *quorum {
	t.Helper()
	s, err := Quorum(&yes{0}, &yes{1}, &yes{2})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.(*quorum).Close()) })
	return s.(*quorum)
}

// What was lost is not released by anybody, and what was given up leaves a
// tombstone: neither is remembered for ever.
func TestQuorumForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		r := Request{Key: "k", Owner: "kept", TTL: 2 * time.Minute}
		kept, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		for i := range 3 * minQuorumSweep {
			r := Request{Key: fmt.Sprint(i), Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.NoError(t, err)
			if i%2 == 0 {
				require.NoError(t, q.Release(t.Context(), Lease{Request: r, Unanswered: true}))
			}
			time.Sleep(time.Second)
			if i%60 == 0 {
				require.NoError(t, q.Renew(t.Context(), []Lease{kept}, make([]renewal.Outcome, 1)))
			}
			q.mu.Lock()
			require.Less(t, len(q.grants)+len(q.tombs), minQuorumSweep+1)
			q.mu.Unlock()
		}
		kept.State = nil
		assert.NotNil(t, q.find(&kept), "what is renewed is not over")
	})
}

// Nor is what an Acquire that failed may have left.
func TestQuorumForgetsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
		}
		for i := range 2 * minQuorumSweep {
			r := Request{Key: "k", Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.ErrorIs(t, err, errBusyMember)
			time.Sleep(time.Second)
			q.mu.Lock()
			require.LessOrEqual(t, len(q.failed), minQuorumSweep)
			q.mu.Unlock()
		}
		before := len(q.failed)
		last := Request{Key: "k", Owner: fmt.Sprint(2*minQuorumSweep - 1), TTL: time.Second}
		require.ErrorIs(t, q.Release(t.Context(), Lease{Request: last}), ErrNotHeld)
		assert.Len(t, q.failed, before-1)
	})
}

// A member that has too many calls under way is left out, and the others serve.
func TestQuorumBoundsTheCallsOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
			q.members[i].renews.Store(maxMemberRenews)
		}
		_, err := q.Acquire(t.Context(), Request{Key: "k", Owner: "a", TTL: time.Second})
		require.ErrorIs(t, err, errBusyMember)
		q.members[0].calls.Store(0)
		l, err := q.Acquire(t.Context(), Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		out := make([]renewal.Outcome, 1)
		require.ErrorIs(t, q.Renew(t.Context(), []Lease{l}, out), errBusyMember)
		q.members[0].renews.Store(0)
		require.NoError(t, q.Renew(t.Context(), []Lease{l}, out))
		assert.Equal(t, renewal.Renewed, out[0])
		require.NoError(t, q.Release(t.Context(), l))
	})
}

// A release of what no member has any more asks nobody, and leaves nothing behind.
func TestQuorumForgetsAReleaseThatAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		l, err := q.Acquire(t.Context(), Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, q.Release(t.Context(), l))
		synctest.Wait()

		type key struct{}
		mine := new([64]byte)
		kept := weak.Make(mine)
		require.ErrorIs(t, q.Release(context.WithValue(t.Context(), key{}, mine), l), ErrNotHeld)
		time.Sleep(time.Minute) // beyond every bound
		runtime.GC()
		assert.Nil(t, kept.Value(), "its context is kept until the quorum is closed")
	})
}
