package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// All kinds of locks contend for the same keys on a slow store that loses requests and answers.
// There are never two holders, and no lock is left at the end.
func TestAllKindsOfLocksOnAFaultyStore(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			test := func(t *testing.T, b *bench) { b.contend(seed) }
			if seed%2 == 0 {
				bubble(t, test)
			} else {
				waiting(t, nil, test)
			}
		})
	}
}

// dice is a random number generator for several goroutines.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// fault takes up to 4 ms and fails one call in twenty.
func (d *dice) fault(context.Context, locktest.Op) error {
	time.Sleep(time.Duration(d.roll(5)) * time.Millisecond)
	if d.roll(20) == 0 {
		return errIO
	}
	return nil
}

func (b *bench) contend(seed uint64) {
	const goroutines, rounds = 8, 20
	d := newDice(seed)
	b.loseRequests(d.fault)
	b.loseAnswers(d.fault)
	ex := locktest.NewExclusion()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				b.holdAny(ex, d)
			}
		})
	}
	wg.Wait()
	b.heal()
	assert.Empty(b.t, ex.Violations())
	assert.Greater(b.t, ex.Entered(), goroutines*rounds/4, "a run that did too little")
	time.Sleep(2 * ttl)
	synctest.Wait()
	assert.Zero(b.t, b.mem.Len())
	assert.Zero(b.t, b.Stats().Releasing)
	assert.Zero(b.t, b.Stats().Renewal.Held)
}

// holdAny holds one or more of three keys for a moment, once or twice.
func (b *bench) holdAny(ex *locktest.Exclusion, d *dice) {
	keys := []string{"a", "b", "c"}
	first := d.roll(3)
	var locks []lock.Locker
	for i := range 1 + d.roll(3) {
		locks = append(locks, b.Reentrant(keys[(first+i)%3]))
	}
	all := lock.Multi(locks...)
	limited, cancel := context.WithTimeout(ctx, time.Duration(1+d.roll(2000))*time.Millisecond)
	defer cancel()
	h, err := all.Lock(limited)
	if err != nil {
		return // a fault or its timeout
	}
	for _, m := range h.Handles() {
		ex.Enter(m.Key(), m.Token())
	}
	inside, stop := h.Context(ctx)
	defer stop()
	if d.roll(2) == 0 {
		inner, err := all.Lock(inside)
		assert.NoError(b.t, err)
		_ = h.Unlock(ctx)
		h = inner
	}
	time.Sleep(time.Duration(d.roll(10)) * time.Millisecond)
	assert.True(b.t, h.Valid())
	for _, m := range h.Handles() {
		ex.Leave(m.Key(), m.Token())
	}
	_ = h.Unlock(ctx) // an unconfirmed release continues in the background
}

// Readers, writers, permits and batches contend on a store that loses requests and answers, and
// some holders die. No two holders exclude each other, and no lock is left at the end.
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
	assert.Zero(b.t, b.Stats().Releasing)
	assert.Zero(b.t, b.Stats().Waiting)
	assert.Zero(b.t, b.Stats().Renewal.Held)
}

// holdShared holds a lock for a moment, or abandons it as a crashed holder does.
func (b *bench) holdShared(c *locktest.Conflicts, d *dice) {
	rw := b.RWMutex("rw")
	names := []string{"a", "b", "c", "d", "e"}[d.roll(4):]
	var l lock.Locker
	var r driver.Request
	switch d.roll(6) {
	case 0, 1:
		l, r = rw, driver.Request{Key: "rw", Mode: driver.Write}
	case 2, 3:
		l, r = rw.RLocker(), driver.Request{Key: "rw", Mode: driver.Read}
	case 4:
		l, r = b.Semaphore("s", 2), driver.Request{Key: "s", Mode: driver.Permit, Attrs: &driver.Attrs{Limit: 2}}
	case 5:
		l, r = b.Batch("g", names...), driver.Request{Key: "g", Mode: driver.Members, Attrs: &driver.Attrs{Members: names}}
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
		return // a fault or its timeout
	}
	b.hold(c, d, h, r)
	if r.Mode == driver.Write && d.roll(2) == 0 {
		r.Mode = driver.Read
		writer := h
		if h, err = rw.Downgrade(limited, writer); err != nil {
			_ = writer.Unlock(ctx) // it may have been refused
			return
		}
		b.hold(c, d, h, r)
	}
	_ = h.Unlock(ctx) // an unconfirmed release continues in the background
}

func (b *bench) hold(c *locktest.Conflicts, d *dice, h *lock.Held, r driver.Request) {
	r.Owner = fmt.Sprint(h.Token())
	lease := driver.Lease{Request: r, Token: h.Token()}
	c.Enter(lease)
	time.Sleep(time.Duration(d.roll(10)) * time.Millisecond)
	assert.True(b.t, h.Valid())
	c.Leave(lease)
}
