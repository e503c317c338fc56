package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// user takes locks of one client, again and again, and increments counters while it
// holds them.
type user struct {
	number    int
	client    *lock.Client
	keys      []string
	registers map[string]*register
	history   *history
	tally     *tally
	ttl       time.Duration
	dice      chance.Dice
	durable   bool // the server loses no data
}

// tally is what all users did. Its methods are safe for concurrent use.
type tally struct {
	mu     sync.Mutex // guards all below
	counts map[string]int
	wrong  []string
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// counted returns a copy of the counts.
func (t *tally) counted() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

func (t *tally) complain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

// run goes on until ctx ends.
func (u *user) run(ctx context.Context) {
	for ctx.Err() == nil {
		u.turn(ctx)
		rest(ctx, u.dice.UpTo(u.ttl/20))
	}
}

// turn takes one lock, uses it and gives it back.
func (u *user) turn(ctx context.Context) {
	key := chance.Pick(u.dice, u.keys...)
	ask, bound := (*lock.Mutex).Lock, u.dice.UpTo(3*u.ttl)
	if u.dice.Chance(500) {
		ask, bound = (*lock.Mutex).TryLock, 2*u.ttl
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	t := tenure{user: u.number, asked: u.history.now()}
	held, err := ask(u.client.Mutex(key), ctx)
	t.replied = u.history.now()
	t.outcome = outcomeOf(err)
	u.tally.count(string(t.outcome))
	if held != nil {
		t.token, t.valid = held.Token(), t.asked
		u.use(held, u.registers[key], &t)
		u.giveBack(held, &t)
	}
	u.history.add(key, t)
}

func outcomeOf(err error) outcome {
	var held *lock.HeldError
	switch {
	case err == nil:
		return granted
	case errors.As(err, &held):
		return taken
	default:
		return unknown
	}
}

// use holds the lock for a while, mostly short ones, and looks all the time at
// whether it does.
func (u *user) use(held *lock.Held, r *register, t *tenure) {
	length := u.dice.UpTo(u.ttl / 10)
	if u.dice.Chance(200) {
		length = u.dice.UpTo(3 * u.ttl)
	}
	for end := time.Now().Add(length); time.Now().Before(end) && u.look(held, t); {
		wrote := r.increment(t.token, func() { time.Sleep(u.dice.UpTo(2 * time.Millisecond)) })
		switch {
		case wrote:
			u.tally.count("write")
		case u.look(held, t) && u.durable:
			u.tally.complain("%v: its token %d was refused while it was held", held, t.token)
			return
		default:
			u.tally.count("write refused")
		}
		time.Sleep(u.dice.UpTo(2 * time.Millisecond))
	}
	if held.Valid() {
		return
	}
	// A zombie that does not look, now or later: the register alone stands between.
	if u.dice.Chance(500) {
		time.Sleep(u.dice.UpTo(2 * u.ttl))
	}
	if r.increment(t.token, func() {}) {
		u.tally.count("late write, nobody came between")
	} else {
		u.tally.count("late write refused")
	}
}

// look asks whether the lock is held and notes the instant before it asked. Err must
// say why if not, and nothing may revive it.
func (u *user) look(held *lock.Held, t *tenure) bool {
	now := u.history.now()
	if held.Valid() {
		t.valid = now
		return true
	}
	if held.Err() == nil || held.Valid() {
		u.tally.complain("%v: valid again", held)
	}
	return false
}

// giveBack unlocks, and notes what came of it.
func (u *user) giveBack(held *lock.Held, t *tenure) {
	t.leaving = u.history.now()
	err := held.Unlock(context.Background())
	t.left = u.history.now()
	switch {
	case err == nil:
		t.ending = unlocked
	case errors.Is(err, lock.ErrLost):
		t.ending = lost
	default:
		t.ending = uncertain
	}
	if held.Valid() {
		u.tally.complain("%v: valid after Unlock", held)
	}
	u.tally.count(string(t.ending))
}
