package whole

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// members of the group that is locked in parts.
var members = []string{"one", "two", "three", "four"}

// share returns the lock with a name that is shared, in a mode that the dice decide,
// and what to call that.
func (u *user) share(key string) (name string, l lock.Locker) {
	switch key {
	case permitName:
		return "permit", u.locker(key)
	case groupName:
		order := u.dice.Perm(len(members))
		var some []string
		for _, i := range order[:1+u.dice.IntN(3)] {
			some = append(some, members[i])
		}
		return "batch", u.client.Batch(key, some...)
	default:
		if u.dice.Chance(600) {
			return "read", u.client.RWMutex(key).RLocker()
		}
		return "write", u.locker(key)
	}
}

// locker returns the lock with a name, all of it.
func (u *user) locker(key string) lock.Locker {
	switch key {
	case rwName:
		return u.client.RWMutex(key)
	case permitName:
		return u.client.Semaphore(key, permits)
	case groupName:
		return u.client.Batch(key, members...)
	default:
		return u.client.Mutex(key)
	}
}

// downgrades writes for a while and then reads.
func (u *user) downgrades(wait bool) {
	m := u.client.RWMutex(rwName)
	held := u.acquire("write", m, rwName, wait)
	if held == nil {
		return
	}
	t := u.begin(held)
	if t == nil {
		return
	}
	u.hold(t, u.dice.UpTo(u.plan.ttl))
	if t = u.downgrade(m, held, t); t != nil {
		u.hold(t, u.howLong())
		u.unlock(t.handle(), t)
	}
}

// downgrade makes a reader of a writer, and returns its tenure from then on.
func (u *user) downgrade(m *lock.RWMutex, held *lock.Held, t *tenure) *tenure {
	u.pass()
	w, before, begun := u.world, held.Err(), time.Now()
	patience := u.dice.UpTo(2 * u.plan.ttl)
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errEnough)
	defer cancel()
	w.mu.Lock()
	t.turning = true
	w.mu.Unlock()
	reader, err := m.Downgrade(ctx, held)
	var done <-chan struct{}
	if err == nil {
		done = reader.Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("p%d.%d downgrades: %v", u.process.id, u.id, err)
	w.counts.Operations["downgrade"]++
	w.check("downgraded")
	_, still := u.gate.StoodStill(begun)
	if late := time.Since(begun) - patience; late > 0 && !still {
		w.violated("downgraded", "L4: p%d is at a downgrade %v after its context ended", u.process.id, late)
	}
	t.gone, t.unlocked = true, time.Now()
	if err == nil {
		next := t.continues()
		next.done = done
		next.held.Store(reader)
		w.tenures[t.tenureID] = next
		if before != nil {
			w.violated("downgraded", "S5: p%d has a reader's handle of a lock that it lost: %v", u.process.id, before)
		}
		w.traveling.Go(func() { w.watch(next) })
		return next
	}
	switch {
	case held.Valid():
		w.violated("downgraded", "S6: p%d could not downgrade, and still believes to be the writer: %v", u.process.id, err)
	case w.plan.lossless() && ctx.Err() == nil && before == nil:
		w.violated("downgraded", "L1: nothing failed twice, but p%d could not downgrade: %v", u.process.id, err)
	case before != nil && !u.closed && !errors.Is(err, renewal.ErrLost):
		w.violated("downgraded", "S6: the lock was lost (%v), Downgrade answers %v", before, err)
	}
	return nil
}
