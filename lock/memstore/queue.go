package memstore

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// queue holds the waiters of a key.
type queue struct {
	head, tail *waiter // in order of arrival
	n          int
	ready      []*waiter // waiters whose members may all be free; some may have left the queue

	// The head of the queue sleeps until the first lease ends. timedWaiter is the last
	// waiter that did so, and timedUntil is the end of its sleep.
	timedWaiter *waiter
	timedUntil  time.Time
}

// waiter is a call of Wait that has not acquired its lock yet.
type waiter struct {
	request driver.Request

	// wakeup makes the waiter try again, because it has the lock now or became the head
	// of the queue.
	wakeup chan struct{}

	// The fields below are guarded by state.mu.
	queued     bool // in the queue of its key
	prev, next *waiter
	claims     []claim // one per member of the request
	blocked    int     // number of claims that are not the first of their member, or whose member is held
}

// member is a member of a group that has a holder or a waiter.
type member struct {
	name        string
	holder      *holder // nil if the member is free
	first, last *claim  // in order of arrival
}

// claim is the place of a waiter in the queue of one member.
type claim struct {
	waiter     *waiter
	member     *member
	prev, next *claim
}

// memberOf returns the member with the given name, and creates it if there is none.
func (k *state) memberOf(name string) *member {
	m, ok := k.members.get(name)
	if !ok {
		m = &member{name: name}
		k.members.put(name, m)
	}
	return m
}

// enqueue appends a waiter to the queue.
func (k *state) enqueue(w *waiter) {
	w.queued, w.prev, w.next = true, k.tail, nil
	if w.prev == nil {
		k.head = w
	} else {
		w.prev.next = w
	}
	k.tail = w
	k.n++
	names := w.request.Members()
	if len(names) == 0 {
		return
	}
	w.blocked = 0
	w.claims = make([]claim, len(names))
	for i, name := range names {
		m, c := k.memberOf(name), &w.claims[i]
		c.waiter, c.member, c.prev = w, m, m.last
		if c.prev == nil {
			m.first = c
		} else {
			c.prev.next = c
		}
		m.last = c
		if m.holder != nil || m.first != c {
			w.blocked++
		}
	}
	if w.blocked == 0 {
		k.ready = append(k.ready, w)
	}
}

// dequeue removes a waiter from the queue. Its members go to the holder, or to the
// waiters behind it if holder is nil.
func (k *state) dequeue(w *waiter, holder *holder) {
	if w.prev == nil {
		k.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		k.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	k.n--
	for i := range w.claims {
		k.removeClaim(&w.claims[i], holder)
	}
	w.claims = nil
}

// removeClaim removes a claim from its member. The member goes to the holder if that is
// not nil.
func (k *state) removeClaim(c *claim, holder *holder) {
	m, first := c.member, c.prev == nil
	if first {
		m.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		m.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	switch {
	case holder != nil:
		m.holder = holder
		holder.members = append(holder.members, m)
	case first && m.holder == nil:
		k.unblock(m)
	}
}

// unblock gives up one obstacle of the member's first waiter: the member has become free,
// or the waiter has become its first. A member without waiters is removed.
func (k *state) unblock(m *member) {
	if m.first == nil {
		k.members.remove(m.name)
		return
	}
	w := m.first.waiter
	if w.blocked--; w.blocked == 0 {
		k.ready = append(k.ready, w)
	}
}

// nextGrantable returns a waiter whose request can be granted now, or nil if there is
// none.
func (k *state) nextGrantable() *waiter {
	if k.family != driver.Members {
		if k.head != nil && k.compatible(k.head.request) {
			return k.head
		}
		return nil
	}
	for len(k.ready) > 0 {
		w := k.ready[0]
		k.ready[0] = nil
		k.ready = k.ready[1:]
		if w.queued && w.blocked == 0 {
			return w
		}
	}
	k.ready = nil
	return nil
}

// wakeHead wakes the head of the queue if it sleeps past the end of a lease.
func (k *state) wakeHead() {
	switch {
	case k.head == nil:
		k.timedWaiter, k.timedUntil = nil, time.Time{}
	case k.timedWaiter != k.head || k.holders.ends.first != nil && k.holders.ends.first.until.Before(k.timedUntil):
		k.head.wake()
	}
}

func (w *waiter) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default: // a wakeup is pending already
	}
}
