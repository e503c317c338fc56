// The reference: the rules of shared locks in plain Go.

package shared

import (
	"slices"
	"strconv"
)

// Modes in the scripts.
const (
	read    = 'r'
	write   = 'w'
	permit  = 'p'
	members = 'm'
)

const memory = 600_000 // ms for which the server remembers the last token

// request is a request for the lock. Times are in ms.
type request struct {
	owner      string
	mode       byte
	limit      int
	permits    int    // in mode permit; 0 means 1
	members    string // one letter each
	ttl, place int64
}

// wanted returns the number of permits.
func (a request) wanted() int { return max(a.permits, 1) }

// count returns the argument of the scripts that depends on the mode.
func (a request) count() string {
	switch {
	case a.mode == members:
		return strconv.Itoa(len(a.members))
	case a.permits > 1:
		return strconv.Itoa(a.limit) + "/" + strconv.Itoa(a.permits)
	}
	return strconv.Itoa(a.limit)
}

func (a request) family() byte {
	if a.mode == write {
		return read
	}
	return a.mode
}

// lease is a lease, or a place in the queue, which has token 0.
type lease struct {
	request
	token uint64
	since int64 // the arrival of a waiter
	end   int64
	kept  bool // released: it keeps its members taken by nobody until its end
}

// reply is the reply to an acquire request.
type reply struct {
	code  int // -1 refused, 0 not granted, 1 granted, 2 wrong type, 3 members not known
	token uint64
	ms    int64
	head  int
}

// reference is the reference of one shared lock.
type reference struct {
	now         int64
	storedToken uint64 // the stored token
	tokenExpiry int64  // when the server forgets it
	leases      map[string]*lease
	queue       []*lease
	tombstones  map[string]int64

	lastToken uint64 // the last token during an operation
}

func newReference(now int64) *reference {
	return &reference{now: now, leases: map[string]*lease{}, tombstones: map[string]int64{}}
}

// expire removes expired leases and tokens. New tokens are at least the time in
// microseconds.
func (r *reference) expire() {
	for owner, l := range r.leases {
		if l.end <= r.now {
			delete(r.leases, owner)
		}
	}
	if r.tokenExpiry <= r.now {
		r.storedToken = 0
	}
	r.lastToken = max(r.storedToken, uint64(r.now)*1000-1)
}

// expiryIn returns the time that is ms from now. The present is rounded down to ms, so
// one ms is added.
func (r *reference) expiryIn(ms int64) int64 { return r.now + ms + 1 }

func (r *reference) grant(t *lease, end int64) *lease {
	r.lastToken++
	r.storedToken = r.lastToken
	r.tokenExpiry = int64(r.lastToken/1000) + memory
	l := *t
	l.token, l.end = r.lastToken, end
	r.leases[t.owner] = &l
	return &l
}

func (r *reference) placeOf(owner string) *lease {
	for _, p := range r.queue {
		if p.owner == owner {
			return p
		}
	}
	return nil
}

// otherFamily reports whether the lock is in use in a mode of another family.
func (r *reference) otherFamily(a request) bool {
	for _, l := range r.leases {
		if l.family() != a.family() {
			return true
		}
	}
	return slices.ContainsFunc(r.queue, func(p *lease) bool { return p.end > r.now && p.family() != a.family() })
}

// acquireUnsent is acquire without the members, which the owner sent earlier.
func (r *reference) acquireUnsent(a request) reply {
	r.expire()
	if r.tombstones[a.owner] <= r.now && !r.otherFamily(a) && r.leases[a.owner] == nil {
		if p := r.placeOf(a.owner); p == nil || p.family() != a.family() {
			r.queue = slices.DeleteFunc(r.queue, func(p *lease) bool { return p.family() != a.family() })
			return reply{code: 3}
		}
	}
	return r.acquire(a)
}

func (r *reference) acquire(a request) reply {
	r.expire()
	if r.tombstones[a.owner] > r.now {
		return reply{code: -1}
	}
	if r.otherFamily(a) {
		return reply{code: 2}
	}
	r.queue = slices.DeleteFunc(r.queue, func(p *lease) bool { return p.family() != a.family() })
	if l := r.leases[a.owner]; l != nil && l.kept {
		return reply{token: r.lastToken, ms: max(l.end-r.expiryIn(0), 1)}
	} else if l != nil {
		return r.reacquire(l, a)
	}
	place := r.placeOf(a.owner)
	if place != nil && place.mode != a.mode {
		return reply{token: r.lastToken}
	}
	if place != nil && a.place > 0 {
		place.end = r.expiryIn(a.place)
	}
	r.queue = slices.DeleteFunc(r.queue, func(p *lease) bool { return p.end <= r.now && p != place })
	reserved := r.grantWaiters()
	if l := r.leases[a.owner]; l != nil {
		l.end = r.expiryIn(a.ttl)
		return reply{code: 1, token: l.token}
	}
	if place == nil {
		t := &lease{request: a}
		if (a.mode == members || len(r.queue) == 0) && r.canGrant(a, reserved) {
			return reply{code: 1, token: r.grant(t, r.expiryIn(a.ttl)).token}
		}
		if a.place > 0 {
			t.since, t.end = r.now, r.expiryIn(a.place)
			r.queue = append(r.queue, t)
		}
	}
	return r.notGranted(a)
}

