package check

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/histories"
)

const faultTTL = 3 * time.Second

func newLocks(t *testing.T, s *zkstore.Store) *lock.Client {
	t.Helper()
	locks, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: faultTTL}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = locks.Close(ctx)
	})
	return locks
}

func leaderOf(t *testing.T, members []*testzk.Member) (leader *testzk.Member) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, m := range members {
			if m.Mode() == "leader" {
				leader = m
				return true
			}
		}
		return false
	}, 2*time.Minute, 50*time.Millisecond)
	return leader
}

func TestTheLeaderFailsUnderLoad(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(testing.TB, time.Duration, ...*lock.Client) *histories.Load{
		"of Mutex":               histories.NewLoad,
		"of readers and writers": histories.NewRWLoad,
	} {
		t.Run(name, func(t *testing.T) { // one after the other, because each has three servers
			members := testzk.Start(t, 3)
			l := load(t, faultTTL, newLocks(t, open(t, 2*faultTTL, members...)), newLocks(t, open(t, 2*faultTTL, members...)))
			l.Progress()
			leader := leaderOf(t, members)
			l.Fault(leader.Kill)
			l.Progress() // with a new leader
			leader.Run(t)
			l.Progress() // with all members
			leader = leaderOf(t, members)
			leader.Signal(t, testprocess.Stop)
			l.Progress()
			leader.Signal(t, testprocess.Continue)
			l.Progress() // after the old leader has come back
			l.StopWith(histories.Locks.TriesMeet())
		})
	}
}

// One client reaches only the leader, which loses its followers and leads on for a while. The other
// client goes on with a new leader.
func TestTheLeaderIsCutOffUnderLoad(t *testing.T) {
	t.Parallel()
	e := testzk.StartEnsemble(t, 3)
	leader := leaderOf(t, e.Members)
	at := slices.Index(e.Members, leader)
	others := slices.Delete(slices.Clone(e.Members), at, at+1)
	behind, next := newLocks(t, open(t, 2*faultTTL, leader)), newLocks(t, open(t, 2*faultTTL, others...))
	l := histories.NewLoad(t, faultTTL, behind, next)
	l.Progress()
	l.Renewed(0)
	held, err := behind.Mutex("behind").Lock(t.Context())
	require.NoError(t, err)
	heal := func() {}
	l.Fault(func() { heal = e.CutOff(leader) })
	leaderOf(t, others) // a new one
	l.Renewed(1)
	after := lockAgain(t, next, held)
	assert.False(t, held.Valid(), "the holder knew before")
	assert.Greater(t, after.Token(), held.Token())
	require.Eventually(t, func() bool { return leader.Mode() != "leader" }, time.Minute, 50*time.Millisecond)
	heal()
	l.Renewed(0) // the old leader follows the new one
	l.Progress()
	l.StopWith(histories.Locks.TriesMeet())
}

// lockAgain gets a lock that another client holds, once its lease has ended. Attempts fail during a
// change of the leader, and on a slow machine.
func lockAgain(t *testing.T, locks *lock.Client, of *lock.Held) (next *lock.Held) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for next == nil && ctx.Err() == nil {
		next, _ = locks.Mutex(of.Key()).Lock(ctx)
	}
	require.NotNil(t, next)
	return next
}

// TestAClientLosesItsServerUnderLoad has a client that reaches one server, by a link of its own,
// while the other client goes on.
func TestAClientLosesItsServerUnderLoad(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T, m *testzk.Member, link *testproxy.Proxy) (end func()){
		"the server is stopped": func(t *testing.T, m *testzk.Member, _ *testproxy.Proxy) func() {
			m.Signal(t, testprocess.Stop)
			return func() { m.Signal(t, testprocess.Continue) }
		},
		"the link drops everything": func(_ *testing.T, _ *testzk.Member, link *testproxy.Proxy) func() {
			link.Block()
			return link.Unblock
		},
		"the connection breaks": func(_ *testing.T, _ *testzk.Member, link *testproxy.Proxy) func() {
			link.Cut()
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := testzk.Start(t, 3)
			leader := leaderOf(t, members)
			at := slices.IndexFunc(members, func(m *testzk.Member) bool { return m != leader })
			follower := members[at]
			link, err := testproxy.New("tcp", follower.Address)
			require.NoError(t, err)
			t.Cleanup(link.Close)
			others := slices.Delete(slices.Clone(members), at, at+1)
			l := histories.NewLoad(t, faultTTL, newLocks(t, openAt(t, 2*faultTTL, link.Addr())), newLocks(t, open(t, 2*faultTTL, others...)))
			l.Progress()
			l.Renewed(0)
			end := func() {}
			l.Fault(func() { end = fault(t, follower, link) })
			l.Renewed(1)
			end()
			l.Renewed(0)
			l.Progress()
			l.StopWith(histories.Locks.TriesMeet())
		})
	}
}

