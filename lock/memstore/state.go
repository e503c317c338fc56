// A key: its leases, its queue, and what they leave room for.

package memstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// state holds the leases and the waiters of one key. A key without a lease has no waiters and no
// state.
type state struct {
	key       string
	index     int         // in Store.all
	mode      driver.Mode // of all leases; waiters may be Read while it is Write, and the other way round
	lastToken uint64      // token of the last lease

	leases  map[string]*holder // by owner
	due     time.Time          // no lease ends before
	permits int                // of all leases

	queue   []*waiter          // in order of arrival
	members map[string]*member // with a holder or a waiter
	walk    int                // number of walks through the queue
}

// holder is one lease.
type holder struct {
	owner    string // the key in state.leases
	kept     bool   // released before its MinHold had passed: until then it is held by nobody
	token    uint64
	until    time.Time
	members  []*member
	permits  int // 1 in all modes but Permit
	metadata string
	wanted   *func() // of Watch, until it is called; or nil
}

// waiter is a call of Wait that has not acquired its lock yet.
type waiter struct {
	request driver.Request
	queued  bool          // in the queue of its key
	since   time.Time     // when it entered the queue
	members []*member     // while it is queued
	wakeup  chan struct{} // the waiter must try again: it has the lock, or is the first in the queue
}

// member is a member of a group that has a holder or a waiter.
type member struct {
	name    string
	holder  *holder // nil if the member is free
	waiters int
	walk    int // the last walk through the queue that has met a waiter for the member
}

// related reports whether a key can have leases and waiters of both modes.
func related(a, b driver.Mode) bool {
	return a == b || min(a, b) == driver.Read && max(a, b) == driver.Write
}

// find returns the state of a key, after ending expired leases, or nil if the key is free.
func (s *Store) find(key string, now time.Time) *state {
	k := s.keys[key]
	if k == nil || !s.expire(k, now) {
		return nil
	}
	return k
}

// held returns the state of the key of a lease, or nil, and the lease of its owner, or nil.
func (s *Store) held(l *driver.Lease, now time.Time) (*state, *holder) {
	k := s.find(l.Key, now)
	if k == nil {
		return nil, nil
	}
	return k, k.leases[l.Owner]
}

// create adds a key, to which the caller gives a lease. It looks at two other keys, so that expired
// leases are removed even if no caller asks for their keys. It goes from the last key to
// the first, because settle moves keys forward only.
func (s *Store) create(r driver.Request, now time.Time) *state {
	for range min(2, len(s.all)) {
		if s.hand == 0 || s.hand > len(s.all) {
			s.hand = len(s.all)
		}
		s.hand--
		s.expire(s.all[s.hand], now)
	}
	if s.keys == nil {
		s.keys = make(map[string]*state)
	}
	k := &state{key: r.Key, mode: r.Mode, index: len(s.all), leases: make(map[string]*holder)}
	s.keys[k.key], s.all = k, append(s.all, k)
	return k
}

// expire ends the leases that have expired, and reports whether the key is still held.
func (s *Store) expire(k *state, now time.Time) bool {
	if now.Before(k.due) {
		return true
	}
	before := len(k.leases)
	k.due = time.Time{}
	for _, h := range k.leases {
		switch {
		case !now.Before(h.until):
			k.drop(h)
		case k.due.IsZero() || h.until.Before(k.due):
			k.due = h.until
		}
	}
	if len(k.leases) < before {
		s.settle(k, now)
	}
	return len(k.leases) > 0
}

// settle grants the lock to waiters in order, up to the first one that must wait, and
// removes the key if it is free then. Waiters for members are served in order only where they want
// the same members. Each call that ends leases or removes a waiter calls settle.
func (s *Store) settle(k *state, now time.Time) {
	k.walk++
	for i := 0; i < len(k.queue); {
		w := k.queue[i]
		if k.isFreeFor(w) {
			s.grant(k, w.request, now)
			k.dequeue(w)
			w.wake()
			continue
		}
		if i++; k.mode != driver.Members {
			break
		}
	}
	k.wakeFirst()
	if len(k.leases) > 0 {
		return
	}
	last := s.all[len(s.all)-1]
	s.all[k.index], last.index = last, k.index
	s.all[len(s.all)-1] = nil
	s.all = s.all[:len(s.all)-1]
	delete(s.keys, k.key)
}

// grant adds a lease for the request.
func (s *Store) grant(k *state, r driver.Request, now time.Time) *holder {
	s.token = max(s.token+1, uint64(now.UnixMicro()))
	h := &holder{
		owner: r.Owner, token: s.token, until: now.Add(r.TTL),
		members: k.membersOf(r), permits: r.Permits(), metadata: r.Metadata(),
	}
	for _, m := range h.members {
		m.holder = h
	}
	if len(k.leases) == 0 || h.until.Before(k.due) {
		k.due = h.until
	}
	k.leases[h.owner] = h
	k.mode, k.lastToken = r.Mode, h.token
	k.permits += h.permits
	return h
}