// reacquire handles a request of an owner that holds a lease.
func (r *reference) reacquire(l *lease, a request) reply {
	switch {
	case l.mode == write && a.mode == read:
		l.mode = read
		r.grantWaiters()
	case l.mode != a.mode:
		return reply{token: r.lastToken}
	}
	l.end = max(l.end, r.expiryIn(a.ttl)) // no request shortens a lease
	return reply{code: 1, token: l.token}
}

// grantWaiters grants the lock to waiters in order. It returns the members that the
// remaining waiters have reserved.
func (r *reference) grantWaiters() map[rune]bool {
	reserved := map[rune]bool{}
	for i := 0; i < len(r.queue); {
		p := r.queue[i]
		switch {
		case p.end <= r.now:
			r.queue = slices.Delete(r.queue, i, i+1)
		case r.canGrant(p.request, reserved):
			r.grant(p, p.end)
			r.queue = slices.Delete(r.queue, i, i+1)
		case p.mode == members:
			for _, m := range p.members {
				reserved[m] = true
			}
			i++
		default:
			return reserved
		}
	}
	return reserved
}

func (r *reference) canGrant(a request, reserved map[rune]bool) bool {
	for _, m := range a.members {
		if reserved[m] {
			return false
		}
	}
	switch a.mode {
	case permit:
		return r.permitsHeld()+a.wanted() <= a.limit
	case write:
		return len(r.leases) == 0
	}
	for _, l := range r.leases {
		if l.mode == write || common(l.members, a.members) {
			return false
		}
	}
	return true
}

func (r *reference) permitsHeld() (n int) {
	for _, l := range r.leases {
		n += l.wanted()
	}
	return n
}

func common(a, b string) bool {
	for _, m := range a {
		for _, n := range b {
			if m == n {
				return true
			}
		}
	}
	return false
}

// blockingEnds returns the ends of the leases that block a request, in order. A lease of
// several permits occurs once for each.
func (r *reference) blockingEnds(a request) []int64 {
	var blockingEnds []int64
	for _, l := range r.leases {
		if a.mode != members || common(l.members, a.members) {
			blockingEnds = append(blockingEnds, slices.Repeat([]int64{l.end}, l.wanted())...)
		}
	}
	slices.Sort(blockingEnds)
	return blockingEnds
}

// blocksFor reports whether a blocking lease ends in ms. For members the server may
// report any of the blocking leases.
func (r *reference) blocksFor(a request, ms int64) bool {
	return slices.ContainsFunc(r.blockingEnds(a), func(end int64) bool { return ms == max(end-r.expiryIn(0), 1) })
}

// notGranted returns the reply to a request that is not granted now.
func (r *reference) notGranted(a request) reply {
	blockingEnds := r.blockingEnds(a)
	which := len(blockingEnds) - 1
	if a.mode == permit {
		which -= a.limit - a.wanted()
	}
	ms := int64(0)
	if which >= 0 {
		ms = max(blockingEnds[which]-r.expiryIn(0), 1)
	}
	head := 0
	if a.mode == members && ms > 0 || len(r.queue) > 0 && r.queue[0].owner == a.owner {
		head = 1
	}
	return reply{token: r.lastToken, ms: ms, head: head}
}

// release ends a lease or a place. A lease whose members stay taken for keep ms is not
// deleted, and serves no waiter.
func (r *reference) release(owner string, tombstone, keep int64) int {
	r.expire()
	done := 0
	if l := r.leases[owner]; l != nil && !l.kept {
		done = 1
		if keep > 0 {
			l.kept, l.end = true, r.expiryIn(keep)
		} else {
			delete(r.leases, owner)
		}
	} else if i := slices.IndexFunc(r.queue, func(p *lease) bool { return p.owner == owner }); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		done = 2
	}
	if done == 2 || done == 1 && keep == 0 {
		r.grantWaiters()
	}
	if tombstone > 0 {
		r.tombstones[owner] = r.now + tombstone
	}
	return done
}

// renew renews a lease.
func (r *reference) renew(owner string, token uint64, ttl int64) bool {
	r.expire()
	l := r.leases[owner]
	if l == nil || l.token != token || l.kept {
		return false
	}
	l.end = max(l.end, r.expiryIn(ttl))
	return true
}

func (r *reference) force(seen uint64) int {
	r.expire()
	done := 0
	for owner, l := range r.leases {
		if l.token <= seen {
			delete(r.leases, owner)
			done++
		}
	}
	if done > 0 {
		r.grantWaiters()
	}
	return done
}

// violation describes a violation of mutual exclusion in the reference, or returns "".
func (r *reference) violation() string {
	writers, readers := 0, 0
	for owner, l := range r.leases {
		if l.end <= r.now {
			continue
		}
		switch l.mode {
		case write:
			writers++
		case read:
			readers++
		}
		for other, k := range r.leases {
			if other != owner && k.end > r.now && common(l.members, k.members) {
				return "a member with two owners"
			}
		}
	}
	if writers > 1 || writers == 1 && readers > 0 {
		return "a writer beside another holder"
	}
	return ""
}
