package whole

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// user is a goroutine of a process that takes locks and gives them back.
type user struct {
	*process
	id   int
	dice chance.Dice

	refused bool // by a client that is closed
}

func (u *user) run() {
	time.Sleep(u.dice.UpTo(u.world.plan.ttl / 2)) // no two at one instant
	for !u.world.over() && !u.refused {
		u.pass()
		u.turn()
		time.Sleep(u.dice.UpTo(u.world.plan.ttl / 2))
	}
}

// pass waits until the process runs.
func (u *user) pass() { u.gate.Pass(uint64(u.id) + 1) }

// turn takes a lock, holds it for a while and gives it back.
func (u *user) turn() {
	key := chance.Pick(u.dice, u.world.plan.names()...)
	wait := u.dice.Chance(700)
	isExclusive := !slices.Contains(u.world.plan.shared, key)
	switch n := u.dice.IntN(10); {
	case u.world.plan.more && u.more(key, isExclusive, wait):
	case isExclusive && n < 2:
		u.reenters(key, wait)
	case isExclusive && n < 4 && u.world.plan.keys > 1:
		u.takesTwo(key, wait)
	case key == rwName && n < 3:
		u.downgrades(wait)
	default:
		u.takes(key, wait)
	}
}

func (u *user) howLong() time.Duration {
	switch ttl := u.plan.ttl; u.dice.IntN(5) {
	case 0:
		return u.dice.UpTo(ttl / 10)
	case 1, 2:
		return u.dice.UpTo(ttl)
	case 3:
		return u.dice.UpTo(3 * ttl)
	default:
		return -time.Duration(u.dice.IntN(3)) // from its deadline
	}
}

func (u *user) takes(key string, wait bool) {
	name, l := "lock", lock.Locker(u.client.Mutex(key))
	if slices.Contains(u.world.plan.shared, key) {
		name, l = u.share(key)
	}
	held := u.acquire(name, l, key, wait)
	if held == nil {
		return
	}
	if t := u.begin(held); t != nil {
		u.hold(t, u.howLong())
		u.unlock(held, t)
	}
}

// begin has a handle watched from now on.
func (u *user) begin(held *lock.Held) *tenure {
	w := u.world
	t := w.begins(u, held)
	if t != nil {
		w.look(t)
		w.traveling.Go(func() { w.watch(t) })
	}
	return t
}

// acquire calls Lock or TryLock, and checks what comes of it.
func (u *user) acquire(name string, l lock.Locker, key string, wait bool) *lock.Held {
	w, patience := u.world, u.dice.UpTo(3*u.plan.ttl)
	ctx, cancel := context.WithTimeoutCause(by(context.Background(), u), patience, errEnough)
	defer cancel()
	begun, call := time.Now(), &waiter{key, u.process, time.Now()}
	w.mu.Lock()
	u.locking++
	if wait && name == "lock" {
		w.waiters[call] = struct{}{}
	}
	w.mu.Unlock()
	var held *lock.Held
	var err error
	if wait {
		held, err = l.Lock(ctx)
	} else {
		name = "try " + name
		held, err = l.TryLock(ctx)
	}
	late := time.Since(begun) - patience
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, call)
	u.locking--
	_, still := u.gate.StoodStill(begun)
	w.note("p%d.%d %s %s: %v", u.process.id, u.id, name, key, err)
	w.counts.Operations[name]++
	w.check("answer")
	var taken *lock.HeldError
	ended := ctx.Err() != nil
	if err != nil && strings.HasSuffix(name, "multi") {
		u.returnedAt = time.Now()
	}
	switch {
	case late > 0 && !still:
		w.violated("answer", "L4: p%d waits for %s %v after its context ended", u.process.id, key, late)
	case err == nil:
		w.counts.Operations["got"]++
	case errors.As(err, &taken) && !wait:
	case u.closed && errors.Is(err, lock.ErrClosed):
		u.refused = true
	case ended && name != "multi" && name != "try multi" && (!errors.Is(err, lock.ErrNotAcquired) || !errors.Is(err, errEnough)):
		w.violated("answer", "L4: the context of p%d ended, the error is %v", u.process.id, err)
	case !ended && w.plan.lossless():
		w.violated("answer", "L1: nothing failed twice, but p%d could not %s %s: %v", u.process.id, name, key, err)
	}
	return held
}

