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
