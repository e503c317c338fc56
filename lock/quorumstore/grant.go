// Grants: the copies of a lease at the members.

package quorumstore

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// grant is one attempt to acquire a lock, and then the copies of the lease at the
// members. It is the State of the lease.
type grant struct {
	quorum *Store
	owner  string // owner of the lease
	key    string
	try    string // owner that the members know

	mu     sync.Mutex   // guards all below; while it is held, no member method but Lane is called, which does no IO
	copies []memberCopy // one per member
	ended  bool         // released or failed: late copies are released
	until  time.Time    // end of the lease, unless it is renewed

	releasedAs *driver.Attrs // of the lease that Release got: all copies are kept until its KeepUntil
}

// memberCopy is the copy of the lease at one member.
type memberCopy struct {
	state     copyState
	lease     driver.Lease // with the member's own token and state
	pending   int          // Acquires without an answer, which the member may still execute
	releasing bool         // it was passed to the member's releaser
}

type copyState uint8

const (
	absent   copyState = iota // the member has no copy, as far as known
	unsure                    // the member may have a copy after an unanswered Acquire, or has a new copy that does not count
	present                   // the member granted it
	returned                  // the member confirmed the release
)

// of returns the member's lease with the TTL, mode and attributes of l.
func (c *memberCopy) of(l *driver.Lease) driver.Lease {
	lease := c.lease
	lease.TTL, lease.Mode, lease.Attrs = l.TTL, l.Mode, l.Attrs
	return lease
}

// attempt is one Acquire of a grant. It is guarded by the grant's mu.
type attempt struct {
	request   driver.Request
	repeated  bool  // the grant exists already: only copies that still exist count
	granted   bool  // a majority of existing copies confirmed it
	newCopies []int // members that made a new copy before granted was set
}

// startAttempt records that all members receive an Acquire for r.
func (g *grant) startAttempt(r *driver.Request) *attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		c := &g.copies[i]
		c.pending++
		if c.state != present {
			c.lease.Request = *r
		}
	}
	return &attempt{request: *r, repeated: !g.until.IsZero()}
}

// acquired records the answer of a member to an Acquire, and returns the error that
// counts for the majority. For a repeated Acquire, a new copy does not count, because
// another client may have held the lock while this member had none. New copies count from
// then on if a majority of the old ones is confirmed, otherwise never. If the grant has
// ended, the copy is released.
func (g *grant) acquired(i int, a *attempt, l driver.Lease, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.copies[i]
	c.pending--
	switch {
	case err == nil:
		fresh := a.repeated && (c.state != present || c.lease.Token != l.Token)
		l.Request, l.Unanswered = a.request, c.lease.Unanswered
		c.state, c.lease = present, l
		if fresh && !a.granted {
			c.state = unsure
			a.newCopies = append(a.newCopies, i)
			err = errNewCopy
		}
	case driver.VerdictOf(err).LeavesNothing(): // the member made no copy
	default:
		c.lease.Unanswered = true
		if c.state != present {
			c.state = unsure
		}
	}
	if g.ended {
		g.releaseLater(i)
	}
	return err
}

var errNewCopy = fmt.Errorf("%w: the store no longer had its copy", driver.ErrLost)

// granted records that enough members granted the attempt, which lasts at least until the
// given time.
func (g *grant) granted(a *attempt, until time.Time) {
	g.mu.Lock()
	a.granted = true
	for _, i := range a.newCopies {
		if c := &g.copies[i]; c.state == unsure {
			c.state = present
		}
	}
	g.mu.Unlock()
	g.extend(until)
}

// end releases in the background all copies that members have made or may still make.
func (g *grant) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for i := range g.copies {
		g.releaseLater(i)
	}
}

// release ends the grant. It returns the member leases to release, by the index of the
// member, and the number of members that confirmed a release before.
func (g *grant) release(l *driver.Lease) (leases map[int]driver.Lease, before int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended, g.releasedAs = true, l.Attrs
	leases = make(map[int]driver.Lease, len(g.copies))
	for i := range g.copies {
		switch c := &g.copies[i]; {
		case c.pending > 0: // otherwise the member's late copy would not be released
			lease := c.of(l)
			lease.Unanswered = true
			leases[i] = lease
		case c.state == present || c.state == unsure:
			leases[i] = c.of(l)
		case c.state == returned:
			before++
		}
	}
	return leases, before
}

// present returns the member leases of all copies that count, and the indexes of their
// members.
func (g *grant) present(l *driver.Lease) (leases []driver.Lease, at []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	leases = make([]driver.Lease, len(g.copies))
	for i := range g.copies {
		if c := &g.copies[i]; c.state == present && !g.ended {
			leases[i] = c.of(l)
			at = append(at, i)
		}
	}
	return leases, at
}

