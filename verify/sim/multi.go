// Users that take two locks or none.

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
)

// TakeTwo takes two locks or none.
func (u *User) TakeTwo(key string, wait bool) {
	w := u.World
	other := simrand.Pick(u.Rand, w.Plan.Keys...)
	if other == key {
		return
	}
	held := u.acquire("multi", lock.Multi(u.Client.Mutex(key), u.Client.Mutex(other)), key, wait, u.Patience())
	if held == nil {
		return
	}
	whole := time.Now()
	var grants []*Grant
	for _, member := range held.Handles() {
		g := u.begin(member, wait)
		if g == nil {
			return
		}
		grants = append(grants, g)
	}
	w.Mu.Lock()
	w.Check("several")
	for _, g := range grants {
		g.whole = whole
	}
	if len(grants) != 2 {
		w.Violated("several", "S8: p%d holds %d locks of two", u.Process.ID, len(grants))
	}
	w.Mu.Unlock()
	u.holdAll(held, grants)
	u.Unlock(held, grants...)
}

// holdAll holds several locks for a while. The loss of one counts as the loss of all.
func (u *User) holdAll(held *lock.Held, grants []*Grant) {
	ctx, cancel := held.Context(context.Background())
	defer cancel()
	w := u.World
	told := !sleepUntil(time.Now().Add(u.Rand.UpTo(2*u.Plan.TTL)), held.Done())
	u.Await()
	all := true
	for _, g := range grants {
		all = all && g.Handle().Valid()
	}
	valid := held.Valid()
	if told {
		<-ctx.Done()
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("several")
	switch {
	case valid && !all:
		w.Violated("several", "S8: the handle of p%d is valid, but one of its locks is lost", u.Process.ID)
	case all && !valid:
		w.Violated("several", "S8: the handle of p%d is not valid, but all of its locks are held", u.Process.ID)
	case told && !errors.Is(context.Cause(ctx), held.Err()):
		w.Violated("several", "p%d: the context says %v, Err %v", u.Process.ID, context.Cause(ctx), held.Err())
	}
}
