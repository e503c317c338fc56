package sim

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// user is a goroutine of a process that takes locks and gives them back.
type user struct {
	*process
	id    int
	dice  chance.Dice
	aside chance.Dice // of what changes nothing for others

	refused bool // by a client that is closed; the world's mu guards it
}

var errEnough = errors.New("sim: waited long enough")

func (u *user) run() {
	time.Sleep(u.dice.UpTo(u.world.plan.ttl / 2)) // no two at one instant
	for !u.world.over() && !u.gone() {
		u.gate.Pass(uint64(u.id) + 1)
		u.turn()
		time.Sleep(u.dice.UpTo(u.world.plan.ttl / 2))
	}
}

// gone tells whether the client of the user is closed, and the user has seen it.
func (u *user) gone() bool {
	u.world.mu.Lock()
	defer u.world.mu.Unlock()
	return u.closed && u.refused
}

// turn takes a lock, holds it for a while and gives it back.
func (u *user) turn() {
	key := keyName(u.dice.IntN(u.world.plan.keys))
	wait := u.dice.Chance(700)
	patience := u.dice.UpTo(3 * u.plan.ttl)
	abandons := u.dice.Chance(20)
	hold := u.howLong()
	held, err := u.lock(key, wait, patience)
	if err != nil {
		return
	}
	w := u.world
	t := w.begins(u.process, held, wait && w.plan.queue)
	if t == nil {
		return
	}
	w.look(t)
	w.traveling.Go(func() { w.watch(t) })
	inner := u.enter(t)
	u.hold(t, hold)
	u.leave(t, inner)
	if abandons && u.plan.maxHold > 0 {
		return // MaxHold ends it
	}
	u.unlock(t)
}

func (u *user) howLong() time.Duration {
	switch ttl := u.plan.ttl; u.dice.IntN(5) {
	case 0:
		return u.dice.UpTo(ttl / 10)
	case 1, 2:
		return u.dice.UpTo(ttl)
	case 3:
		return u.dice.UpTo(4 * ttl)
	default:
		return -time.Duration(u.dice.IntN(3)) // from its deadline
	}
}

// lock calls Lock or TryLock, and checks what comes of it.
func (u *user) lock(key string, wait bool, patience time.Duration) (*lock.Held, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errEnough)
	defer cancel()
	m, begun, w := u.client.Mutex(key), time.Now(), u.world
	w.mu.Lock()
	u.locking++
	w.mu.Unlock()
	var held *lock.Held
	var err error
	if wait {
		held, err = m.Lock(ctx)
	} else {
		held, err = m.TryLock(ctx)
	}
	late := time.Since(begun.Add(patience))
	w.mu.Lock()
	defer w.mu.Unlock()
	u.locking--
	_, still := u.gate.StoodStill(begun)
	w.note("p%d.%d lock %s (wait %v): %v", u.process.id, u.id, key, wait, err != nil)
	w.counts.Operations[map[bool]string{true: "lock", false: "try lock"}[wait]]++
	w.check("answer")
	var taken *lock.HeldError
	ended := ctx.Err() != nil
	switch {
	case late > 0 && !still:
		w.violated("answer", "L4: p%d waits for %s %v after its context ended", u.process.id, key, late)
	case err == nil && held.Key() != key:
		w.violated("answer", "asked for %s, got %s", key, held.Key())
	case err == nil, errors.As(err, &taken) && !wait:
	case u.closed && errors.Is(err, lock.ErrClosed):
		u.refused = true
	case ended && (!errors.Is(err, lock.ErrNotAcquired) || !errors.Is(err, errEnough)):
		w.violated("answer", "L4: the context of p%d ended, the error is %v", u.process.id, err)
	case !ended && w.plan.lossless() && (!u.plan.fixed || !w.plan.queue):
		w.violated("answer", "L1: nothing failed twice, but p%d could not lock %s: %v", u.process.id, key, err)
	}
	return held, err
}

