// Users that acquire, hold and release locks.

package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// User is a goroutine of a process that takes locks and releases them.
type User struct {
	*Process
	ID    int
	Rand  simrand.Rand
	Aside simrand.Rand // for draws that must not change the draws of Rand
	Wide  simrand.Rand // for wide schedules, so that other schedules stay the same

	refused bool // a closed client has refused a call
}

func newUser(p *Process, id int) *User {
	seed, process, user := p.World.Plan.Seed, uint64(p.ID), uint64(id)
	return &User{
		Process: p, ID: id,
		Rand:  simrand.New(seed, 5, process, user),
		Aside: simrand.New(seed, 10, process, user),
		Wide:  simrand.New(seed, WideStream+1, process, user),
	}
}

func (u *User) run() {
	time.Sleep(u.Rand.UpTo(u.World.Plan.TTL / 2)) // so that users do not start at the same instant
	for !u.World.over() && !u.refused {
		u.Await()
		u.World.Backend.Turn(u)
		time.Sleep(u.Rand.UpTo(u.World.Plan.TTL / 2))
	}
}

// Await returns when the process is not paused.
func (u *User) Await() { u.Pauser.Await(uint64(u.ID) + 1) }

// Patience returns how long a user waits for a lock.
func (u *User) Patience() time.Duration { return u.Rand.UpTo(3 * u.Plan.TTL) }

// HoldTime returns how long to hold a lock, up to a number of TTLs. A negative time is a time
// before the deadline.
func (u *User) HoldTime(most int) time.Duration {
	switch ttl := u.Plan.TTL; u.Rand.IntN(5) {
	case 0:
		return u.Rand.UpTo(ttl / 10)
	case 1, 2:
		return u.Rand.UpTo(ttl)
	case 3:
		return u.Rand.UpTo(time.Duration(most) * ttl)
	default:
		return -time.Duration(u.Rand.IntN(3))
	}
}

// Take takes a lock that may be shared, holds it and unlocks it.
func (u *User) Take(key string, wait bool) {
	name, l := "lock", lock.Locker(u.Client.Mutex(key))
	if slices.Contains(u.World.Plan.Shared, key) {
		name, l = u.share(key)
	}
	if g := u.Acquire(name, l, key, wait, u.Patience()); g != nil {
		u.Hold(g, u.HoldTime(3))
		u.Unlock(g.Handle(), g)
	}
}

// LockAll acquires the whole lock with a name, and starts the checks of its handle. The caller
// checks the error.
func (u *User) LockAll(ctx context.Context, key string) (*Grant, error) {
	held, err := u.locker(key).Lock(by(ctx, u))
	if err != nil {
		return nil, err
	}
	return u.begin(held, true), nil
}

// UnlockAll unlocks a handle of LockAll. The caller checks the error.
func (u *User) UnlockAll(g *Grant) error {
	u.World.Mu.Lock()
	g.unlocked = time.Now()
	u.World.Mu.Unlock()
	err := g.Handle().Unlock(context.Background())
	u.World.Mu.Lock()
	defer u.World.Mu.Unlock()
	g.gone = true
	return err
}

// begin records that the user has a handle, and starts its checks.
func (u *User) begin(held *lock.Held, waited bool) *Grant {
	w := u.World
	g := w.begin(u, held, waited && w.Plan.Queue)
	if g != nil {
		w.look(g)
		w.Pending.Go(func() { w.watch(g) })
	}
	return g
}

// Call is a running call of Lock for one exclusive lock.
type Call struct {
	Key    string
	Since  time.Time
	Queued time.Time // when it began to wait in the store; zero: it does not wait there
}

// Acquire calls Lock or TryLock, checks the outcome, and starts the checks of the handle. It
// returns nil if the user did not get the lock.
func (u *User) Acquire(name string, l lock.Locker, key string, wait bool, patience time.Duration) *Grant {
	held := u.acquire(name, l, key, wait, patience)
	if held == nil {
		return nil
	}
	return u.begin(held, wait)
}

func (u *User) acquire(name string, l lock.Locker, key string, wait bool, patience time.Duration) *lock.Held {
	w := u.World
	ctx, cancel, cause := u.limited(&patience)
	defer cancel()
	begun, call := time.Now(), &Call{Key: key, Since: time.Now()}
	several := name == "multi" // acquires its locks one after another
	if !several {
		ctx = context.WithValue(ctx, byCall{}, call)
	}
	w.Mu.Lock()
	u.locking++
	if wait && name == "lock" {
		w.Calls[call] = struct{}{}
	}
	w.Mu.Unlock()
	var held *lock.Held
	var err error
	if wait {
		held, err = l.Lock(ctx)
	} else {
		name = "try " + name
		held, err = l.TryLock(ctx)
	}
	late := time.Since(begun) - patience
	w.Mu.Lock()
	defer w.Mu.Unlock()
	delete(w.Calls, call)
	u.locking--
	_, paused := u.Pauser.PausedSince(begun)
	w.Note("p%d.%d %s %s: %v", u.Process.ID, u.ID, name, key, err != nil)
	w.Counts.Operations[name]++
	w.Check("answer")
	var taken *lock.HeldError
	ended := ctx.Err() != nil
	if err != nil && several {
		u.returnedAt = time.Now()
	}
	switch {
	case late > prompt && !paused:
		w.Violated("answer", "L4: p%d waits for %s %v after its context ended", u.Process.ID, key, late)
	case err == nil && !several && held.Key() != key:
		w.Violated("answer", "p%d asked for %s and got %s", u.Process.ID, key, held.Key())
	case err == nil:
		w.Counts.Operations["got"]++
	case errors.As(err, &taken) && !wait:
	case u.Closed && errors.Is(err, lock.ErrClosed):
		u.refused = true
	case errors.Is(err, lock.ErrNotAcquired) && errors.Is(err, lock.ErrUnavailable):
		w.Violated("answer", "p%d is told both of contention and of an outage: %v", u.Process.ID, err)
	case ended && !several && !isEnd(err, cause):
		w.Violated("answer", "L4: the context of p%d ended, but the error is %v", u.Process.ID, err)
	case !ended && w.Plan.Slow && errors.Is(err, renewal.ErrLost): // a handed-over lock of a Multi was lost
	case !ended && w.Backend.Excused(call, err):
	case !ended && w.Plan.Lossless && (!u.Plan.Fixed || !w.Plan.Queue):
		w.Violated("answer", "L1: nothing failed twice, but p%d could not %s %s: %v", u.Process.ID, name, key, err)
	}
	return held
}

