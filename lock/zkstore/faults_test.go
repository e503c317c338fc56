package zkstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/zkstore"
	"github.com/leasewheel/leasewheel/renewal"
)

const faultTTL = 3 * time.Second

func newLocks(t *testing.T, s *zkstore.Store) *lock.Client {
	t.Helper()
	locks, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: faultTTL}})
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
		bounded, cancel := context.WithTimeout(ctx, 4*faultTTL)
		held, err := m.Lock(bounded)
		cancel()
		if err != nil {
			continue // also while the ensemble has no leader
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

func TestTheLeaderIsKilledAndStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	members := testzk.Start(t, 3)
	ex, entered := locktest.NewExclusion(), new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for range 4 {
		locks := newLocks(t, open(t, 2*faultTTL, members...))
		workers.Go(func() { work(ctx, locks.Mutex("k"), ex, entered) })
	}
	progress := func(why string) {
		t.Helper()
		before := entered.Load()
		require.Eventually(t, func() bool { return entered.Load() > before+10 }, 2*time.Minute, 10*time.Millisecond, why)
	}
	progress("before the fault")
	leader := leaderOf(t, members)
	leader.Kill()
	progress("with a new leader")
	leader.Run(t)
	progress("with all members")
	leader = leaderOf(t, members)
	leader.Signal(t, syscall.SIGSTOP)
	progress("while the leader is stopped")
	leader.Signal(t, syscall.SIGCONT)
	progress("after the old leader has come back")
	cancel()
	workers.Wait()
	assert.Empty(t, ex.Violations())
	t.Logf("%d holders", entered.Load())
}

// proxy is a link to a server that can be cut.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu   sync.Mutex // guards all below
	open []net.Conn
	cut  bool
}

func newProxy(t *testing.T, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.setCut(true)
		p.running.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.cut {
			_ = in.Close()
			if err == nil {
				_ = out.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		for _, ends := range [][2]net.Conn{{in, out}, {out, in}} {
			p.running.Go(func() {
				_, _ = io.Copy(ends[0], ends[1])
				_, _ = ends[0].Close(), ends[1].Close()
			})
		}
	}
}

func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for _, c := range p.open {
			_ = c.Close()
		}
		p.open = nil
	}
}

// The link of a holder is cut until its session has expired, and comes back.
func TestASessionExpires(t *testing.T) {
	t.Parallel()
	members := testzk.Start(t, 1)
	link := newProxy(t, members[0].Address)
	s := openAt(t, 2*faultTTL, link.listener.Addr().String())
	locks := newLocks(t, s)
	held, err := locks.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	r := driver.Request{Key: "raw", Owner: "client:1", TTL: faultTTL}
	raw, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	link.setCut(true)

	next := newLocks(t, open(t, 2*faultTTL, members...))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	h, err := next.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	assert.False(t, held.Valid(), "the holder knew before")
	assert.Greater(t, h.Token(), held.Token())
	<-held.Done()
	require.ErrorIs(t, held.Err(), lock.ErrLost)

	link.setCut(false)
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
