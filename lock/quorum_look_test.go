package lock_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// scripted is a server that answers what a test has written.
type scripted struct {
	*memstore.Store
	held    int
	name    string // of the holders
	forced  error
	closing error
	lane    int
}

func (s *scripted) Inspect(context.Context, string) (lock.Info, error) {
	info := lock.Info{Held: s.held, Holders: make([]lock.Holder, s.held), Token: 17}
	for i := range info.Holders {
		info.Holders[i] = lock.Holder{Metadata: s.name, Token: 17}
	}
	return info, nil
}
func (s *scripted) ForceRelease(context.Context, string) error { return s.forced }
func (s *scripted) Lane(l lock.Lease) int                      { return s.lane * len(l.Key) }
func (s *scripted) Close() error                               { return errors.Join(s.Store.Close(), s.closing) }

func quorumOf(t *testing.T, all ...scripted) lock.Store {
	t.Helper()
	var stores []lock.Store
	for i := range all {
		all[i].Store = memstore.New()
		stores = append(stores, &all[i])
	}
	q, err := lock.Quorum(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeStore(q) })
	return q
}

// As many hold it as a majority shows at least.
func TestQuorumShowsTheMemberInTheMiddle(t *testing.T) {
	for want, shown := range map[int][][]int{
		0: {{0, 0, 5}, {0, 5, 0}, {5, 0, 0}, {0, 0, 5, 5}},
		1: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 3, 1, 2}, {5, 0, 1, 5, 0}},
		7: {{7}, {7, 7}, {9, 7}},
	} {
		for _, held := range shown {
			all := make([]scripted, len(held))
			for i, n := range held {
				all[i].held = n
			}
			info, err := quorumOf(t, all...).(lock.Inspector).Inspect(t.Context(), "k")
			require.NoError(t, err)
			assert.Equal(t, lock.Info{Held: want, Holders: make([]lock.Holder, want)}, info, "%v", held)
		}
	}
}

// Of one holder that is shown which most show.
func TestQuorumShowsTheHolderOfMost(t *testing.T) {
	for _, names := range []string{"abb", "bab", "bba", "abcdb", "babcd", "cdabb"} {
		all := make([]scripted, len(names))
		for i, name := range names {
			all[i].held, all[i].name = 1, string(name)
		}
		info, err := quorumOf(t, all...).(lock.Inspector).Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, lock.Info{Held: 1, Holders: []lock.Holder{{Metadata: "b"}}}, info, names)
	}
}

func TestQuorumForcesAMajority(t *testing.T) {
	gone := lock.ErrNotHeld
	for _, c := range []struct {
		answers []error
		want    string
	}{
		{[]error{nil, nil, io.EOF}, ""},
		{[]error{nil, gone, nil}, ""},
		{[]error{nil, gone, gone}, "not held"},
		{[]error{nil, gone, io.EOF}, "no majority confirmed the release: store 2: EOF"},
		{[]error{nil, nil, io.EOF, io.EOF, io.EOF}, "no majority confirmed the release: store 2: EOF; store 3: EOF; store 4: EOF"},
		{[]error{nil, nil, nil, io.EOF, io.EOF}, ""},
		{[]error{nil, nil, gone, gone}, "not held"},
	} {
		all := make([]scripted, len(c.answers))
		for i, err := range c.answers {
			all[i].forced = err
		}
		err := quorumOf(t, all...).(lock.Inspector).ForceRelease(t.Context(), "k")
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

func TestQuorumLooksForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		acquire(t, q, "k", "a")
		all.fail(1, mute)
		start := time.Now()
		info, err := q.(lock.Inspector).Inspect(context.Background(), "k")
		require.NoError(t, err)
		assert.Equal(t, 1, info.Held)
		assert.Equal(t, time.Second, time.Since(start), "all are waited for, and one that is silent for a second")
		all.fail(2, mute)
		_, err = q.(lock.Inspector).Inspect(context.Background(), "k")
		require.ErrorContains(t, err, "2 of 3 stores failed: store 0: no answer in time; store 1: no answer in time")

		cause := errors.New("the cause")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		_, err = q.(lock.Inspector).Inspect(ctx, "k")
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, q.(lock.Inspector).ForceRelease(ctx, "k"), cause)
		require.NoError(t, closeStore(q))
		_, err = q.(lock.Inspector).Inspect(context.Background(), "k")
		require.ErrorIs(t, err, lock.ErrClosed)
		require.ErrorIs(t, q.(lock.Inspector).ForceRelease(context.Background(), "k"), lock.ErrClosed)
	})
}

// Leases of one quorum are of one lane if they are at the same members and of the same
// lanes there.
func TestQuorumHasTheLanesOfItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quorumOf(t, scripted{}, scripted{lane: 1}, scripted{})
		lane := q.(renewal.Laner[lock.Lease]).Lane
		a, b, longer := acquire(t, q, "a", "a"), acquire(t, q, "b", "b"), acquire(t, q, "longer", "c")
		assert.Equal(t, lane(a), lane(b))
		assert.NotEqual(t, lane(a), lane(longer))
		assert.NotEqual(t, lane(a), lane(lock.Lease{Request: request("a", "nobody")}))
	})
}

// Without a deadline of the caller's, members have a third of the TTL, as long as it is
// until the next renewal.
func TestQuorumRenewalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(2, mute)
		start := time.Now()
		err := q.Renew(context.Background(), []lock.Lease{l}, make([]renewal.Outcome, 1))
		require.ErrorContains(t, err, "1 of 1 leases have no majority: ")
		require.ErrorContains(t, err, "store 0: no answer in time")
		require.ErrorContains(t, err, "store 1: no answer in time")
		assert.Equal(t, ttl/3, time.Since(start))
	})
}

// A member that says nothing of a lease has not renewed it, though it calls that no
// failure.
func TestQuorumOfMembersThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		for _, s := range all[:2] {
			s.Store = silent{s.mem}
		}
		out := make([]renewal.Outcome, 1)
		err := q.Renew(context.Background(), []lock.Lease{l}, out)
		require.EqualError(t, err, "lock: quorum: 1 of 1 leases have no majority")
		assert.Equal(t, renewal.Unknown, out[0])
	})
}

// Close ends what is under way and names the stores that do not close.
func TestQuorumCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		stores := []lock.Store{all[0], &scripted{Store: memstore.New(), closing: io.EOF}, all[2]}
		q, err := lock.Quorum(stores...)
		require.NoError(t, err)
		all[0].losesRequests(mute)
		ended := false
		all[2].losesRequests(func(ctx context.Context, op locktest.Op) error {
			err := mute(ctx, op)
			time.Sleep(time.Millisecond) // and it takes its time
			ended = true
			return err
		})
		go func() { _, _ = q.Acquire(context.Background(), request("k", "a")) }()
		synctest.Wait()
		start := time.Now()
		require.EqualError(t, closeStore(q), "lock: quorum: close: store 1: EOF")
		assert.Equal(t, time.Millisecond, time.Since(start))
		assert.True(t, ended, "it has waited for the calls")
		require.NoError(t, closeStore(q), "a second one does nothing")
	})
}