// isEnd reports whether err is that of an acquisition whose context ended with cause. An
// unavailable store does not match a cause that means that a lock is taken.
func isEnd(err, cause error) bool {
	if errors.Is(err, lock.ErrUnavailable) {
		return errors.Is(err, cause) || errors.Is(cause, lock.ErrNotAcquired)
	}
	return errors.Is(err, lock.ErrNotAcquired) && errors.Is(err, cause)
}

// Hold waits until it is time to unlock, or the lock is lost.
func (u *User) Hold(g *Grant, d time.Duration) {
	if d <= 0 { // the time before the deadline
		d = time.Until(g.Handle().Deadline()) + d
	}
	ctx, cancel := g.Handle().Context(context.Background())
	defer cancel()
	if !sleepUntil(time.Now().Add(d), g.done) {
		u.checkEnd(ctx, g.Handle())
	}
}

// checkEnd checks that the methods of a handle agree about its end.
func (u *User) checkEnd(ctx context.Context, held *lock.Held) {
	u.Await()
	<-ctx.Done()
	err, w := held.Err(), u.World
	w.Mu.Lock()
	defer w.Mu.Unlock()
	var lost *renewal.LostError
	switch {
	case held.Valid() || err == nil || !held.Deadline().IsZero():
		w.Violated("told", "S5: the handle of p%d reports the end of %s, but Err returned %v", u.Process.ID, held.Key(), err)
	case !errors.Is(context.Cause(ctx), err):
		w.Violated("told", "p%d: the context says %v, Err %v", u.Process.ID, context.Cause(ctx), err)
	case !errors.As(err, &lost) && !errors.Is(err, u.endsAll()):
		w.Violated("told", "p%d: %s ended by %v", u.Process.ID, held.Key(), err)
	}
}

// Unlock unlocks a handle of one lock or of several, and checks the outcome.
func (u *User) Unlock(held *lock.Held, grants ...*Grant) {
	u.Await()
	ctx, cancel := u.unlockContext()
	defer cancel()
	again := u.Rand.Chance(200)
	u.unlock(ctx, held, grants...)
	if again {
		if err := held.Unlock(ctx); !errors.Is(err, lock.ErrNotHeld) {
			u.World.Fail("unlock", "a second Unlock returned %v", err)
		}
	}
}

func (u *User) unlock(ctx context.Context, held *lock.Held, grants ...*Grant) {
	w, begun, before := u.World, time.Now(), held.Err()
	w.ending(grants...)
	w.Mu.Lock()
	for _, g := range grants {
		g.unlocked = begun
	}
	w.Mu.Unlock()
	err := held.Unlock(ctx)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Note("p%d.%d unlock %s: %v", u.Process.ID, u.ID, held.Key(), err != nil)
	w.Counts.Operations["unlock"]++
	for _, g := range grants {
		g.gone = true
		u.checkUnlock(g, len(grants) == 1, begun, before, err)
	}
}

// checkUnlock checks the outcome of Unlock for one lock of a handle. The caller holds
// World.Mu.
func (u *User) checkUnlock(g *Grant, single bool, begun time.Time, before, err error) {
	w, id := u.World, u.Process.ID
	w.Check("unlock")
	_, paused := u.Pauser.PausedSince(begun)
	took, most := time.Since(begun), min(3*time.Second, u.Plan.TTL)
	if took > most && !paused {
		w.Violated("unlock", "L5: Unlock of %s took p%d %v", g.Key, id, took)
	}
	if g.Handle().Valid() || !g.Ended() {
		w.Violated("unlock", "S6: p%d unlocked %s, but its handle is still valid", id, g.Key)
	}
	unconfirmed := err != nil && before == nil && !errors.Is(err, renewal.ErrLost) && !errors.Is(err, lock.ErrWrongType) && !u.Closed
	switch {
	case unconfirmed && single && u.Client.Stats().Releasing == 0:
		w.Violated("unlock", "L5: the release of %s was not confirmed and does not continue: %v", g.Key, err)
	case err == nil && before != nil:
		w.Violated("unlock", "S6: Unlock of p%d does not report the earlier loss of %s: %v", id, g.Key, before)
	case err == nil && w.has(g) && !w.Plan.Forgets && !w.Backend.MayBeStale(g):
		w.Violated("unlock", "S6: p%d unlocked %s, but the server still has the lease", id, g.Key)
	case before != nil && !u.Closed && !errors.Is(err, renewal.ErrLost) && !errors.Is(err, u.endsAll()):
		w.Violated("unlock", "S6: %s was lost (%v), but Unlock returned %v", g.Key, before, err)
	case err != nil && before == nil && !u.Closed && w.Plan.Lossless && took < most:
		w.Violated("unlock", "L1: nothing failed twice, but p%d could not unlock %s: %v", id, g.Key, err)
	}
}
