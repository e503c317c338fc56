// Users that increment registers under locks, and record their tenures.

package real

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// user acquires locks of one client repeatedly and increments counters while it holds
// them.
type user struct {
	number    int
	client    *lock.Client
	keys      []string
	registers map[string]*register
	history   *histories.History
	tally     *tally
	ttl       time.Duration
	dice      simrand.Rand
	durable   bool // the server loses no data
}

// tally counts the operations of all users. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex // guards the fields below
	counts map[string]int
	wrong  []string
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// snapshot returns a copy of the counts.
func (t *tally) snapshot() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

func (t *tally) violation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

// run uses locks until ctx ends.
func (u *user) run(ctx context.Context) {
	for ctx.Err() == nil {
		u.useOne(ctx)
		sleep(ctx, u.dice.UpTo(u.ttl/20))
	}
}

// useOne acquires a lock, uses it and releases it.
func (u *user) useOne(ctx context.Context) {
	key := simrand.Pick(u.dice, u.keys...)
	ask, bound := (*lock.Mutex).Lock, u.dice.UpTo(3*u.ttl)
	if u.dice.Chance(500) {
		ask, bound = (*lock.Mutex).TryLock, 2*u.ttl
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	t := histories.Tenure{User: u.number, Asked: u.history.Now()}
	held, err := ask(u.client.Mutex(key), ctx)
	t.Replied = u.history.Now()
	t.Outcome = histories.OutcomeOf(err)
	u.tally.count(string(t.Outcome))
	if held != nil {
		t.Token, t.Valid = held.Token(), t.Asked
		u.use(held, u.registers[key], &t)
		u.unlock(held, &t)
	}
	u.history.Add(key, t)
}

// use holds the lock for a while and checks all the time whether it is valid.
func (u *user) use(held *lock.Held, r *register, t *histories.Tenure) {
	length := u.dice.UpTo(u.ttl / 10)
	if u.dice.Chance(200) {
		length = u.dice.UpTo(3 * u.ttl)
	}
	for end := time.Now().Add(length); time.Now().Before(end) && u.checkValid(held, t); {
		wrote := r.increment(t.Token, func() { time.Sleep(u.dice.UpTo(2 * time.Millisecond)) })
		switch {
		case wrote:
			u.tally.count("write")
		case u.checkValid(held, t) && u.durable:
			u.tally.violation("%v: its token %d was refused while it was held", held, t.Token)
			return
		default:
			u.tally.count("write refused")
		}
		time.Sleep(u.dice.UpTo(2 * time.Millisecond))
	}
	if held.Valid() {
		return
	}
	// Write without checking Valid, now or later. Only the register can reject it.
	if u.dice.Chance(500) {
		time.Sleep(u.dice.UpTo(2 * u.ttl))
	}
	if r.increment(t.Token, func() {}) {
		u.tally.count("late write accepted")
	} else {
		u.tally.count("late write refused")
	}
}

// checkValid returns Valid and records the instant before the call. After false, Err must
// be set and Valid must stay false.
func (u *user) checkValid(held *lock.Held, t *histories.Tenure) bool {
	now := u.history.Now()
	if held.Valid() {
		t.Valid = now
		return true
	}
	if held.Err() == nil || held.Valid() {
		u.tally.violation("%v: valid again", held)
	}
	return false
}

// unlock unlocks and records the result.
func (u *user) unlock(held *lock.Held, t *histories.Tenure) {
	t.Leaving = u.history.Now()
	err := held.Unlock(context.Background())
	t.Left = u.history.Now()
	t.Ending = histories.EndingOf(err)
	if held.Valid() {
		u.tally.violation("%v: valid after Unlock", held)
	}
	u.tally.count(string(t.Ending))
}
