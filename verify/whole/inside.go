package whole

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// reenters takes a reentrant lock, enters it again, and gives its handles back in an
// order that the dice decide.
func (u *user) reenters(key string, wait bool) {
	r := u.client.Reentrant(key)
	held := u.acquire("reentrant", r, key, wait)
	if held == nil {
		return
	}
	t := u.begin(held)
	if t == nil {
		return
	}
	ctx, cancel := held.Context(context.Background())
	defer cancel()
	u.hold(t, u.dice.UpTo(u.plan.ttl))
	inner := u.enter(ctx, r, t)
	if inner == nil {
		u.unlock(held, t)
		return
	}
	first, last := held, inner
	if u.dice.Chance(500) {
		first, last = last, first
	}
	t.held.Store(last)
	u.leave(first, t)
	u.world.traveling.Go(func() { u.world.watch(t) })
	u.hold(t, u.howLong())
	u.leavesLast(last, t)
}

// enter locks a lock that is held: that does no IO, and never acquires it anew.
func (u *user) enter(ctx context.Context, r *lock.Reentrant, t *tenure) *lock.Held {
	u.pass()
	w := u.world
	lost := t.handle().Err()
	begun := time.Now()
	inner, err := r.Lock(ctx)
	took := time.Since(begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Operations["enter again"]++
	w.check("entered")
	_, still := u.gate.StoodStill(begun)
	switch {
	case took > 0 && !still:
		w.violated("entered", "S7: it took p%d %v to enter %s again", u.process.id, took, t.key)
	case err == nil && lost != nil:
		w.violated("entered", "S7: p%d entered %s again, which it lost: %v", u.process.id, t.key, lost)
	case err != nil && lost == nil && t.handle().Err() == nil:
		w.violated("entered", "S7: p%d cannot enter %s, which it holds: %v", u.process.id, t.key, err)
	case err == nil && inner.Token() != t.token:
		w.violated("entered", "S7: p%d entered %s again, its token is %d, not %d", u.process.id, t.key, inner.Token(), t.token)
	}
	return inner
}

// leave unlocks a handle that is not the last: the lock stays held.
func (u *user) leave(held *lock.Held, t *tenure) {
	u.pass()
	w := u.world
	begun := time.Now()
	valid := t.handle().Valid()
	err := held.Unlock(context.Background())
	took := time.Since(begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("left inside")
	_, still := u.gate.StoodStill(begun)
	switch {
	case held.Valid():
		w.violated("left inside", "S6: p%d unlocked a handle of %s, and it is valid", u.process.id, t.key)
	case valid && took == 0 && err != nil:
		w.violated("left inside", "S7: p%d could not unlock the inner handle of %s: %v", u.process.id, t.key, err)
	case took > 0 && !still:
		w.violated("left inside", "S7: it took p%d %v to unlock the inner handle of %s", u.process.id, took, t.key)
	}
}

// leavesLast unlocks the last handle: with it the lock is given back.
func (u *user) leavesLast(held *lock.Held, t *tenure) {
	u.pass()
	w, begun, before := u.world, time.Now(), held.Err()
	w.mu.Lock()
	t.unlocked = begun
	w.mu.Unlock()
	err := held.Unlock(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("p%d.%d unlock %s for the last time: %v", u.process.id, u.id, t.key, err)
	w.counts.Operations["unlock"]++
	t.gone = true
	u.unlocked(t, true, begun, before, err)
}

// takesTwo takes two locks or none.
func (u *user) takesTwo(key string, wait bool) {
	w := u.world
	other := keyName(u.dice.IntN(w.plan.keys))
	if other == key {
		return
	}
	held := u.acquire("multi", lock.Multi(u.client.Mutex(key), u.client.Mutex(other)), key, wait)
	if held == nil {
		return
	}
	var tenures []*tenure
	for _, member := range held.Members() {
		t := u.begin(member)
		if t == nil {
			return
		}
		tenures = append(tenures, t)
	}
	w.mu.Lock()
	w.check("several")
	if len(tenures) != 2 {
		w.violated("several", "S8: p%d holds %d locks of two", u.process.id, len(tenures))
	}
	w.mu.Unlock()
	u.holdAll(held, tenures)
	u.unlock(held, tenures...)
}

// holdAll holds several for a while: the loss of one is the loss of all.
func (u *user) holdAll(held *lock.Held, tenures []*tenure) {
	ctx, cancel := held.Context(context.Background())
	defer cancel()
	w := u.world
	told := !sleepUntil(time.Now().Add(u.dice.UpTo(2*u.plan.ttl)), held.Done())
	u.pass()
	all := true
	for _, t := range tenures {
		all = all && t.handle().Valid()
	}
	valid := held.Valid()
	if told {
		<-ctx.Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("several")
	switch {
	case valid && !all:
		w.violated("several", "S8: the handle of p%d is valid, but one of its locks is lost", u.process.id)
	case all && !valid:
		w.violated("several", "S8: the handle of p%d is not valid, but all of its locks are held", u.process.id)
	case told && !errors.Is(context.Cause(ctx), held.Err()):
		w.violated("several", "p%d: the context says %v, Err %v", u.process.id, context.Cause(ctx), held.Err())
	}
}
