// Cases in which many clients contend for one key.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// crowd returns a request of one of many clients that contend for a key.
func (f *fixture) crowd(mode driver.Mode, i int) driver.Request {
	switch mode {
	case driver.Exclusive:
		return f.request("k")
	case driver.Write:
		if i%4 > 0 {
			return f.read("k")
		}
		return f.write("k")
	case driver.Permit:
		return f.permit("k", 3)
	}
	names := []string{"a", "b", "c", "d", "e", "f"}
	first := rand.N(len(names))
	return f.batch("k", names[first:first+1+rand.N(len(names)-first)]...)
}

// Each client may give up in a quarter of its rounds, but never in its last.
const crowdRounds, crowdPatient = 12, 9

// contend has many clients acquire, with get, and release leases of a family, and checks
// them.
func (f *fixture) contend(mode driver.Mode, get func(r driver.Request, patient bool) (driver.Lease, error)) {
	const clients = 8
	c := NewConflicts()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			order := rand.Perm(crowdRounds)
			for round := range crowdRounds {
				r := f.crowd(mode, i+round)
				patient := order[round] < crowdPatient || round == crowdRounds-1
				got, err := get(r, patient)
				if err != nil {
					assert.False(f, patient, "%v", err)
					assert.ErrorIs(f, err, context.DeadlineExceeded)
					err = f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: got.Unanswered})
					if !errors.Is(err, driver.ErrNotHeld) {
						assert.NoError(f, err)
					}
					continue
				}
				l := complete(got, r)
				c.Enter(l)
				time.Sleep(rand.N(time.Millisecond))
				c.Leave(l)
				assert.NoError(f, f.store.Release(f.ctx, l))
			}
		})
	}
	wg.Wait()
	key := f.request("k").Key
	assert.Empty(f, c.Violations())
	assert.Equal(f, mode != driver.Exclusive, c.Most(key) > 1, "several clients must have held it together")
	assert.GreaterOrEqual(f, c.Entered(driver.Read)+c.Entered(mode), clients*crowdPatient)
	if f.Waiting != nil {
		assert.Zero(f, f.Waiting(f.T, f.store, key))
	}
	f.acquire(f.any(driver.Exclusive, "k")) // the key is free for any family
}

// tryUntil calls Acquire until it succeeds.
func (f *fixture) tryUntil(r driver.Request, _ bool) (driver.Lease, error) {
	for {
		l, err := f.store.Acquire(f.ctx, r)
		if !errors.Is(err, driver.ErrNotAcquired) {
			return l, err
		}
		time.Sleep(time.Millisecond + rand.N(3*time.Millisecond)) // clients in step could refuse each other for ever
	}
}

// waitOrGiveUp calls Wait, with a short timeout if the client is not patient.
func (f *fixture) waitOrGiveUp(r driver.Request, patient bool) (driver.Lease, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	if !patient {
		ctx, cancel = context.WithTimeout(f.ctx, rand.N(20*time.Millisecond))
	}
	defer cancel()
	return f.store.Wait(ctx, r, func() {})
}

var crowding = []testCase{
	{name: "S1_S3_many_readers_and_writers", needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		f.contend(driver.Write, f.tryUntil)
	}},
	{name: "S1_S3_many_permits", needs: needsModes(driver.Permit), run: func(f *fixture) { f.contend(driver.Permit, f.tryUntil) }},
	{name: "S1_S3_many_batches", needs: needsModes(driver.Members), run: func(f *fixture) { f.contend(driver.Members, f.tryUntil) }},
	{name: "S1_S3_many_wait_and_some_give_up", needs: needsWaiting, run: func(f *fixture) {
		f.contend(driver.Exclusive, f.waitOrGiveUp)
	}},
	{name: "S1_S3_many_readers_and_writers_wait_and_some_give_up", needs: both(needsWaiting, needsModes(driver.Read, driver.Write)), run: func(f *fixture) {
		f.contend(driver.Write, f.waitOrGiveUp)
	}},
	{name: "S1_S3_many_wait_for_permits_and_some_give_up", needs: both(needsWaiting, needsModes(driver.Permit)), run: func(f *fixture) {
		f.contend(driver.Permit, f.waitOrGiveUp)
	}},
	{name: "S1_S3_many_wait_for_batches_and_some_give_up", needs: both(needsWaiting, needsModes(driver.Members)), run: func(f *fixture) {
		f.contend(driver.Members, f.waitOrGiveUp)
	}},
}
