package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// grant is one try to get a lock, and then what each member has of it. It is the
// State of the lease.
type grant struct {
	quorum *quorum
	owner  string // to whom it belongs
	key    string
	try    string // the owner by which the members know it

	mu     sync.Mutex // guards all below; of a member only Lane, which does no IO, is called with it
	copies []copied   // one for each member
	ended  bool       // nobody wants it any more
	until  time.Time  // when it is over unless it is renewed
}

// copied is what one member has of a grant.
type copied struct {
	state   copyState
	lease   Lease // with the member's own token and state
	pending int   // Acquires under way, which may be executed yet
	cleaned bool  // it was given to the member's cleaner
}

type copyState uint8

const (
	absent   copyState = iota // the member is not known to have it
	unsure                    // it may have it: there was no answer, and may be none; or has it anew, which does not count
	present                   // it has granted it
	returned                  // it was released
)

// of returns the lease that the member has of l.
func (c *copied) of(l *Lease) Lease {
	lease := c.lease
	lease.TTL, lease.Mode, lease.Extra = l.TTL, l.Mode, l.Extra
	return lease
}

// asking is one Acquire of a grant, whose mu guards it.
type asking struct {
	request Request
	again   bool  // it was granted before: only the copies that were there count
	granted bool  // by those
	fresh   []int // members that have granted it anew before that was known
}

// ask notes that all members are asked for r.
func (g *grant) ask(r *Request) *asking {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		c := &g.copies[i]
		c.pending++
		if c.state != present {
			c.lease.Request = *r
		}
	}
	return &asking{request: *r, again: !g.until.IsZero()}
}

// acquired notes the answer of a member to an Acquire, and returns what it counts as.
// If the grant is asked for again only the copies that were there before count: others
// may have held the lock since a new one was free to be taken. The new ones count from
// then on if enough of the others are left, and if not never. If nobody wants the grant
// any more what was granted is given back.
func (g *grant) acquired(i int, a *asking, l Lease, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.copies[i]
	c.pending--
	switch {
	case err == nil:
		fresh := a.again && (c.state != present || c.lease.Token != l.Token)
		l.Request, l.Unanswered = a.request, c.lease.Unanswered
		c.state, c.lease = present, l
		if fresh && !a.granted {
			c.state = unsure
			a.fresh = append(a.fresh, i)
			err = errNewCopy
		}
	case final(err) || errors.Is(err, errBusyMember): // it has taken nothing
	default:
		c.lease.Unanswered = true
		if c.state != present {
			c.state = unsure
		}
	}
	if g.ended {
		g.clean(i)
	}
	return err
}

var errNewCopy = fmt.Errorf("%w: the store had not got it any more", ErrLost)

// granted notes that enough members have granted what was asked for, which lasts until
// then at least.
func (g *grant) granted(a *asking, until time.Time) {
	g.mu.Lock()
	a.granted = true
	for _, i := range a.fresh {
		if c := &g.copies[i]; c.state == unsure {
			c.state = present
		}
	}
	g.mu.Unlock()
	g.extend(until)
}

// end has everything given back that members granted or may yet grant.
func (g *grant) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for i := range g.copies {
		g.clean(i)
	}
}

// release ends the grant and returns the leases of l to be released, by the index
// of the member, and how many were released before.
func (g *grant) release(l *Lease) (leases map[int]Lease, before int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	leases = make(map[int]Lease, len(g.copies))
	for i := range g.copies {
		switch c := &g.copies[i]; {
		case c.pending > 0: // or its grant would be one that nobody has given back
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

// clean has a member's copy released in the background. The caller holds mu.
func (g *grant) clean(i int) {
	c := &g.copies[i]
	if c.cleaned || c.state != present && c.state != unsure {
		return
	}
	c.cleaned = true
	g.quorum.members[i].cleaner.add(c.lease)
}

// released notes the answer of a member to Release.
func (g *grant) released(i int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.copies[i].state = returned
	case errors.Is(err, ErrNotHeld) || final(err):
		g.copies[i].state = absent
	default:
		g.clean(i)
	}
}

// renewed notes the answer of a member to Renew.
func (g *grant) renewed(i int, o renewal.Outcome) {
	if o != renewal.Lost {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := &g.copies[i]; c.state == present {
		c.state = absent
	}
}

// extend notes that the grant lasts until then at least.
func (g *grant) extend(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// isEnded reports whether the grant was released, at least in part.
func (g *grant) isEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// over reports whether nothing is left of the grant.
func (g *grant) over(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.until)
}

var errQuorumGivenUp = fmt.Errorf("lock: quorum: %w: the acquisition was given up", bareError{ErrNotAcquired})

// open returns the grant that an owner has, or a new one.
func (q *quorum) open(ctx context.Context, r *Request) (*grant, error) {
	if err := endOf(ctx); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.tombs[r.Owner]; ok {
		return nil, errQuorumGivenUp
	}
	switch g := q.grants[r.Owner]; {
	case g == nil || g.key != r.Key || g.over(time.Now()):
	case g.isEnded():
		return nil, errQuorumGivenUp
	default:
		return g, nil
	}
	return &grant{quorum: q, owner: r.Owner, key: r.Key, try: q.tryOwner(r.Owner), copies: make([]copied, len(q.members))}, nil
}

// keep remembers a grant for its owner, who may ask for it by its name alone.
func (q *quorum) keep(g *grant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grants[g.owner] = g
	q.tidy()
}

// giveUp ends a grant that failed, and remembers it for a Release by its owner, who does
// not ask for one if others hold the lock.
func (q *quorum) giveUp(g *grant, until time.Time, err error) {
	g.end()
	if errors.As(err, new(*HeldError)) {
		return
	}
	g.extend(until)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed[g.owner] = g
	q.tidy()
}

// forget ends what is known of a grant that was released: it is not held any more.
func (q *quorum) forget(g *grant) {
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

// refuse has an owner refused from now on.
func (q *quorum) refuse(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tombs[owner] = time.Now().Add(quorumTombstone)
	q.tidy()
}

// find returns the grant of a lease, nil if there is none.
func (q *quorum) find(l *Lease) *grant {
	if l.Token != 0 { // none that was granted here
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

// findFailed is find for what an Acquire that failed may have left.
func (q *quorum) findFailed(l *Lease) *grant {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.failed[l.Owner]; g != nil && g.key == l.Key {
		return g
	}
	return nil
}

// tidy sweeps once the maps have doubled, so that each entry bears the cost of about
// one look. The caller holds mu, before that of any grant.
func (q *quorum) tidy() {
	if len(q.grants)+len(q.failed)+len(q.tombs) < q.sweep {
		return
	}
	now := time.Now()
	for _, grants := range []map[string]*grant{q.grants, q.failed} {
		maps.DeleteFunc(grants, func(_ string, g *grant) bool { return g.over(now) })
	}
	for owner, end := range q.tombs {
		if !now.Before(end) {
			delete(q.tombs, owner)
		}
	}
	q.sweep = max(2*(len(q.grants)+len(q.failed)+len(q.tombs)), minQuorumSweep)
}
