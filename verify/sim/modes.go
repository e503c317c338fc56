// Users of shared locks, and writers that become readers.

package sim

import (
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The shared locks have the names of their kinds.
const (
	RWName     = "readers and writers"
	PermitName = "permits"
	GroupName  = "group"
)

// members of the group, of which users lock parts.
var members = []string{"one", "two", "three", "four"}

// share returns a shared lock, in a random mode, and the name of the operation.
func (u *User) share(key string) (name string, l lock.Locker) {
	switch key {
	case PermitName:
		return "permit", u.locker(key)
	case GroupName:
		order := u.Rand.Perm(len(members))
		var some []string
		for _, i := range order[:1+u.Rand.IntN(3)] {
			some = append(some, members[i])
		}
		return "batch", u.Client.Batch(key, some...)
	default:
		if u.Rand.Chance(600) {
			return "read", u.Client.RWMutex(key).RLocker()
		}
		return "write", u.locker(key)
	}
}

// locker returns the lock with a name: the writer's side of an RWMutex, all members of a group.
func (u *User) locker(key string) lock.Locker {
	switch key {
	case RWName:
		return u.Client.RWMutex(key)
	case PermitName:
		return u.Client.Semaphore(key, NumPermits)
	case GroupName:
		return u.Client.Batch(key, members...)
	default:
		return u.Client.Mutex(key)
	}
}

// Downgrade locks for writing, and turns the lock into one for reading after a while.
func (u *User) Downgrade(wait bool) {
	m := u.Client.RWMutex(RWName)
	g := u.Acquire("write", m, RWName, wait, u.Patience())
	if g == nil {
		return
	}
	u.Hold(g, u.Rand.UpTo(u.Plan.TTL))
	if g = u.downgrade(m, g); g != nil {
		u.Hold(g, u.HoldTime(3))
		u.Unlock(g.Handle(), g)
	}
}

// downgrade turns a writer into a reader, and returns the grant of the reader.
func (u *User) downgrade(m *lock.RWMutex, g *Grant) *Grant {
	u.Await()
	held := g.Handle()
	w, before, begun := u.World, held.Err(), time.Now()
	patience := u.Rand.UpTo(2 * u.Plan.TTL)
	ctx, cancel, _ := u.limited(&patience)
	defer cancel()
	w.Mu.Lock()
	g.downgrading = true
	w.Mu.Unlock()
	reader, err := m.Downgrade(ctx, held)
	var done <-chan struct{}
	if err == nil {
		done = reader.Done()
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Note("p%d.%d downgrades: %v", u.Process.ID, u.ID, err != nil)
	w.Counts.Operations["downgrade"]++
	w.Check("downgrade")
	if _, paused := u.Pauser.PausedSince(begun); time.Since(begun) > patience+prompt && !paused {
		w.Violated("downgrade", "L4: the downgrade of p%d is still running %v after its context ended", u.Process.ID, time.Since(begun)-patience)
	}
	g.gone, g.unlocked = true, time.Now()
	if err == nil {
		next := g.asReader()
		next.done = done
		next.held.Store(reader)
		w.Grants[g.GrantID] = next
		if before != nil {
			w.Violated("downgrade", "S5: p%d has a reader's handle of a lock that it lost: %v", u.Process.ID, before)
		}
		w.Pending.Go(func() { w.watch(next) })
		return next
	}
	switch {
	case held.Valid():
		w.Violated("downgrade", "S6: Downgrade of p%d failed, but the writer's handle is still valid: %v", u.Process.ID, err)
	case w.Plan.Lossless && ctx.Err() == nil && before == nil && !g.short && !u.downgradesLate() && !w.Backend.Excused(&Call{}, err): // a downgrade requests a new lease
		w.Violated("downgrade", "L1: nothing failed twice, but Downgrade of p%d returned %v", u.Process.ID, err)
	case before != nil && !u.Closed && !errors.Is(err, renewal.ErrLost):
		w.Violated("downgrade", "S6: the lock was lost (%v), but Downgrade returned %v", before, err)
	}
	return nil
}

// downgradesLate reports whether a downgrade may take longer than the rest of a lease whose
// renewal is due, because it may need a new connection, which takes one more answer.
func (u *User) downgradesLate() bool { return u.Plan.RTT > u.Plan.TTL/5 }

// asReader returns the grant of a holder whose writer's handle a reader's handle has replaced.
func (g *Grant) asReader() *Grant {
	return &Grant{
		GrantID: g.GrantID, Process: g.Process, Mode: g.Mode, Attempt: g.Attempt,
		Deadline: g.Deadline, sent: g.sent, Void: g.Void, voidAt: g.voidAt,
		latest: g.latest, short: g.short, former: g, begun: time.Now(), unsure: g.unsure || g.renewing > 0, doubt: g.doubt,
		denied: g.denied, loss: g.loss, lossAt: g.lossAt,
	}
}