// The link of a holder is cut until its session has expired, and comes back.
func TestASessionExpires(t *testing.T) {
	t.Parallel()
	members := testzk.Start(t, 1)
	link, err := testproxy.New("tcp", members[0].Address)
	require.NoError(t, err)
	t.Cleanup(link.Close)
	s := openAt(t, 2*faultTTL, link.Addr())
	locks := newLocks(t, s)
	held, err := locks.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	r := driver.Request{Key: "raw", Owner: "client:1", TTL: faultTTL}
	raw, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	link.Block()

	h := lockAgain(t, newLocks(t, open(t, 2*faultTTL, members...)), held)
	assert.False(t, held.Valid(), "the holder knew before")
	assert.Greater(t, h.Token(), held.Token())
	<-held.Done()
	require.ErrorIs(t, held.Err(), lock.ErrLost)

	link.Unblock()
	require.Eventually(t, func() bool { // nothing of the old session revives
		bounded, cancel := context.WithTimeout(t.Context(), faultTTL)
		defer cancel()
		out := []renewal.Outcome{renewal.Unknown}
		_ = s.Renew(bounded, []driver.Lease{raw}, out)
		require.NotEqual(t, renewal.Renewed, out[0])
		return out[0] == renewal.Lost
	}, time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool { // the client may not have found its server yet
		_, err := locks.Mutex("k").TryLock(t.Context())
		require.Error(t, err)
		return errors.Is(err, lock.ErrNotAcquired)
	}, time.Minute, 50*time.Millisecond)
	assert.False(t, held.Valid())
	require.Eventually(t, func() bool {
		_, err := locks.Mutex("other").TryLock(t.Context())
		return err == nil
	}, time.Minute, 50*time.Millisecond, "the new session works")
}

// The server comes back with data that is older than what its clients have seen.
func TestAServerIsRestored(t *testing.T) {
	t.Parallel()
	server := testzk.Start(t, 1)[0]
	s := open(t, 2*time.Second, server)
	r := driver.Request{Key: "k", Owner: "a:1", TTL: time.Second}
	require.Eventually(t, func() bool {
		_, err := s.Acquire(t.Context(), r)
		return err == nil
	}, time.Minute, time.Millisecond)
	server.Kill()
	server.Forget(t)
	server.Run(t)
	r.Owner = "a:2"
	require.Eventually(t, func() bool {
		_, err := s.Acquire(t.Context(), r)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// The name leads to another address while a lease is held: the session goes on there.
func TestAServerGetsAnotherAddress(t *testing.T) {
	t.Parallel()
	for name, move := range testproxy.Moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moved := testproxy.NewMoved(t, testzk.Start(t, 1)[0].Address)
			s := openAt(t, sessionTimeout, moved.Addr())
			r := driver.Request{Key: "k", Owner: "a:1", TTL: 4 * faultTTL}
			l, err := s.Acquire(t.Context(), r)
			require.NoError(t, err)
			move(moved)
			out := []renewal.Outcome{renewal.Unknown}
			require.Eventually(t, func() bool { return s.Renew(t.Context(), []driver.Lease{l}, out) == nil }, time.Minute, 10*time.Millisecond)
			assert.Equal(t, renewal.Renewed, out[0])
		})
	}
}

func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	server := testzk.Shared(t)
	link, err := testproxy.New("tcp", server.Address)
	require.NoError(t, err)
	t.Cleanup(link.Close)
	_, port, err := net.SplitHostPort(link.Addr())
	require.NoError(t, err)
	later := testproxy.NewName()
	for name, servers := range map[string][]string{
		"two are unknown":               {testproxy.NewName() + ":1", testproxy.NewName() + ":1", link.Addr()},
		"one leads to several servers":  {testproxy.NewName("127.0.0.3", "127.0.0.4", "127.0.0.1") + ":" + port},
		"it is unknown at first":        {later + ":" + port},
		"it is unknown after the first": {testproxy.NewName("127.0.0.1") + ":" + port},
	} {
		t.Run(name, func(t *testing.T) {
			known := time.AfterFunc(time.Second, func() { testproxy.SetName(later, "127.0.0.1") })
			defer known.Stop()
			s := openAt(t, sessionTimeout, servers...)
			if name == "it is unknown after the first" {
				host, _, _ := net.SplitHostPort(servers[0])
				testproxy.SetName(host)
				link.Cut()
			}
			require.Eventually(t, func() bool {
				_, err := s.Acquire(t.Context(), driver.Request{Key: name, Owner: "a:1", TTL: faultTTL})
				return err == nil
			}, time.Minute, 10*time.Millisecond)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = zkstore.New(ctx, []string{testproxy.NewName() + ":1"}, nil)
	require.ErrorContains(t, err, "no such host")
}
