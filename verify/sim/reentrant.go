// Users that take a reentrant lock again while they hold it.

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// Reenter takes a reentrant lock, takes it again, and unlocks its handles in a random order.
func (u *User) Reenter(key string, wait bool) {
	r := u.Client.Reentrant(key)
	g := u.Acquire("reentrant", r, key, wait, u.Patience())
	if g == nil {
		return
	}
	held := g.Handle()
	ctx, cancel := held.Context(context.Background())
	defer cancel()
	u.Hold(g, u.Rand.UpTo(u.Plan.TTL))
	u.Await()
	inner := u.LockAgain(ctx, r, g)
	if inner == nil {
		u.Unlock(held, g)
		return
	}
	first, last := held, inner
	if u.Rand.Chance(500) {
		first, last = last, first
	}
	g.held.Store(last)
	u.Await()
	u.UnlockInner(first, g)
	u.World.Pending.Go(func() { u.World.watch(g) })
	u.Hold(g, u.HoldTime(3))
	u.Await()
	u.unlock(context.Background(), last, g)
}

// LockAgain locks a lock that the user holds, with a context of its holder. The call does no IO
// and never acquires the lock again. LockAgain returns nil if the lock is lost.
func (u *User) LockAgain(ctx context.Context, r *lock.Reentrant, g *Grant) *lock.Held {
	w, lost, begun := u.World, g.Handle().Err(), time.Now()
	inner, err := r.Lock(ctx)
	took := time.Since(begun)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Counts.Operations["enter again"]++
	w.Check("reentry")
	_, paused := u.Pauser.PausedSince(begun)
	switch {
	case took > 0 && !paused:
		w.Violated("reentry", "S7: p%d took %v to lock %s again", u.Process.ID, took, g.Key)
	case err == nil && lost != nil:
		w.Violated("reentry", "S7: p%d locked %s again after it had lost the lock: %v", u.Process.ID, g.Key, lost)
	case err != nil && g.Handle().Err() == nil:
		w.Violated("reentry", "S7: p%d holds %s but cannot lock it again: %v", u.Process.ID, g.Key, err)
	case err == nil && inner.Token() != g.Token:
		w.Violated("reentry", "S7: p%d locked %s again and got token %d, not %d", u.Process.ID, g.Key, inner.Token(), g.Token)
	}
	return inner
}

// UnlockInner unlocks a handle that is not the last one. The lock stays held unless it was lost.
func (u *User) UnlockInner(inner *lock.Held, g *Grant) {
	valid, lost, begun := g.Handle().Valid(), g.Handle().Err(), time.Now()
	err := inner.Unlock(context.Background())
	took := time.Since(begun)
	w := u.World
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("inner unlock")
	_, paused := u.Pauser.PausedSince(begun)
	switch {
	case inner.Valid():
		w.Violated("inner unlock", "S6: p%d unlocked a handle of %s, but it is still valid", u.Process.ID, g.Key)
	case took > 0 && !paused:
		w.Violated("inner unlock", "S7: p%d took %v to unlock an inner handle of %s", u.Process.ID, took, g.Key)
	case valid && took == 0 && !u.Closed && (err != nil || !g.Handle().Valid()):
		w.Violated("inner unlock", "S7: p%d unlocked an inner handle of %s and no longer holds the lock: %v", u.Process.ID, g.Key, err)
	case lost != nil && !errors.Is(err, lost) && !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrClosed):
		w.Violated("inner unlock", "S7: the handle of p%d does not report the loss of %s: %v", u.Process.ID, g.Key, err)
	}
}
