package sim

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// enter locks a lock that is held, sometimes, as its holder: that does no IO, and never
// acquires it anew. Whether is up to dice of its own, so that a seed plays otherwise as
// it would without.
func (u *user) enter(t *tenure) (inner *lock.Held) {
	if !u.aside.Chance(300) {
		return nil
	}
	ctx, cancel := t.held.Context(context.Background())
	defer cancel()
	lost, begun := t.held.Err(), time.Now()
	inner, err := u.client.Reentrant(t.key).Lock(ctx)
	took := time.Since(begun)
	w := u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Operations["enter again"]++
	w.check("inside")
	_, still := u.gate.StoodStill(begun)
	switch {
	case took > 0 && !still:
		w.violated("inside", "S7: it took p%d %v to enter %s again", u.process.id, took, t.key)
	case err == nil && lost != nil:
		w.violated("inside", "S7: p%d entered %s again, which it had lost: %v", u.process.id, t.key, lost)
	case err != nil && t.held.Err() == nil:
		w.violated("inside", "S7: p%d cannot enter %s, which it holds: %v", u.process.id, t.key, err)
	case err == nil && inner.Token() != t.token:
		w.violated("inside", "S7: p%d entered %s again, its token is %d, not %d", u.process.id, t.key, inner.Token(), t.token)
	}
	return inner
}

// leave unlocks a handle that is not the last: the lock stays held, if it is.
func (u *user) leave(t *tenure, inner *lock.Held) {
	if inner == nil {
		return
	}
	valid, lost, begun := t.held.Valid(), t.held.Err(), time.Now()
	err := inner.Unlock(context.Background())
	took := time.Since(begun)
	w := u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("inside")
	_, still := u.gate.StoodStill(begun)
	switch {
	case inner.Valid():
		w.violated("inside", "S6: p%d unlocked a handle of %s, and it is valid", u.process.id, t.key)
	case took > 0 && !still:
		w.violated("inside", "S7: it took p%d %v to unlock an inner handle of %s", u.process.id, took, t.key)
	case valid && took == 0 && !u.closed && (err != nil || !t.held.Valid()):
		w.violated("inside", "S7: p%d left %s, and does not hold it any more: %v", u.process.id, t.key, err)
	case lost != nil && !errors.Is(err, lost) && !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrClosed):
		w.violated("inside", "S7: p%d is not told that %s was lost: %v", u.process.id, t.key, err)
	}
}
