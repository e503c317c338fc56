package quorumstore_test

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
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// scripted is a server with answers that the test sets.
type scripted struct {
	*memstore.Store
	held    int
	name    string // metadata of the holders
	client  string // of the holders
	forced  error
	closing error
	lane    int
}

func (s *scripted) Inspect(context.Context, string) (driver.Info, error) {
	info := driver.Info{Held: s.held, Holders: make([]driver.Holder, s.held), Token: 17}
	for i := range info.Holders {
		info.Holders[i] = driver.Holder{Metadata: s.name, Client: s.client, Token: 17}
	}
	return info, nil
}
func (s *scripted) ForceRelease(context.Context, string) error { return s.forced }
func (s *scripted) Lane(l driver.Lease) int                    { return s.lane * len(l.Key) }
func (s *scripted) Shutdown(context.Context) error             { return errors.Join(s.Close(), s.closing) }

func quorumOf(t *testing.T, all ...scripted) *quorumstore.Store {
	t.Helper()
	var stores []driver.Store
	for i := range all {
		all[i].Store = memstore.New()
		stores = append(stores, &all[i])
	}
	q, err := quorumstore.New(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// A majority of members reports at least as many holders as Inspect shows.
func TestQuorumShowsTheMedianMember(t *testing.T) {
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
			info, err := quorumOf(t, all...).Inspect(t.Context(), "k")
			require.NoError(t, err)
			assert.Equal(t, driver.Info{Held: want, Holders: make([]driver.Holder, want)}, info, "%v", held)
		}
	}
}

// A single holder is the one that most members report.
func TestQuorumShowsTheHolderOfMostMembers(t *testing.T) {
	for _, names := range []string{"abb", "bab", "bba", "abcdb", "babcd", "cdabb"} {
		all := make([]scripted, len(names))
		for i, name := range names {
			all[i].held, all[i].name = 1, string(name)
		}
		info, err := quorumOf(t, all...).Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, driver.Info{Held: 1, Holders: []driver.Holder{{Metadata: "b"}}}, info, names)
		for i, client := range names { // the holders may have the same metadata
			all[i].name, all[i].client = "m", string(client)
		}
		info, err = quorumOf(t, all...).Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, driver.Info{Held: 1, Holders: []driver.Holder{{Metadata: "m", Client: "b"}}}, info, names)
	}
}

func TestQuorumForceReleaseNeedsAMajority(t *testing.T) {
	gone := driver.ErrNotHeld
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
		err := quorumOf(t, all...).ForceRelease(t.Context(), "k")
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

func TestQuorumInspectIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		acquire(t, q, "k", "a")
		all.fail(1, mute)
		start := time.Now()
		info, err := q.Inspect(context.Background(), "k")
		require.NoError(t, err)
		assert.Equal(t, 1, info.Held)
		assert.Equal(t, time.Second, time.Since(start), "Inspect waits a second for a silent member")
		all.fail(2, mute)
		_, err = q.Inspect(context.Background(), "k")
		require.ErrorContains(t, err, "2 of 3 stores failed: store 0: no answer in time; store 1: no answer in time")

		cause := errors.New("the cause")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		_, err = q.Inspect(ctx, "k")
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, q.ForceRelease(ctx, "k"), cause)
		require.NoError(t, q.Close())
		_, err = q.Inspect(context.Background(), "k")
		require.ErrorIs(t, err, driver.ErrClosed)
		require.ErrorIs(t, q.ForceRelease(context.Background(), "k"), driver.ErrClosed)
	})
}

// Two leases share a lane if the same members have copies, in the same lanes.
func TestQuorumLanesFollowThoseOfItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quorumOf(t, scripted{}, scripted{lane: 1}, scripted{})
		lane := q.Lane
		a, b, longer := acquire(t, q, "a", "a"), acquire(t, q, "b", "b"), acquire(t, q, "longer", "c")
		assert.Equal(t, lane(a), lane(b))
		assert.NotEqual(t, lane(a), lane(longer))
		assert.NotEqual(t, lane(a), lane(driver.Lease{Request: request("a", "nobody")}))
	})
}

// Without a deadline of the caller, members have a third of the TTL to answer, the time
// until the next renewal.
func TestQuorumRenewalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(2, mute)
		start := time.Now()
		err := q.Renew(context.Background(), []driver.Lease{l}, make([]renewal.Outcome, 1))
		require.ErrorContains(t, err, "1 of 1 leases have no majority: ")
		require.ErrorContains(t, err, "store 0: no answer in time")
		require.ErrorContains(t, err, "store 1: no answer in time")
		assert.Equal(t, ttl/3, time.Since(start))
	})
}

// A member that returns Unknown without an error has not renewed the lease.
func TestQuorumOfMembersWithoutOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		for _, s := range all[:2] {
			s.Over(silent{s.mem})
		}
		out := make([]renewal.Outcome, 1)
		err := q.Renew(context.Background(), []driver.Lease{l}, out)
		require.EqualError(t, err, "quorumstore: 1 of 1 leases have no majority")
		assert.Equal(t, renewal.Unknown, out[0])
	})
}

