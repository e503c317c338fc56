package quorumstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// S1: no two processes rely on a lock at one time. Their servers lose requests and
// answers, are slow, hang, have fast clocks, and lose all data, after which they stay
// away for a TTL.
func TestS1QuorumHoldersExcludeEachOtherUnderFaults(t *testing.T) {
	total := faults{}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := newServers(t, 3+2*int(seed%2))
				trial := &trial{T: t, dice: newDice(seed), all: all, count: faults{}}
				trial.run()
				for what, n := range trial.count {
					total[what] += n
				}
			})
		})
	}
	t.Log(total)
	for _, what := range []string{"held", "lost", "slow", "hung", "request lost", "answer lost", "restart"} {
		assert.Greater(t, total[what], 20, what)
	}
}

// faults counts events by kind.
type faults map[string]int

const trialTTL = time.Second

// trial is the test of one seed.
type trial struct {
	*testing.T
	*dice
	all      servers
	machines []*machine // machines of the servers

	mu    sync.Mutex // guards all below
	held  map[*lock.Held]struct{}
	count faults
}

func (tr *trial) note(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.count[what]++
}

func (tr *trial) run() {
	tr.held = make(map[*lock.Held]struct{})
	for i, s := range tr.all {
		tr.machines = append(tr.machines, &machine{Store: s.mem, fast: i%2 == 0})
		s.Over(tr.machines[i])
		s.losesRequests(tr.before)
		s.losesAnswers(tr.after)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*trialTTL)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		c := tr.all.newQuorumClient(tr.T, &lock.Options{Terms: lock.Terms{TTL: trialTTL}})
		wg.Go(func() { tr.work(ctx, c) })
	}
	wg.Go(func() { tr.restart(ctx) })
	wg.Wait()
	tr.all.fail(len(tr.all), nil)
	for _, s := range tr.all {
		s.losesAnswers(nil)
	}
	settle(3 * trialTTL)
	assert.Zero(tr, tr.all.holding("k"), "no copies remain")
}

func (tr *trial) before(ctx context.Context, _ locktest.Op) error {
	switch n := tr.roll(100); {
	case n < 6:
		tr.note("request lost")
		return errIO
	case n < 9:
		tr.note("hung")
		<-ctx.Done()
		return context.Cause(ctx)
	case n < 20:
		tr.note("slow")
		time.Sleep(time.Duration(tr.roll(300)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(tr.roll(5000)) * time.Microsecond)
	}
	return nil // the request is executed, though its caller may have stopped waiting
}

func (tr *trial) after(context.Context, locktest.Op) error {
	time.Sleep(time.Duration(tr.roll(5000)) * time.Microsecond)
	if tr.roll(100) < 6 {
		tr.note("answer lost")
		return errIO
	}
	return nil
}

// restart makes each server in turn lose its locks and stay away for a TTL.
func (tr *trial) restart(ctx context.Context) {
	for ctx.Err() == nil {
		i := tr.roll(len(tr.all))
		tr.machines[i].down.Store(true)
		synctest.Wait() // no request is executed while virtual time stands still
		tr.all[i].mem.Delete("k")
		tr.note("restart")
		time.Sleep(trialTTL)
		tr.machines[i].down.Store(false)
		time.Sleep(time.Duration(tr.roll(3000)) * time.Millisecond)
	}
}

func (tr *trial) work(ctx context.Context, c *lock.Client) {
	for ctx.Err() == nil {
		h, err := c.Mutex("k").Lock(ctx)
		if err != nil {
			continue
		}
		tr.enter(h)
		for range tr.roll(40) {
			time.Sleep(50 * time.Millisecond)
			if !tr.alone(h) {
				break
			}
		}
		tr.leave(h)
		_ = h.Unlock(ctx)
		time.Sleep(time.Duration(tr.roll(20)) * time.Millisecond)
	}
}

func (tr *trial) enter(h *lock.Held) {
	tr.mu.Lock()
	tr.held[h] = struct{}{}
	tr.count["held"]++
	tr.mu.Unlock()
	tr.alone(h)
}

// alone checks that no other client relies on the lock while h does.
func (tr *trial) alone(h *lock.Held) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !h.Valid() {
		return false
	}
	for other := range tr.held {
		assert.False(tr, other != h && other.Valid() && h.Valid(), "two holders")
	}
	return true
}

func (tr *trial) leave(h *lock.Held) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !h.Valid() {
		tr.count["lost"]++
	}
	delete(tr.held, h)
}

// machine runs a server. It may be down for all requests, and its clock may be 1 % fast.
type machine struct {
	driver.Store
	fast bool
	down atomic.Bool
}

func (m *machine) ttl(d time.Duration) time.Duration {
	if m.fast {
		return d - d/100
	}
	return d
}

func (m *machine) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if m.down.Load() {
		return driver.Lease{}, errIO
	}
	r.TTL = m.ttl(r.TTL)
	return m.Store.Acquire(ctx, r)
}

func (m *machine) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if m.down.Load() {
		return errIO
	}
	batch = slices.Clone(batch)
	for i := range batch {
		batch[i].TTL = m.ttl(batch[i].TTL)
	}
	return m.Store.Renew(ctx, batch, out)
}

func (m *machine) Release(ctx context.Context, l driver.Lease) error {
	if m.down.Load() {
		return errIO
	}
	return m.Store.Release(ctx, l)
}

// A member whose Acquire is still unanswered may have a copy. A release at the other
// members alone could report that a majority has none.
func TestQuorumReleasesUnansweredAcquires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		only := func(op locktest.Op, f fault) fault {
			return func(ctx context.Context, of locktest.Op) error {
				if of != op {
					return nil
				}
				return f(ctx, of)
			}
		}
		all[0].losesAnswers(only(locktest.Acquire, slow(ttl/10)))
		l, err := q.Acquire(context.Background(), request("k", "a"))
		require.NoError(t, err)
		all[1].losesRequests(only(locktest.Release, down))
		all[2].losesAnswers(only(locktest.Release, down))
		for range 2 {
			err = q.Release(context.Background(), l)
			require.Error(t, err)
			require.NotErrorIs(t, err, driver.ErrNotHeld, "an unanswered member may have a copy")
			assert.Less(t, all.holding("k"), 2)
		}
	})
}
