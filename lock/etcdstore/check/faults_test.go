package check

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

const faultTTL = 3 * time.Second

// leaderOf returns the leader and the other members of a cluster.
func leaderOf(t *testing.T, client *clientv3.Client, members []*member) (leader *member, others []*member) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader, others = nil, nil
		for _, m := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			status, err := client.Status(ctx, m.Client)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				leader = m
			} else {
				others = append(others, m)
			}
		}
		return leader != nil && len(others) == len(members)-1
	}, time.Minute, 20*time.Millisecond)
	return leader, others
}

func newLocks(t *testing.T, members ...*member) *lock.Client {
	t.Helper()
	locks, err := lock.New(open(t, connect(t, members...)), &lock.Options{Terms: lock.Terms{TTL: faultTTL}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = locks.Close(ctx)
	})
	return locks
}

// work holds one lock again and again, and reports what it holds.
func work(ctx context.Context, m *lock.Mutex, ex *locktest.Exclusion, entered *atomic.Int64) {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, 2*faultTTL)
		held, err := m.Lock(bounded)
		cancel()
		if err != nil {
			continue // also while the cluster has no leader
		}
		if held.Valid() {
			ex.Enter(m.Key(), held.Token())
			entered.Add(1)
			select {
			case <-held.Done():
			case <-time.After(time.Millisecond):
			}
			ex.Leave(m.Key(), held.Token())
		}
		bounded, cancel = context.WithTimeout(context.WithoutCancel(ctx), faultTTL)
		_ = held.Unlock(bounded)
		cancel()
	}
}

func TestTheLeaderIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	client := connect(t, members...)
	ex, entered := locktest.NewExclusion(), new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for range 4 {
		locks := newLocks(t, members...)
		workers.Go(func() { work(ctx, locks.Mutex("k"), ex, entered) })
	}
	progress := func(why string) {
		t.Helper()
		before := entered.Load()
		require.Eventually(t, func() bool { return entered.Load() > before+10 }, time.Minute, 10*time.Millisecond, why)
	}
	progress("before the fault")
	leader, _ := leaderOf(t, client, members)
	leader.kill()
	progress("with a new leader")
	leader.start(t)
	progress("with all members")
	leader, _ = leaderOf(t, client, members)
	leader.signal(t, syscall.SIGSTOP)
	progress("while the leader is stopped")
	leader.signal(t, syscall.SIGCONT)
	progress("after the old leader has come back")
	cancel()
	workers.Wait()
	assert.Empty(t, ex.Violations())
	t.Logf("%d holders", entered.Load())
}

// The holder knows only the leader, which stops. The others choose a new leader, and another
// client gets the lock once the lease has ended.
func TestAHolderBehindAStoppedLeader(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	leader, others := leaderOf(t, connect(t, members...), members)
	locks := newLocks(t, leader)
	held, err := locks.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	got := make(chan *lock.Held, 1)
	next := newLocks(t, others...)
	leader.signal(t, syscall.SIGSTOP)
	go func() {
		for t.Context().Err() == nil {
			if h, err := next.Mutex("k").Lock(t.Context()); err == nil {
				got <- h
				return
			}
		}
	}()
	select {
	case h := <-got:
		assert.False(t, held.Valid(), "the holder knew before")
		assert.Greater(t, h.Token(), held.Token())
	case <-time.After(time.Minute):
		require.Fail(t, "the lock has not become free")
	}
	<-held.Done()
	leader.signal(t, syscall.SIGCONT)
	require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
	require.ErrorIs(t, held.Renew(t.Context(), 0), driver.ErrNotHeld)
	require.Eventually(t, func() bool { // nothing of the old holder revives
		_, err := locks.Mutex("k").TryLock(t.Context())
		return errors.Is(err, lock.ErrNotAcquired)
	}, time.Minute, 50*time.Millisecond)
	assert.False(t, held.Valid())
}

// The member of a waiter dies, and the revision that it watched is compacted before the watch
// goes on at another member.
func TestACompactionDuringAWait(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	client := connect(t, members...)
	_, others := leaderOf(t, client, members)
	of, rest := others[0], others[1]
	s := open(t, client)
	_, err := s.Acquire(t.Context(), request("k", "holder:1", 5*time.Minute))
	require.NoError(t, err)

	w := open(t, connect(t, of, rest))
	waited := make(chan error, 1)
	go func() {
		_, err := w.Wait(t.Context(), request("k", "waiter:1", 5*time.Minute))
		waited <- err
	}()
	require.Eventually(t, func() bool { return waiting(t, s, "k") == 1 }, time.Minute, 5*time.Millisecond)
	of.kill()
	client = connect(t, others[1])
	require.Eventually(t, func() bool { // the members may have to agree on a leader first
		put, err := client.Put(t.Context(), "another key", "")
		if err != nil {
			return false
		}
		_, err = client.Compact(t.Context(), put.Header.Revision, clientv3.WithCompactPhysical())
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	_, err = client.Delete(t.Context(), lockKey("k")) // like a release, which may fail at the dead member
	require.NoError(t, err)
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the waiter is not served")
	}
}
