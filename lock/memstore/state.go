package memstore

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// state holds the leases and the waiters of one key.
type state struct {
	key string // set once

	mu        sync.Mutex  // guards all fields below except node; locked before Store.mu
	removed   bool        // removed from the store: the key may have another state
	family    driver.Mode // mode of all holders and waiters; Write also stands for Read
	lastToken uint64      // token of the last lease
	holders   holders
	queue
	members table[*member] // with a holder or a waiter

	node timelineNode // guarded by Store.mu
}

// holders are the leases of a key.
type holders struct {
	first, last *holder        // in the order of the grants
	n           int            // number of leases, with those that are kept
	kept        int            // number of leases that are kept after their release
	indexed     bool           // byOwner is in use, because there are many leases
	byOwner     table[*holder] // if indexed
	ends        ends
}

// maxUnindexed is the greatest number of leases that are searched one by one.
const maxUnindexed = 8

// holder is one lease.
type holder struct {
	owner      string
	mode       driver.Mode
	token      uint64
	until      time.Time
	members    []*member
	permits    int  // 1 in all modes but Permit
	kept       bool // released before its MinHold had passed: until then it is held by nobody
	metadata   string
	prev, next *holder // in holders
	treeNode           // in holders.ends
}

func familyOf(m driver.Mode) driver.Mode {
	if m == driver.Read {
		return driver.Write
	}
	return m
}

// idle reports whether the key has neither a holder nor a waiter.
func (k *state) idle() bool { return k.holders.n == 0 && k.n == 0 }

// find returns the lease of an owner, or nil if there is none.
func (hs *holders) find(owner string) *holder {
	if hs.indexed {
		if h, _ := hs.byOwner.get(owner); h != nil && !h.kept {
			return h
		}
		return nil
	}
	for h := hs.first; h != nil; h = h.next {
		if h.owner == owner && !h.kept {
			return h
		}
	}
	return nil
}

// add appends a new lease.
func (hs *holders) add(h *holder) {
	h.priority = rand.Uint32()
	if h.prev = hs.last; h.prev == nil {
		hs.first = h
	} else {
		h.prev.next = h
	}
	hs.last = h
	hs.n++
	hs.ends.insert(h)
	switch {
	case hs.indexed:
		hs.byOwner.put(h.owner, h)
	case hs.n > maxUnindexed:
		hs.indexed = true
		for other := hs.first; other != nil; other = other.next {
			hs.byOwner.put(other.owner, other)
		}
	}
}

// extend moves the end of a lease, but never back: a late request with an earlier, shorter
// TTL takes nothing away.
func (hs *holders) extend(h *holder, until time.Time) {
	if until.After(h.until) {
		hs.ends.move(h, until)
	}
}

// remove removes a lease.
func (hs *holders) remove(h *holder) {
	if h.prev == nil {
		hs.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		hs.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	hs.n--
	if h.kept {
		hs.kept--
	}
	hs.ends.remove(h)
	if hs.indexed {
		hs.byOwner.remove(h.owner)
		if hs.n <= maxUnindexed/2 {
			hs.indexed, hs.byOwner = false, table[*holder]{}
		}
	}
}

// compatible reports whether the current holders allow a request of any mode but Members.
func (k *state) compatible(r driver.Request) bool {
	switch r.Mode {
	case driver.Read:
		return k.holders.n == 0 || k.holders.first.mode == driver.Read
	case driver.Permit:
		return k.holders.ends.permits()+r.Permits() <= r.Limit()
	}
	return k.holders.n == 0
}

// canGrant reports whether a request can be granted without overtaking a waiter.
func (k *state) canGrant(r driver.Request) bool {
	if r.Mode != driver.Members {
		return k.n == 0 && k.compatible(r)
	}
	for _, name := range r.Members() {
		if _, ok := k.members.get(name); ok {
			return false
		}
	}
	return true
}

// blockedFor returns the time until enough of the blocking leases have ended, or 0 if
// only waiters block the request. For a batch it also returns the member whose lease ends
// last, or else a member that has waiters.
func (k *state) blockedFor(r driver.Request, now time.Time) (expiresIn time.Duration, blocking string) {
	var end time.Time
	switch {
	case r.Mode == driver.Members:
		for _, name := range r.Members() {
			m, ok := k.members.get(name)
			if !ok {
				continue
			}
			if m.holder != nil && m.holder.until.After(end) {
				end, blocking = m.holder.until, name
			}
			blocking = cmp.Or(blocking, name)
		}
	case k.compatible(r):
	case r.Mode == driver.Permit:
		end = k.holders.ends.nth(k.holders.ends.permits() + r.Permits() - r.Limit() - 1)
	default:
		end = k.holders.ends.last()
	}
	if end.IsZero() {
		return 0, blocking
	}
	return end.Sub(now), blocking
}

// keep ends a lease, but keeps what it holds taken by nobody for the given time. No request of
// the former owner finds it.
func (hs *holders) keep(h *holder, until time.Time) {
	if hs.indexed {
		hs.byOwner.remove(h.owner)
	}
	h.owner, h.metadata, h.kept = "", "", true
	hs.kept++
	hs.ends.move(h, until)
}

// drop ends a lease and frees its members.
func (k *state) drop(h *holder) {
	k.holders.remove(h)
	for _, m := range h.members {
		m.holder = nil
		k.unblock(m)
	}
}