// hold waits until the time has come to give the lock back, or it is lost.
func (u *user) hold(t *tenure, d time.Duration) {
	if d <= 0 { // that much before its deadline
		d = time.Until(t.held.Deadline()) + d
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	ctx, cancel := t.held.Context(context.Background())
	defer cancel()
	select {
	case <-timer.C:
	case <-t.done:
		u.toldWhy(ctx, t)
	}
}

// toldWhy checks that all that tells of an end tells the same.
func (u *user) toldWhy(ctx context.Context, t *tenure) {
	u.gate.Pass(uint64(u.id) + 1)
	<-ctx.Done()
	err, w := t.held.Err(), u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var lost *renewal.LostError
	isLost := errors.As(err, &lost)
	switch {
	case t.held.Valid() || err == nil || !t.held.Deadline().IsZero():
		w.violated("told", "S5: p%d is told of the end of %s, but Err is %v", u.process.id, t.key, err)
	case !errors.Is(context.Cause(ctx), err):
		w.violated("told", "p%d: the context says %v, Err %v", u.process.id, context.Cause(ctx), err)
	case !isLost && (!u.closed || !errors.Is(err, lock.ErrClosed)):
		w.violated("told", "p%d: %s ended by %v", u.process.id, t.key, err)
	}
}

// unlock gives a lock back, and checks what comes of it.
func (u *user) unlock(t *tenure) {
	u.gate.Pass(uint64(u.id) + 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if u.dice.Chance(200) {
		cancel()
	}
	again := u.dice.Chance(200)
	w, begun := u.world, time.Now()
	before := t.held.Err()
	w.mu.Lock()
	t.unlocked = begun
	w.mu.Unlock()
	err := t.held.Unlock(ctx)
	w.mu.Lock()
	w.note("p%d.%d unlock %s: %v", u.process.id, u.id, t.key, err != nil)
	w.counts.Operations["unlock"]++
	w.check("unlock")
	t.gone = true
	u.unlocked(t, begun, before, err)
	w.mu.Unlock()
	if again {
		if err := t.held.Unlock(ctx); !errors.Is(err, lock.ErrNotHeld) {
			w.fail("unlock", "a second Unlock answers %v", err)
		}
	}
}

// unlocked checks the outcome of Unlock. The caller holds the world's mu.
func (u *user) unlocked(t *tenure, begun time.Time, before, err error) {
	w, id := u.world, u.process.id
	_, still := u.gate.StoodStill(begun)
	took, most := time.Since(begun), min(3*time.Second, u.plan.ttl)
	if took > most && !still {
		w.violated("unlock", "L5: it took p%d %v to unlock %s", id, took, t.key)
	}
	if t.held.Valid() || !closed(t.done) {
		w.violated("unlock", "S6: p%d unlocked %s, and its handle is valid", id, t.key)
	}
	held, ok := w.server.alive(t.key)
	unconfirmed := err != nil && before == nil && !errors.Is(err, renewal.ErrLost) && !u.closed
	switch {
	case unconfirmed && u.client.Stats().Cleaning == 0:
		w.violated("unlock", "L5: the release of %s was not confirmed, and does not go on: %v", t.key, err)
	case err == nil && before != nil:
		w.violated("unlock", "S6: p%d is not told that %s was lost before: %v", id, t.key, before)
	case err == nil && ok && held.owner == t.owner && held.token == t.token && !w.plan.forgets():
		w.violated("unlock", "S6: p%d unlocked %s, and the server still has it", id, t.key)
	case before != nil && !u.closed && !errors.Is(err, renewal.ErrLost):
		w.violated("unlock", "S6: %s was lost (%v), Unlock answers %v", t.key, before, err)
	case err != nil && before == nil && !u.closed && w.plan.lossless() && took < most:
		w.violated("unlock", "L1: nothing failed twice, but p%d could not unlock %s: %v", id, t.key, err)
	}
}