// releaseLater releases a member's copy in the background. The caller holds mu.
func (g *grant) releaseLater(i int) {
	c := &g.copies[i]
	if c.releasing || c.state != present && c.state != unsure {
		return
	}
	c.releasing = true
	lease := c.lease
	if g.releasedAs != nil {
		lease.Attrs = g.releasedAs
	}
	g.quorum.members[i].releaser.Add(lease)
}

// released records the answer of a member to Release.
func (g *grant) released(i int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.copies[i].state = returned
	case driver.VerdictOf(err).IsAnswer():
		g.copies[i].state = absent
	default:
		g.releaseLater(i)
	}
}

// renewed records the answer of a member to Renew.
func (g *grant) renewed(i int, o renewal.Outcome) {
	if !o.IsLost() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := &g.copies[i]; c.state == present {
		c.state = absent
	}
}

// extend records that the grant lasts at least until the given time.
func (g *grant) extend(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// isEnded reports whether a release of the grant has begun.
func (g *grant) isEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// expired reports whether the lease of the grant has ended.
func (g *grant) expired(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.until)
}

var errRefused = fmt.Errorf("quorumstore: %w: the acquisition was given up", basic.Unprefixed(driver.ErrNotAcquired))

// grantFor returns the existing grant of an owner, or a new one.
func (q *Store) grantFor(ctx context.Context, r *driver.Request) (*grant, error) {
	if err := basic.Cause(ctx); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wrong != nil {
		return nil, q.wrong
	}
	if _, ok := q.tombstones[r.Owner]; ok {
		return nil, errRefused
	}
	switch g := q.grants[r.Owner]; {
	case g == nil || g.key != r.Key || g.expired(time.Now()):
	case g.isEnded():
		return nil, errRefused
	default:
		return g, nil
	}
	return &grant{quorum: q, owner: r.Owner, key: r.Key, try: q.tryOwner(r.Owner), copies: make([]memberCopy, len(q.members))}, nil
}

// remember stores a grant by its owner, so that a lease without a State finds it.
func (q *Store) remember(g *grant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grants[g.owner] = g
	q.sweep()
}

// fail ends a grant whose Acquire failed, and stores it for a Release by its owner. It
// does not store the grant if other clients hold the lock, because the owner then sends
// no Release.
func (q *Store) fail(g *grant, until time.Time, held bool) {
	g.end()
	if held {
		return
	}
	g.extend(until)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed[g.owner] = g
	q.sweep()
}

// remove deletes a released grant from the maps, and marks its released copies as absent.
func (q *Store) remove(g *grant) {
	q.mu.Lock()
	if q.grants[g.owner] == g {
		delete(q.grants, g.owner)
	}
	delete(q.failed, g.owner)
	q.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		if c := &g.copies[i]; c.state == returned {
			c.state = absent
		}
	}
}

// addTombstone makes the Store refuse later requests of an owner.
func (q *Store) addTombstone(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tombstones[owner] = time.Now().Add(tombstoneTime)
	q.sweep()
}

// find returns the grant of a lease, or nil if there is none.
func (q *Store) find(l *driver.Lease) *grant {
	if l.Token != 0 { // leases of this Store have no token
		return nil
	}
	if g, ok := l.State.(*grant); ok && g.quorum == q && g.owner == l.Owner && g.key == l.Key {
		return g
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.grants[l.Owner]; g != nil && g.key == l.Key {
		return g
	}
	return nil
}

// findFailed returns the failed attempt of a lease's owner, which may have left copies,
// or nil.
func (q *Store) findFailed(l *driver.Lease) *grant {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.failed[l.Owner]; g != nil && g.key == l.Key {
		return g
	}
	return nil
}

// sweep is called once per entry that is added to the maps. It removes expired entries
// after as many additions as a quarter of the maps' size, so each addition pays for about
// four checks. It counts additions rather than growth: the maps do not grow while locks
// come and go, and lost leases that were never released would stay. The caller holds mu,
// which is locked before that of any grant.
func (q *Store) sweep() {
	q.added++
	if q.added < max(minSweep, (len(q.grants)+len(q.failed)+len(q.tombstones))/4) {
		return
	}
	q.added = 0
	now := time.Now()
	for _, grants := range []map[string]*grant{q.grants, q.failed} {
		maps.DeleteFunc(grants, func(_ string, g *grant) bool { return g.expired(now) })
	}
	for owner, end := range q.tombstones {
		if !now.Before(end) {
			delete(q.tombstones, owner)
		}
	}
}
