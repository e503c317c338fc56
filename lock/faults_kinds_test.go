package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// Readers, writers, permits and batches on a store that loses requests and answers,
// among holders that die: nobody holds with whom it must not, and nothing is left.
func TestSharedLocksOnAFaultyStore(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			test := func(t *testing.T, b *bench) { b.share(seed) }
			if seed%2 == 0 {
				bubble(t, test)
			} else {
				waiting(t, nil, test)
			}
		})
	}
}

func (b *bench) share(seed uint64) {
	const goroutines, rounds = 10, 16
	d := newDice(seed)
	b.loseRequests(d.fault)
	b.loseAnswers(d.fault)
	checker := locktest.NewConflicts()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				b.holdShared(checker, d)
			}
		})
	}
	wg.Wait()
	b.heal()
	assert.Empty(b.t, checker.Violations())
	for _, mode := range locktest.AllModes {
		assert.Greater(b.t, checker.Entered(mode), rounds/4, "%v: a run that did too little", mode)
	}
	time.Sleep(2 * ttl)
	synctest.Wait()
	assert.Zero(b.t, b.mem.Len())
	assert.Zero(b.t, b.Stats().Cleaning)
	assert.Zero(b.t, b.Stats().Waiting)
	assert.Zero(b.t, b.Stats().Renewal.Held)
}

// holdShared holds a lock for a moment, or lets a holder of it die.
func (b *bench) holdShared(c *locktest.Conflicts, d *dice) {
	rw := b.RWMutex("rw")
	names := []string{"a", "b", "c", "d", "e"}[d.roll(4):]
	var l lock.Locker
	var r lock.Request
	switch d.roll(6) {
	case 0, 1:
		l, r = rw, lock.Request{Key: "rw", Mode: lock.Write}
	case 2, 3:
		l, r = rw.RLocker(), lock.Request{Key: "rw", Mode: lock.Read}
	case 4:
		l, r = b.Semaphore("s", 2), lock.Request{Key: "s", Mode: lock.Permit, Extra: &lock.Extra{Limit: 2}}
	case 5:
		l, r = b.Batch("g", names...), lock.Request{Key: "g", Mode: lock.Members, Extra: &lock.Extra{Members: names}}
	}
	if d.roll(12) == 0 {
		r.Owner, r.TTL = fmt.Sprintf("dead:%d", d.roll(1<<30)), time.Second
		_, _ = b.mem.Acquire(ctx, r)
		return
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(1+d.roll(3000))*time.Millisecond)
	defer cancel()
	h, err := l.Lock(limited)
	if err != nil {
		return // a fault, or the end of its time
	}
	b.hold(c, d, h, r)
	if r.Mode == lock.Write && d.roll(2) == 0 {
		r.Mode = lock.Read
		writer := h
		if h, err = rw.Downgrade(limited, writer); err != nil {
			_ = writer.Unlock(ctx) // it may have been refused
			return
		}
		b.hold(c, d, h, r)
	}
	_ = h.Unlock(ctx) // what is not confirmed goes on in the background
}

func (b *bench) hold(c *locktest.Conflicts, d *dice, h *lock.Held, r lock.Request) {
	r.Owner = fmt.Sprint(h.Token())
	lease := lock.Lease{Request: r, Token: h.Token()}
	c.Enter(lease)
	time.Sleep(time.Duration(d.roll(10)) * time.Millisecond)
	assert.True(b.t, h.Valid())
	c.Leave(lease)
}

// One that waits without an answer, in any mode, is given back, and keeps nobody
// waiting.
func TestASharedWaitWithoutAnAnswerIsGivenBack(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.RWMutex("rw"), b.RWMutex("r").RLocker(), b.Semaphore("s", 1), b.Batch("g", "a")} {
			b.loseAnswers(always(locktest.Wait, errIO))
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, errIO)
			b.heal()
			settle(time.Second)
			assert.Zero(t, b.mem.Len(), "it was granted, and given back")
			h, err := l.TryLock(ctx)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}
	})
}
