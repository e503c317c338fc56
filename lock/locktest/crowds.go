package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock"
)

// crowd returns a request of one of many who contend for a key.
func (f *fixture) crowd(mode lock.Mode, i int) lock.Request {
	switch mode {
	case lock.Write:
		if i%4 > 0 {
			return f.read("k")
		}
		return f.write("k")
	case lock.Permit:
		return f.permit("k", 3)
	}
	names := []string{"a", "b", "c", "d", "e", "f"}
	first := rand.N(len(names))
	return f.batch("k", names[first:first+1+rand.N(len(names)-first)]...)
}

// Each of a crowd may give up in a quarter of its rounds, never in its last.
const crowdRounds, crowdPatient = 20, 15

// contend has many acquire and release leases of a family, by get, and checks them.
func (f *fixture) contend(mode lock.Mode, get func(r lock.Request, patient bool) (lock.Lease, error)) {
	const clients = 12
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
					_ = f.store.Release(f.ctx, lock.Lease{Request: r, Unanswered: got.Unanswered})
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
	assert.Greater(f, c.Most(key), 1, "some held it together")
	assert.GreaterOrEqual(f, c.Entered(lock.Read)+c.Entered(mode), clients*crowdPatient)
	f.acquire(f.any(lock.Exclusive, "k")) // it is free, for any family
}

// tryUntil asks the store again and again.
func (f *fixture) tryUntil(r lock.Request, _ bool) (lock.Lease, error) {
	for {
		l, err := f.store.Acquire(f.ctx, r)
		if !errors.Is(err, lock.ErrNotAcquired) {
			return l, err
		}
		time.Sleep(time.Millisecond)
	}
}

// waitOrGiveUp waits, and gives up soon if it is not patient.
func (f *fixture) waitOrGiveUp(r lock.Request, patient bool) (lock.Lease, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	if !patient {
		ctx, cancel = context.WithTimeout(f.ctx, rand.N(20*time.Millisecond))
	}
	defer cancel()
	return f.waiter().Wait(ctx, r)
}

var crowding = []testCase{
	{name: "S1_S3_many_readers_and_writers", needs: needsModes(lock.Read, lock.Write), run: func(f *fixture) {
		f.contend(lock.Write, f.tryUntil)
	}},
	{name: "S1_S3_many_permits", needs: needsModes(lock.Permit), run: func(f *fixture) { f.contend(lock.Permit, f.tryUntil) }},
	{name: "S1_S3_many_batches", needs: needsModes(lock.Members), run: func(f *fixture) { f.contend(lock.Members, f.tryUntil) }},
	{name: "S1_S3_many_readers_and_writers_wait_and_some_give_up", needs: both(needsWaiting, needsModes(lock.Read, lock.Write)), run: func(f *fixture) {
		f.contend(lock.Write, f.waitOrGiveUp)
	}},
	{name: "S1_S3_many_wait_for_permits_and_some_give_up", needs: both(needsWaiting, needsModes(lock.Permit)), run: func(f *fixture) {
		f.contend(lock.Permit, f.waitOrGiveUp)
	}},
	{name: "S1_S3_many_wait_for_batches_and_some_give_up", needs: both(needsWaiting, needsModes(lock.Members)), run: func(f *fixture) {
		f.contend(lock.Members, f.waitOrGiveUp)
	}},
}