// Close ends the calls under way and names the stores whose Close failed.
func TestQuorumClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		stores := []driver.Store{all[0], &scripted{Store: memstore.New(), closing: io.EOF}, all[2]}
		q, err := quorumstore.New(stores...)
		require.NoError(t, err)
		all[0].losesRequests(mute)
		ended := false
		all[2].losesRequests(func(ctx context.Context, op locktest.Op) error {
			err := mute(ctx, op)
			time.Sleep(time.Millisecond) // the call returns late
			ended = true
			return err
		})
		go func() { _, _ = q.Acquire(context.Background(), request("k", "a")) }()
		synctest.Wait()
		start := time.Now()
		require.EqualError(t, q.Close(), "quorumstore: close: store 1: EOF")
		assert.Equal(t, time.Millisecond, time.Since(start))
		assert.True(t, ended, "Close waits for the calls")
		require.EqualError(t, q.Close(), "quorumstore: close: store 1: EOF", "a second Close returns the same result")
	})
}

func TestQuorumShowsTheAnswerOfAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		all, q := newServers(t, 3)
		inspector := q
		_, err := all[0].mem.Acquire(ctx, request("k", "x"))
		require.NoError(t, err)
		info, err := inspector.Inspect(ctx, "k")
		require.NoError(t, err)
		assert.Zero(t, info.Held, "a lock of a minority is not held")
		all[1].losesRequests(down)
		_, err = inspector.Inspect(ctx, "k")
		require.ErrorIs(t, err, errIO, "the failed member may have a copy, too")
		_, err = inspector.Inspect(ctx, "nobody's")
		require.NoError(t, err, "a majority answered")
		all[1].losesRequests(nil)

		require.ErrorIs(t, inspector.ForceRelease(ctx, "k"), lock.ErrNotHeld)
		l := acquire(t, q, "k", "a")
		all.fail(1, down)
		info, err = inspector.Inspect(ctx, "k")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		client := info.Holders[0].Client
		assert.Len(t, client, 16, "the members know one owner")
		assert.Equal(t, lock.Info{Holders: []driver.Holder{{ExpiresIn: ttl, Client: client}}, Held: 1}, info)
		require.NoError(t, inspector.ForceRelease(ctx, "k"))
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, q, l))
	})
}

// A member that did not answer the release gets it again in the background, and keeps its copy
// for what is left then.
func TestEachMemberOfAQuorumKeepsItsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l, err := q.Acquire(ctx, request("k", "a"))
		require.NoError(t, err)
		synctest.Wait()
		l.Request = request("k", "a")
		l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(5 * ttl)}
		all[0].losesRequests(once(locktest.Release, errIO))
		require.NoError(t, q.Release(ctx, l))
		settle(time.Second)
		for i, s := range all {
			assert.Equal(t, 5*ttl-time.Second, s.mem.ExpiresIn("k"), "member %d", i)
		}
		info, err := q.Inspect(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, driver.Info{FreeIn: 5*ttl - time.Second}, info)
	})
}

// FreeIn is the time until a majority can be had. A minority that is taken is in nobody's way.
func TestAQuorumIsFreeWhenAMajorityIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		freeIn := func() time.Duration {
			info, err := q.Inspect(ctx, "k")
			require.NoError(t, err)
			return info.FreeIn
		}
		for i, want := range []time.Duration{0, ttl, 2 * ttl} {
			if i == 1 {
				all[2].losesRequests(once(locktest.Inspect, errIO))
				assert.Zero(t, freeIn(), "one member is taken, one is free and one does not answer")
			}
			l, err := all[i].mem.Acquire(ctx, request("k", "a"))
			require.NoError(t, err)
			l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Duration(i+1) * ttl)}
			require.NoError(t, all[i].mem.Release(ctx, l))
			assert.Equal(t, want, freeIn(), "%d members are taken", i+1)
		}
	})
}

func TestAMajorityConfirmsMetadata(t *testing.T) {
	errDown := errors.New("the server is down")
	for failing, want := range []error{nil, nil, errDown, errDown} {
		synctest.Test(t, func(t *testing.T) {
			var members []driver.Store
			for i := range 3 {
				members = append(members, (&locktest.Faulty{Before: func(_ context.Context, op locktest.Op) error {
					if op == locktest.SetMetadata && i < failing {
						return errDown
					}
					return nil
				}}).Over(memstore.New()))
			}
			q, err := quorumstore.New(members...)
			require.NoError(t, err)
			r := driver.Request{Key: "k", Owner: "o:1", TTL: time.Minute, Attrs: &driver.Attrs{Metadata: "first"}}
			l, err := q.Acquire(t.Context(), r)
			require.NoError(t, err)
			l.Request = r
			synctest.Wait() // until all members have answered
			err = q.SetMetadata(t.Context(), l, "second")
			require.ErrorIs(t, err, want, "%d members fail", failing)
			if want == nil {
				info, err := q.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.Equal(t, "second", info.Holders[0].Metadata)
			}
			require.NoError(t, q.Close())
		})
	}
}

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