// extend moves the end of a lease, but never back: a late request with an earlier, shorter
// TTL takes nothing away.
func (h *holder) extend(until time.Time) {
	if until.After(h.until) {
		h.until = until
	}
}

// keep ends a lease, but keeps what it holds taken by nobody until the given time. No request of
// the former owner finds it.
func (k *state) keep(h *holder, until time.Time) {
	delete(k.leases, h.owner)
	h.owner = fmt.Sprint("kept ", h.token)
	k.leases[h.owner] = h
	h.kept, h.until = true, until
	if until.Before(k.due) {
		k.due = until
	}
}

// drop ends a lease and frees its members.
func (k *state) drop(h *holder) {
	delete(k.leases, h.owner)
	k.permits -= h.permits
	for _, m := range h.members {
		m.holder = nil
		k.forget(m)
	}
}

// isKept reports whether the key, of mode Exclusive, is held by nobody.
func (k *state) isKept() bool {
	for _, h := range k.leases {
		return h.kept
	}
	return false
}

// end returns the end of the lease that ends last, or the zero Time if there is none.
func (k *state) end() (end time.Time) {
	for _, h := range k.leases {
		if h.until.After(end) {
			end = h.until
		}
	}
	return end
}

// compatible reports whether the leases allow a request of any mode but Members.
func (k *state) compatible(r driver.Request) bool {
	switch r.Mode {
	case driver.Read:
		return len(k.leases) == 0 || k.mode == driver.Read
	case driver.Permit:
		return k.permits+r.Permits() <= r.Limit()
	}
	return len(k.leases) == 0
}

// isFreeFor reports whether the leases, and the waiters that the walk through the queue has met, allow
// what a waiter wants.
func (k *state) isFreeFor(w *waiter) bool {
	if w.request.Mode != driver.Members {
		return k.compatible(w.request)
	}
	free := true
	for _, m := range w.members {
		free = free && m.holder == nil && m.walk != k.walk
		m.walk = k.walk
	}
	return free
}

// canGrant reports whether a request can be granted without overtaking a waiter.
func (k *state) canGrant(r driver.Request) bool {
	if r.Mode != driver.Members {
		return len(k.queue) == 0 && k.compatible(r)
	}
	return !slices.ContainsFunc(r.Members(), func(name string) bool { return k.members[name] != nil })
}

// blockedFor returns the time until enough of the blocking leases have ended, or 0 if
// only waiters block the request. For a batch it also returns the member whose lease ends
// last, or else a member that has waiters.
func (k *state) blockedFor(r driver.Request, now time.Time) (expiresIn time.Duration, blocking string) {
	var end time.Time
	switch {
	case r.Mode == driver.Members:
		for _, name := range r.Members() {
			m := k.members[name]
			if m == nil {
				continue
			}
			if m.holder != nil && m.holder.until.After(end) {
				end, blocking = m.holder.until, name
			}
			blocking = cmp.Or(blocking, name)
		}
	case k.compatible(r):
	case r.Mode == driver.Permit:
		leases := slices.SortedFunc(maps.Values(k.leases), func(a, b *holder) int { return a.until.Compare(b.until) })
		for left, i := k.permits, 0; left+r.Permits() > r.Limit(); i++ {
			left, end = left-leases[i].permits, leases[i].until
		}
	default:
		end = k.end()
	}
	if end.IsZero() {
		return 0, blocking
	}
	return end.Sub(now), blocking
}

// ask notifies the holders that others wait, if there are waiters.
func (k *state) ask() {
	if len(k.queue) == 0 {
		return
	}
	for _, h := range k.leases {
		if h.wanted != nil {
			(*h.wanted)()
			h.wanted = nil
		}
	}
}

// enqueue appends a waiter to the queue.
func (k *state) enqueue(w *waiter, now time.Time) {
	k.queue, w.queued, w.since = append(k.queue, w), true, now
	w.members = k.membersOf(w.request)
	for _, m := range w.members {
		m.waiters++
	}
	k.ask()
}

// dequeue removes a waiter from the queue.
func (k *state) dequeue(w *waiter) {
	i := slices.Index(k.queue, w)
	k.queue = slices.Delete(k.queue, i, i+1)
	for _, m := range w.members {
		m.waiters--
		k.forget(m)
	}
	w.queued, w.members = false, nil
}

// membersOf returns the members that a request is for, and creates the missing ones.
func (k *state) membersOf(r driver.Request) []*member {
	names := r.Members()
	if len(names) > 0 && k.members == nil {
		k.members = make(map[string]*member)
	}
	members := make([]*member, len(names))
	for i, name := range names {
		if k.members[name] == nil {
			k.members[name] = &member{name: name}
		}
		members[i] = k.members[name]
	}
	return members
}

// forget removes a member without holder and waiters.
func (k *state) forget(m *member) {
	if m.holder == nil && m.waiters == 0 {
		delete(k.members, m.name)
	}
}

// wakeFirst wakes the first waiter, which sets its timer to the end of the lease that ends first.
func (k *state) wakeFirst() {
	if len(k.queue) > 0 {
		k.queue[0].wake()
	}
}

func (w *waiter) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default: // a wakeup is pending already
	}
}