// hold waits until the time has come to give the lock back, or it is lost.
func (u *user) hold(t *tenure, d time.Duration) {
	if d <= 0 { // that much before its deadline
		d = time.Until(t.handle().Deadline()) + d
	}
	ctx, cancel := t.handle().Context(context.Background())
	defer cancel()
	if !sleepUntil(time.Now().Add(d), t.done) {
		u.toldWhy(ctx, t.handle())
	}
}

// toldWhy checks that all that tells of an end tells the same.
func (u *user) toldWhy(ctx context.Context, held *lock.Held) {
	u.pass()
	<-ctx.Done()
	err, w := held.Err(), u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var lost *renewal.LostError
	switch {
	case held.Valid() || err == nil || !held.Deadline().IsZero():
		w.violated("told", "S5: p%d is told of the end of %s, but Err is %v", u.process.id, held.Key(), err)
	case !errors.Is(context.Cause(ctx), err):
		w.violated("told", "p%d: the context says %v, Err %v", u.process.id, context.Cause(ctx), err)
	case !errors.As(err, &lost) && (!u.closed || !errors.Is(err, lock.ErrClosed)):
		w.violated("told", "p%d: %s ended by %v", u.process.id, held.Key(), err)
	}
}

// unlock gives back what a handle stands for, one lock or several, and checks what
// comes of it.
func (u *user) unlock(held *lock.Held, tenures ...*tenure) {
	u.pass()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if u.dice.Chance(200) {
		cancel()
	}
	again := u.dice.Chance(200)
	w, begun, before := u.world, time.Now(), held.Err()
	w.mu.Lock()
	for _, t := range tenures {
		t.unlocked = begun
	}
	w.mu.Unlock()
	err := held.Unlock(ctx)
	w.mu.Lock()
	w.note("p%d.%d unlock %s: %v", u.process.id, u.id, held.Key(), err)
	w.counts.Operations["unlock"]++
	for _, t := range tenures {
		t.gone = true
		u.unlocked(t, len(tenures) == 1, begun, before, err)
	}
	w.mu.Unlock()
	if again {
		if err := held.Unlock(ctx); !errors.Is(err, lock.ErrNotHeld) {
			w.fail("unlock", "a second Unlock answers %v", err)
		}
	}
}

// unlocked checks the outcome of Unlock, of a single lock or of several. The caller holds the world's mu.
func (u *user) unlocked(t *tenure, single bool, begun time.Time, before, err error) {
	w, id := u.world, u.process.id
	w.check("unlock")
	_, still := u.gate.StoodStill(begun)
	took, most := time.Since(begun), min(3*time.Second, u.plan.ttl)
	if took > most && !still {
		w.violated("unlock", "L5: it took p%d %v to unlock %s", id, took, t.key)
	}
	if t.handle().Valid() || !closed(t.done) {
		w.violated("unlock", "S6: p%d unlocked %s, and its handle is valid", id, t.key)
	}
	unconfirmed := err != nil && before == nil && !errors.Is(err, renewal.ErrLost) && !errors.Is(err, lock.ErrWrongType) && !u.closed
	switch {
	case unconfirmed && single && u.client.Stats().Cleaning == 0:
		w.violated("unlock", "L5: the release of %s was not confirmed, and does not go on: %v", t.key, err)
	case err == nil && before != nil:
		w.violated("unlock", "S6: p%d is not told that %s was lost before: %v", id, t.key, before)
	case err == nil && u.plan.handovers > 0:
		w.after(1, func() { w.goneOrPassed(t) })
	case err == nil && w.has(t) && !w.plan.forgets() && !w.mayBeOlder(t):
		w.violated("unlock", "S6: p%d unlocked %s, and the server still has it", id, t.key)
	case before != nil && !u.closed && !errors.Is(err, renewal.ErrLost):
		w.violated("unlock", "S6: %s was lost (%v), Unlock answers %v", t.key, before, err)
	case unconfirmed && w.plan.lossless() && took < most:
		w.violated("unlock", "L1: nothing failed twice, but p%d could not unlock %s: %v", id, t.key, err)
	}
}
